"use strict";
// Search within the site: the index is a script beside this one, so that it can be read from files too, where browsers
// let a page fetch nothing. Every word has to be there, as the beginning of one; hits in titles come first.
(() => {
  const results = document.getElementById("properdocs-search-results");
  const field = document.getElementById("properdocs-search-query");
  if (!results || !field) return;
  const MOST = 40;
  const AROUND = 90;

  function found(docs, words) {
    const patterns = words.map((word) => new RegExp("(^|[^a-z0-9])" + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"));
    return docs
      .map((each) => {
        const hits = patterns.map((pattern) => (pattern.test(each.title) ? 3 : 0) + (pattern.test(each.text) ? 1 : 0));
        return { each, score: hits.every(Boolean) ? hits.reduce((sum, hit) => sum + hit, 0) : 0, patterns };
      })
      .filter((hit) => hit.score)
      // A part of a page says where; the page as a whole comes behind its parts.
      .sort((a, b) => b.score - a.score || b.each.location.includes("#") - a.each.location.includes("#"));
  }

  function summary(text, pattern) {
    const plain = text.replace(/\s+/g, " ");
    const at = Math.max(plain.search(pattern) - AROUND, 0);
    return (at ? "… " : "") + plain.slice(at, at + 2 * AROUND) + (at + 2 * AROUND < plain.length ? " …" : "");
  }

  function shown(hit) {
    const article = document.createElement("article");
    const heading = document.createElement("h3");
    const link = document.createElement("a");
    link.href = (base_url.endsWith("/") ? base_url : base_url + "/") + hit.each.location;
    link.textContent = hit.each.title;
    const words = document.createElement("p");
    words.textContent = summary(hit.each.text, hit.patterns[0]);
    heading.append(link);
    article.append(heading, words);
    return article;
  }

  function search() {
    const words = field.value.trim().split(/\s+/).filter((word) => word.length > 1);
    const hits = words.length ? found(window.txmqIndex, words) : [];
    const none = document.createElement("p");
    none.textContent = words.length ? results.dataset.noResultsText : "";
    results.replaceChildren(...(hits.length ? hits.slice(0, MOST).map(shown) : [none]));
  }

  const index = document.createElement("script");
  index.src = (base_url.endsWith("/") ? base_url : base_url + "/") + "search/index.js";
  index.addEventListener("load", () => {
    field.value = new URLSearchParams(location.search).get("q") || "";
    field.addEventListener("input", search);
    search();
  });
  document.head.append(index);
})();

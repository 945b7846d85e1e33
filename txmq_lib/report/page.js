"use strict";
// The theme: as the system has it, light, dark. Kept where the browser lets a file keep anything.
const button = document.getElementById("theme");
const THEMES = ["system", "light", "dark"];
const NAMES = { system: "as the system", light: "light", dark: "dark" };
function kept() {
  try { return localStorage.getItem("txmq-theme") || "system"; } catch { return "system"; }
}
function show(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.textContent = "Theme: " + NAMES[theme];
  button.dataset.theme = theme;
}
button.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(button.dataset.theme) + 1) % THEMES.length];
  show(next);
  try { localStorage.setItem("txmq-theme", next); } catch { /* a file may keep nothing */ }
});
show(THEMES.includes(kept()) ? kept() : "system");
button.hidden = false;
// A link to a story opens it.
function openLinked() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.querySelector("summary").focus();
  }
}
addEventListener("hashchange", openLinked);
openLinked();
document.querySelectorAll('a[href*="story-"]').forEach((link) => link.addEventListener("click", () => setTimeout(openLinked)));
// Lists of some length can be filtered, sorted and copied.
const UNITS = { d: 86400, h: 3600, m: 60, s: 1 };
function rank(text) {
  const plain = text.replace(/,/g, "");
  if (plain !== "" && !isNaN(plain)) return +plain;
  const parts = [...text.matchAll(/(\d+)([dhms])/g)];
  const isSpan = parts.length && /^-?(\d+[dhms] ?)+$/.test(text);
  return isSpan ? parts.reduce((sum, [, count, unit]) => sum + count * UNITS[unit], 0) : text.toLowerCase();
}
function compare(one, other) {
  const [a, b] = [rank(one), rank(other)];
  if (typeof a !== typeof b) return typeof a === "number" ? 1 : -1;
  return a < b ? -1 : a > b ? 1 : 0;
}
function sortable(table, head) {
  const rows = () => [...table.tBodies[0].rows];
  [...head.cells].forEach((cell, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = cell.textContent;
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const isDown = cell.getAttribute("aria-sort") !== "descending";
      [...head.cells].forEach((each) => each.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const text = (row) => row.cells[place].textContent;
      rows().sort((a, b) => (isDown ? -1 : 1) * compare(text(a), text(b))).forEach((row) => row.parentNode.append(row));
    });
  });
}
// A spreadsheet takes a cell that begins so for a formula; also by their full-width forms. A number is none.
function defused(text) {
  return /^[=+\-@\uff1d\uff0b\uff0d\uff20]/.test(text) && text !== "-" && typeof rank(text) !== "number" ? "'" + text : text;
}
async function copyText(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* not every place lets a page do so */ }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  return isDone;
}
function tools(table) {
  const bar = document.createElement("div");
  bar.className = "tools";
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Filter";
  field.setAttribute("aria-label", "Filter: " + table.caption.textContent);
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  const rows = () => [...table.tBodies[0].rows];
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows().forEach((row) => { row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word)); });
    said.textContent = words.length ? rows().filter((row) => !row.hidden).length + " of " + rows().length : "";
  });
  const copy = document.createElement("button");
  copy.type = "button";
  copy.textContent = "Copy";
  copy.setAttribute("aria-label", "Copy: " + table.caption.textContent);
  copy.addEventListener("click", async () => {
    const shown = [table.tHead.rows[0], ...rows().filter((row) => !row.hidden)];
    const text = shown.map((row) => [...row.cells].map((cell) => defused(cell.textContent.trim())).join("\t")).join("\n") + "\n";
    said.textContent = (await copyText(text)) ? shown.length - 1 + " rows copied" : "could not be copied";
  });
  bar.append(field, copy, said);
  return bar;
}
document.querySelectorAll("section > .scrolled > table").forEach((table) => {
  if (table.tBodies[0].rows.length < 2 || table.closest(".told")) return;
  sortable(table, table.tHead.rows[0]);
  table.parentNode.before(tools(table));
});
// On paper nothing can be opened: tables and stories are all printed.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((each) => { each.open = true; });
});
addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));

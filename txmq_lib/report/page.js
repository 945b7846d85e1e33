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
document.querySelectorAll('a[href^="#story-"]').forEach((link) => link.addEventListener("click", () => setTimeout(openLinked)));
// On paper nothing can be opened: tables and stories are all printed.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((each) => { each.open = true; });
});
addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));

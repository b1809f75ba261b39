// What scrolls sideways can be reached, and scrolled, by the keyboard; the search has a name.
"use strict";
function reachable() {
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code, .formula").forEach((box, index) => {
    const scrolls = box.scrollWidth > box.clientWidth;
    box.toggleAttribute("tabindex", scrolls);
    if (scrolls) box.setAttribute("tabindex", "0");
    if (!box.matches(".md-typeset__scrollwrap")) return;
    if (scrolls) box.setAttribute("role", "region"); else box.removeAttribute("role");
    if (scrolls) box.setAttribute("aria-label", "table " + (index + 1) + ", scrolls sideways"); else box.removeAttribute("aria-label");
  });
}
window.addEventListener("load", () => {
  document.querySelectorAll(".md-search").forEach(search => search.setAttribute("aria-label", "Search"));
  reachable();
});
window.addEventListener("resize", reachable);

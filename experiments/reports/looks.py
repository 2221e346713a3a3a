"""The style of pages, and the script that sorts their tables and draws their charts."""

import json
from typing import Final

from privrl.experiments.palette import BLACK, GREY
from privrl.experiments.reports.charts import GRID, INK, STRIPE

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1b1b; --quiet: #595959; --line: #d9d9d9;
  --soft: #f5f6f8; --link: #00588f; --page: #fff; --own: #fff1e8; --public: #e8f6f1; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --quiet: #a9a9a9; --line: #444; --soft: #242628; --link: #7cc4f5;
    --page: #16181a; --own: #3a2314; --public: #10302a; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 60rem; color: var(--ink);
  background: var(--page); font: 1.0625rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif;
  overflow-wrap: anywhere; }
h1 { margin: 0 0 .75rem; font-size: clamp(1.6rem, 5vw, 2.2rem); line-height: 1.2; }
h2 { margin: 3rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line);
  font-size: 1.35rem; line-height: 1.25; }
p, ul, dl { margin: 0 0 1rem; max-width: 44rem; }
li { margin-bottom: .25rem; }
a { color: var(--link); }
:focus-visible { outline: 3px solid #0072B2; outline-offset: 2px; border-radius: 2px; }
.skip { position: absolute; left: -999rem; }
.skip:focus { left: 1rem; top: .5rem; padding: .5rem; background: var(--page); }
.audience { padding: .75rem 1rem; border-left: .4rem solid; border-radius: .25rem; }
.own { background: var(--own); border-color: #D55E00; }
.public { background: var(--public); border-color: #009E73; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; list-style: none;
  max-width: none; }
figure { margin: 1.5rem 0 .5rem; }
.picture { min-height: 5rem; }
img { max-width: 100%; height: auto; border-radius: .25rem; }
figcaption { max-width: 44rem; margin-top: .5rem; color: var(--quiet); font-size: .95rem; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .5rem 0 0; padding: 0;
  list-style: none; font-size: .95rem; max-width: none; }
.legend svg { margin-right: .5rem; vertical-align: -1px; }
details { margin: 0 0 2rem; }
summary { display: inline-block; padding: .4rem 0; color: var(--link); cursor: pointer;
  font-size: .95rem; }
.scroll { overflow-x: auto; max-height: 40rem; overflow-y: auto; margin: 0 0 1.5rem; }
table { border-collapse: collapse; min-width: min(100%, 24rem); font-size: .95rem;
  font-variant-numeric: tabular-nums; overflow-wrap: normal; }
.caption { margin: 1.25rem 0 .5rem; color: var(--quiet); font-size: .95rem; }
th { position: sticky; top: 0; z-index: 1; padding: 0; background: var(--soft); text-align: left;
  vertical-align: bottom; }
th button { width: 100%; min-height: 2.5rem; padding: .4rem .75rem; border: 0; background: none;
  color: inherit; font: inherit; font-weight: 600; text-align: inherit; cursor: pointer; }
th button:focus-visible { outline-offset: -3px; }
th button::after { content: "\\2195"; padding-left: .35rem; color: var(--quiet); }
th[aria-sort=ascending] button::after { content: "\\2191"; color: inherit; }
th[aria-sort=descending] button::after { content: "\\2193"; color: inherit; }
td { padding: .4rem .75rem; border-bottom: 1px solid var(--line); vertical-align: top;
  max-width: 26rem; }
.number { text-align: right; }
td.number { white-space: nowrap; }
th, td { min-width: 5.5rem; }
th:first-child, td:first-child { min-width: 8rem; }
dl { display: grid; grid-template-columns: max-content 1fr; column-gap: 1.5rem; }
dl div { display: contents; }
dt { color: var(--quiet); }
dd { margin: 0; }
pre { padding: .75rem 1rem; background: var(--soft); border-radius: .25rem; white-space: pre-wrap;
  font: .95rem/1.5 ui-monospace, "SF Mono", Consolas, "Liberation Mono", monospace; }
.rest { color: var(--quiet); font-size: .95rem; }
@media (max-width: 36rem) {
  dl { display: block; }
  dl div { display: block; margin-bottom: .5rem; }
  .scroll { max-height: 70vh; }
  table, tbody, tr, td { display: block; min-width: 0; max-width: none; width: 100%; }
  thead tr { display: flex; flex-wrap: wrap; }
  th, th:first-child { position: static; min-width: 0; }
  tr { padding: .4rem 0; border-bottom: 1px solid var(--line); }
  td, td.number, td:first-child { display: flex; gap: 1rem; justify-content: space-between;
    min-width: 0; padding: .1rem .25rem; border: 0; text-align: right; white-space: normal; }
  td::before { content: attr(data-head); color: var(--quiet); text-align: left; }
}
@media print { .scroll { max-height: none; } nav, .skip { display: none; } }
"""

#: Colours of charts on dark pages.
_DARK: Final = {
    INK: "#e8e8e8", GRID: "#444444", STRIPE: "#242628", GREY: "#b8b8b8", BLACK: "#f0f0f0",
}  # fmt: skip

SCRIPT: Final = """
"use strict";
document.querySelectorAll("th button").forEach((button) => {
  button.addEventListener("click", () => {
    const head = button.parentElement, place = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const key = (row) => {
      const cell = row.cells[place], text = cell.dataset.key ?? cell.textContent;
      const number = text === "\\u221e" || text === "inf" ? Infinity : Number(text);
      return [text, text === "" || Number.isNaN(number) ? null : number];
    };
    const rows = Array.from(body.rows, (row) => [key(row), row]);
    rows.sort(([[text, number]], [[other, than]]) => {
      if (text === "" || other === "") return (text === "") - (other === "");
      if (number === than && number !== null) return 0;
      if (number !== null && than !== null) return number < than ? -sign : sign;
      return sign * text.localeCompare(other, "en", { numeric: true });
    });
    head.parentElement.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    body.append(...rows.map(([, row]) => row));
  });
});
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const darker = DARK;
const seen = (key, value) => (dark && darker[value]) || value;
document.querySelectorAll("script[data-picture]").forEach((script) => {
  Bokeh.embed.embed_item(JSON.parse(script.textContent, seen));
});
""".replace("DARK", json.dumps(_DARK))

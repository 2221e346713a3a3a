"use strict";
document.querySelectorAll("th button").forEach((button) => {
  button.addEventListener("click", () => {
    const head = button.parentElement, place = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const key = (row) => {
      const cell = row.cells[place], text = cell.dataset.key ?? cell.textContent;
      const number = text === "\u221e" || text === "inf" ? Infinity : Number(text);
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

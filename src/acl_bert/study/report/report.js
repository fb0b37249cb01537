"use strict";
(() => {
  // A number, and what may stand before and after it: "64.1 ± 2.0 (n=2)", "< 0.001", "90°".
  // A date or a hash begins with digits too, and is none.
  const NUMBER = /^[<>≤≥]?\s*([−+-]?[\d,]*\.?\d+(?:e[−+-]?\d+)?)(?=$|[\s%×°†])/i;

  function value(cell) {
    const text = cell.textContent.trim();
    const found = NUMBER.exec(text);
    if (found) return Number(found[1].replaceAll(",", "").replaceAll("−", "-"));
    return text === "–" ? "" : text;
  }

  // Numbers before words, and what is missing last in either direction.
  function compare(a, b, sign) {
    if (a === "" || b === "") return (a === "") - (b === "");
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  }

  function sort(table, place, sign) {
    for (const body of table.tBodies) {
      const rows = [...body.rows].filter((row) => row.className !== "title");
      const key = (row) => (sign ? value(row.cells[place]) : Number(row.dataset.place));
      const keyed = rows.map((row) => [key(row), row]);
      keyed.sort(([a], [b]) => compare(a, b, sign || 1));
      body.append(...keyed.map(([, row]) => row));
    }
  }

  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells];
    const rows = [...table.tBodies].flatMap((body) =>
      [...body.rows].filter((row) => row.className !== "title"));
    rows.forEach((row, place) => { row.dataset.place = place; });
    heads.forEach((head, place) => {
      const values = rows.map((row) => value(row.cells[place])).filter((one) => one !== "");
      const numeric = values.length > 0 && values.every((one) => typeof one === "number");
      for (const cell of [head, ...rows.map((row) => row.cells[place])]) {
        if (numeric && place > 0) cell.classList.add("number");
        else if (cell.tagName === "TD" && cell.textContent.length > 40) cell.classList.add("long");
      }
      if (rows.length < 2 || table.closest(".claim")) return; // a claim's parts have their order
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      // Each click another order: up, down, and as it was.
      button.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" };
        const order = next[head.getAttribute("aria-sort") ?? "none"];
        for (const other of heads) other.removeAttribute("aria-sort");
        if (order !== "none") head.setAttribute("aria-sort", order);
        sort(table, place, { ascending: 1, descending: -1, none: 0 }[order]);
      });
    });
  }

  // The reader's choice is kept where the browser keeps anything for a file.
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const button = document.createElement("button");
  button.id = "theme";
  button.type = "button";
  function show(theme) {
    button.textContent = `Theme: ${theme}`;
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
  }
  let theme = "auto";
  try { theme = localStorage.getItem("theme") ?? theme; } catch { /* not kept */ }
  show(theme);
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    show(theme);
    try { localStorage.setItem("theme", theme); } catch { /* not kept */ }
  });
  document.querySelector("nav").prepend(button);

  if (!matchMedia("(min-width: 75rem)").matches) document.getElementById("contents").open = false;
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
})();

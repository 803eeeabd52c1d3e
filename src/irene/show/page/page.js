// The page of a tree: opening and closing nodes, search, details of a row.
"use strict";
{
  const body = document.querySelector("#tree tbody");
  const rows = [...body.rows];
  const depth = rows.map((row) => Number(row.dataset.depth));
  const parent = parents(depth);
  const toggles = rows.map((row) => row.querySelector("button"));
  const search = document.querySelector("#search");
  const found = document.querySelector("#found");
  const details = document.querySelector("#details");
  let hits = [];
  let atHit = -1;

  function parents(depths) {
    const last = [];
    return depths.map((level, row) => {
      last[level] = row;
      return level ? last[level - 1] : -1;
    });
  }

  const isOpen = (row) => toggles[row]?.getAttribute("aria-expanded") === "true";

  function setOpen(row, open) {
    toggles[row]?.setAttribute("aria-expanded", String(open));
  }

  // A row shows when its parent shows and is open.
  function draw() {
    rows.forEach((row, i) => {
      const above = parent[i];
      row.hidden = above >= 0 && (rows[above].hidden || !isOpen(above));
    });
  }

  function reveal(row) {
    for (let above = parent[row]; above >= 0; above = parent[above]) {
      setOpen(above, true);
    }
  }

  function focusRow(row) {
    rows[row].querySelector("button, .leaf").focus();
    rows[row].scrollIntoView({ block: "center" });
  }

  function showDetails(row) {
    details.textContent = row.title;
    details.hidden = false;
  }

  const pathOf = (row) => (row >= 0 ? rows[row].dataset.path.toLowerCase() : "");

  // What is below a match does not match for the part of its path that it shares.
  function matches(row, word) {
    if (word === "" || rows[row].classList.contains("rest")) return false;
    const [name, op] = rows[row].cells;
    return (
      `${name.textContent}\n${op.textContent}`.toLowerCase().includes(word) ||
      (pathOf(row).includes(word) && !pathOf(parent[row]).includes(word))
    );
  }

  // Energy is counted once, at the outermost match.
  function find(word) {
    const match = rows.map((_, row) => matches(row, word));
    const inside = [];
    let share = 0;
    let nodes = 0;
    rows.forEach((row, i) => {
      const above = parent[i];
      inside[i] = above >= 0 && (match[above] || inside[above]);
      row.classList.toggle("hit", match[i]);
      if (!match[i]) return;
      nodes += Number(row.dataset.times);
      share += inside[i] ? 0 : Number(row.dataset.share);
      reveal(i);
    });
    hits = [...match.keys()].filter((i) => match[i]);
    atHit = -1;
    found.textContent = word === "" ? "" : answer(nodes, share);
    draw();
  }

  function answer(nodes, share) {
    if (!nodes) return "no match";
    const what = nodes === 1 ? "1 match" : `${nodes.toLocaleString("en")} matches`;
    const percent = (share * 100).toFixed(share < 0.0995 ? 1 : 0);
    return `${what} = ${percent} % of the ${body.dataset.measure}`;
  }

  function move(row, step) {
    let next = row + step;
    while (rows[next]?.hidden) next += step;
    if (rows[next]) focusRow(next);
  }

  const keys = {
    ArrowDown: (row) => move(row, 1),
    ArrowUp: (row) => move(row, -1),
    ArrowRight: (row) => (isOpen(row) ? move(row, 1) : setOpen(row, true)),
    ArrowLeft: (row) => {
      if (isOpen(row)) setOpen(row, false);
      else if (parent[row] >= 0) focusRow(parent[row]);
    },
    Escape: () => {
      details.hidden = true;
    },
  };

  body.addEventListener("click", (event) => {
    const row = rows.indexOf(event.target.closest("tr"));
    if (event.target.closest("button")) setOpen(row, !isOpen(row));
    showDetails(rows[row]);
    draw();
  });
  body.addEventListener("focusin", (event) => showDetails(event.target.closest("tr")));
  body.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action(rows.indexOf(event.target.closest("tr")));
    draw();
  });
  search.addEventListener("input", () => find(search.value.trim().toLowerCase()));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      search.value = "";
      find("");
    } else if (event.key === "Enter" && hits.length) {
      atHit = (atHit + 1) % hits.length;
      rows[hits[atHit]].scrollIntoView({ block: "center" });
      showDetails(rows[hits[atHit]]);
    }
  });
  document.querySelector(".icicle")?.addEventListener("click", (event) => {
    const cell = event.target.closest("[data-row]");
    const row = cell && rows.findIndex((each) => each.id === cell.dataset.row);
    if (!cell || row < 0) return;
    reveal(row);
    draw();
    focusRow(row);
  });
  const all = (open) => () => {
    rows.forEach((_, i) => setOpen(i, open || i === 0));
    draw();
  };
  document.querySelector("#expand").addEventListener("click", all(true));
  document.querySelector("#collapse").addEventListener("click", all(false));

  rows.forEach((row, i) => setOpen(i, "open" in row.dataset));
  for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
  draw();
}

// The tree as a table: virtualised, so that ten thousand rows cost what fifty do, and an
// ARIA treegrid, so that it is all there for the keyboard and for screen readers.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { bytes, flops, percent, perGflop } from "../lib/format.js";
import { amount } from "../lib/headline.js";
import { position, ramp } from "../lib/colour.js";
import { visibleRows } from "../lib/rows.js";
import { childrenOf, hasChildren, label } from "../lib/tree.js";

/** Height of a row, px: as the style has it; on a phone as a thumb needs it. */
const ROW = globalThis.matchMedia?.("(max-width: 860px)").matches ? 40 : 26;
const HEAD = 28;
const AROUND = 10;
/** Rows by which the part that is drawn moves on: not with every pixel. */
const STEP = 6 * ROW;
const COLUMNS = ["Part", "Share", "Energy", "FLOPs", "Bytes", "J/GFLOP"];

/**
 * @typedef {object} View what all three views share
 * @property {import("../lib/tree.js").Tree} tree
 * @property {Uint8Array} open
 * @property {(row: number, open?: boolean) => void} toggle
 * @property {(rows: number[], open: boolean) => void} toggleMany
 * @property {(row: number) => void} unfold or folds again
 * @property {number} selected pinned row, -1 for none
 * @property {(row: number) => void} select
 * @property {(row: number) => void} hover -1 for none
 * @property {import("../lib/questions.js").Search | null} hits
 * @property {Uint8Array | null} only
 * @property {number} minShare
 * @property {"total" | "parent" | "log"} metric
 * @property {boolean} dark
 */

/**
 * The share that a row's bar and colour show.
 * @param {View} view
 * @param {number} row
 * @returns {{share: number, at: number, width: number}}
 */
export function shareOf({ tree, metric }, row) {
  const share = metric === "parent" ? tree.parentShare[row] : tree.share[row];
  const at = position(share, metric === "log" ? "log" : "linear");
  const width = metric === "log" ? at : Math.min(Math.max(share || 0, 0), 1);
  return { share, at, width };
}

/** @param {{view: View, label?: string}} props */
export function TreeTable({ view, label: name = "Parts of the model" }) {
  const { tree, open, only, minShare } = view;
  const rows = useMemo(() => visibleRows(tree, open, { only, minShare }), [tree, open, only, minShare]);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [active, setActive] = useState(0);
  const grid = useRef(/** @type {HTMLElement | null} */ (null));
  const wantsFocus = useRef(false);

  useEffect(() => {
    const element = /** @type {HTMLElement} */ (grid.current);
    const watch = new ResizeObserver(() => setHeight(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const index = Math.max(indexOf(rows, active), 0);
  const row = rows[index] ?? 0;
  useEffect(() => {
    if (view.selected < 0) return;
    const at = indexOf(rows, view.selected);
    if (at < 0) return;
    setActive(view.selected);
    reveal(grid.current, at);
  }, [view.selected, tree]);

  const go = (/** @type {number} */ to) => {
    const at = Math.min(Math.max(to, 0), rows.length - 1);
    wantsFocus.current = true;
    setActive(rows[at]);
    reveal(grid.current, at);
    setTop(drawnFrom(grid.current));
  };
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    const element = grid.current?.querySelector(`[data-row="${row}"]`);
    if (element instanceof HTMLElement) {
      element.focus({ preventScroll: true });
      element.scrollIntoView({ block: "nearest", inline: "nearest" });
      wantsFocus.current = false;
    }
  });
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (onTreeKey(event.key, { view, rows, row, index, go, page: Math.floor(height / ROW) - 2 })) event.preventDefault();
  };

  const first = Math.max(Math.floor((top - HEAD) / ROW) - AROUND, 0);
  const last = Math.min(Math.ceil((top + STEP + height) / ROW) + AROUND, rows.length);
  const shown = [];
  for (let i = first; i < last; i++) shown.push(i);
  if (rows.length && (index < first || index >= last)) shown.push(index); // what has the focus stays
  const named = tree.basis === "energy" ? COLUMNS : COLUMNS.map((c) => (c === "Energy" ? "Cost" : c));
  return html`<div
    class="treegrid" role="treegrid" aria-label=${name} ref=${grid}
    aria-rowcount=${rows.length + 1} aria-colcount=${named.length}
    onScroll=${() => setTop(drawnFrom(grid.current))}
    onKeyDown=${onKeyDown} onPointerLeave=${() => view.hover(-1)}
  >
    <div class="treegrid-head" role="row" aria-rowindex="1">
      ${named.map((column, i) => html`<span role="columnheader" aria-colindex=${i + 1}>${i === 1 && view.metric !== "total" ? shareTitle(view.metric) : column}</span>`)}
    </div>
    <div class="treegrid-body" role="rowgroup" style=${{ height: `${rows.length * ROW}px` }}>
      ${shown.map((i) => html`<${Row} key=${rows[i]} view=${view} row=${rows[i]} index=${i} active=${rows[i] === row} onActive=${setActive} />`)}
    </div>
  </div>`;
}

/** @param {HTMLElement | null} grid where drawing begins, px */
const drawnFrom = (grid) => Math.floor((grid?.scrollTop ?? 0) / STEP) * STEP;

/** @param {string} metric */
const shareTitle = (metric) => (metric === "parent" ? "Of parent" : "Share, log");

/** @param {{view: View, row: number, index: number, active: boolean, onActive: (row: number) => void}} props */
function Row({ view, row, index, active, onActive }) {
  const { tree, dark } = view;
  const node = tree.nodes[row];
  const parent = hasChildren(tree, row);
  const isOpen = Boolean(view.open[row]);
  const { share, at, width } = shareOf(view, row);
  const times = tree.times[row];
  const title = label(tree, row);
  const classes = ["treegrid-row"];
  if (active) classes.push("active");
  if (view.hits?.hits[row]) classes.push("hit");
  else if (view.hits || tree.kind[row] > 1) classes.push("dim");
  return html`<div
    class=${classes.join(" ")} role="row" data-row=${row} data-path=${tree.path[row]}
    aria-rowindex=${index + 2} aria-level=${tree.depth[row] + 1} aria-selected=${view.selected === row}
    aria-expanded=${parent ? isOpen : undefined} tabindex=${active ? 0 : -1}
    style=${{ top: `${index * ROW}px` }}
    onClick=${() => (onActive(row), view.select(view.selected === row ? -1 : row))}
    onDblClick=${() => parent && view.toggle(row)}
    onFocus=${() => onActive(row)}
    onPointerEnter=${() => view.hover(row)}
  >
    <span class="cell-name" role="gridcell" aria-colindex="1">
      <span class="indent" style=${{ "--depth": String(tree.depth[row]) }}></span>
      <button
        type="button" class=${parent ? "twist" : "twist leaf"} tabindex="-1" aria-hidden="true"
        onClick=${(/** @type {Event} */ e) => (e.stopPropagation(), view.toggle(row))}
      >${isOpen ? "▼" : "▶"}</button>
      <span class="node-name" title=${tree.path[row] || title}>${title}</span>
      ${tree.count[row] > 1 && html`<button
        type="button" class="times" tabindex="-1" title=${`${tree.count[row]} equal ones, folded: click to unfold`}
        aria-label=${`${tree.count[row]} equal ones, unfold`}
        onClick=${(/** @type {Event} */ e) => (e.stopPropagation(), view.unfold(row))}
      >×${tree.count[row]}</button>`}
      ${row > 0 && node.op !== title && html`<span class="node-op">${node.op}</span>`}
    </span>
    <span class="cell-share" role="gridcell" aria-colindex="2">
      <span class="share-track" aria-hidden="true"><span class="share-fill" style=${{ width: `${width * 100}%`, background: ramp(Math.max(at, 0.25), dark) }}></span></span>
      <span class="num">${percent(share)}</span>
    </span>
    <span role="gridcell" aria-colindex="3">${Number.isFinite(tree.value[row]) ? amount(tree, row) : "–"}</span>
    <span role="gridcell" aria-colindex="4">${flops(node.flops * times)}</span>
    <span role="gridcell" aria-colindex="5">${bytes(node.bytes * times)}</span>
    <span role="gridcell" aria-colindex="6">${tree.basis === "energy" ? perGflop(tree.value[row], node.flops).replace(/J\/GFLOP$/, "J") : "–"}</span>
  </div>`;
}

/**
 * @param {Int32Array} rows ascending
 * @param {number} row
 */
function indexOf(rows, row) {
  let [low, high] = [0, rows.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (rows[middle] === row) return middle;
    if (rows[middle] < row) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/**
 * Scrolls so that a row shows.
 * @param {HTMLElement | null} grid
 * @param {number} index
 */
function reveal(grid, index) {
  if (!grid) return;
  const [above, below] = [index * ROW, (index + 1) * ROW + HEAD];
  if (above < grid.scrollTop) grid.scrollTop = above;
  else if (below > grid.scrollTop + grid.clientHeight) grid.scrollTop = below - grid.clientHeight;
}

/**
 * Keys of the WAI-ARIA treegrid pattern.
 * @param {string} key
 * @param {{view: View, rows: Int32Array, row: number, index: number, go: (index: number) => void, page: number}} at
 * @returns {boolean} whether the key meant something
 */
function onTreeKey(key, { view, rows, row, index, go, page }) {
  const { tree, open } = view;
  const parent = hasChildren(tree, row);
  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowDown: () => go(index + 1),
    ArrowUp: () => go(index - 1),
    PageDown: () => go(index + page),
    PageUp: () => go(index - page),
    Home: () => go(0),
    End: () => go(rows.length - 1),
    ArrowRight: () => (parent && !open[row] ? view.toggle(row, true) : parent && go(index + 1)),
    ArrowLeft: () => {
      if (parent && open[row]) view.toggle(row, false);
      else if (row > 0) go(indexOf(rows, tree.parent[row]));
    },
    Enter: () => view.select(view.selected === row ? -1 : row),
    " ": () => view.select(view.selected === row ? -1 : row),
    x: () => view.unfold(row),
    "*": () => row > 0 && view.toggleMany(childrenOf(tree, tree.parent[row]), true),
  };
  const known = keys[key];
  if (known) known();
  else if (/^[\p{L}\p{N}_]$/u.test(key)) typeAhead(key, view, rows, index, go);
  else return false;
  return true;
}

/**
 * @param {string} key
 * @param {View} view
 * @param {Int32Array} rows
 * @param {number} index
 * @param {(index: number) => void} go
 */
function typeAhead(key, view, rows, index, go) {
  for (let step = 1; step <= rows.length; step++) {
    const at = (index + step) % rows.length;
    if (label(view.tree, /** @type {number} */ (rows[at])).toLowerCase().startsWith(key.toLowerCase())) {
      go(at);
      return;
    }
  }
}

/** @param {{view: View}} props */
export function Legend({ view: { metric, dark } }) {
  const stops = Array.from({ length: 9 }, (_, i) => ramp(i / 8, dark)).join(", ");
  const words = { total: "share of the total", parent: "share of the parent", log: "share of the total, log" }[metric];
  return html`<span class="legend"><span>${metric === "log" ? "0.01 %" : "0 %"}</span>
    <span class="legend-ramp" role="img" aria-label=${`Colour: ${words}`} style=${{ background: `linear-gradient(90deg, ${stops})` }}></span>
    <span>100 % ${words}</span></span>`;
}


// The tree as an icicle on a canvas: width = share, colour = share, depth downwards.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { boxAt, layoutIcicle, step } from "../lib/icicle.js";
import { inkOn, ramp } from "../lib/colour.js";
import { percent } from "../lib/format.js";
import { amount } from "../lib/headline.js";
import { displayPath, label } from "../lib/tree.js";
import { useWidth } from "./Chart.js";
import { shareOf } from "./TreeTable.js";

/**
 * @param {{view: import("./TreeTable.js").View, root: number, setRoot: (row: number) => void,
 *   height?: number, levels?: number, label?: string}} props height: of a level, px
 */
export function Icicle({ view, root, setRoot, height = 26, levels = Infinity, label: name = "Icicle of the model" }) {
  const { tree, minShare } = view;
  const [frame, width] = useWidth();
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [focus, setFocus] = useState(root);
  const [drawn, redraw] = useState(0);
  const [tip, setTip] = useState(/** @type {{row: number, x: number, y: number} | null} */ (null));
  const boxes = useMemo(
    () => layoutIcicle(tree, root, width, { levels, minShare: Math.max(minShare, 0) }),
    [tree, root, width, levels, minShare],
  );
  useEffect(() => setFocus(view.selected >= root && view.selected < tree.end[root] ? view.selected : root), [root, view.selected, tree]);
  useEffect(() => {
    if (canvas.current) paint(canvas.current, boxes, view, width, height, focus);
  }, [boxes, width, view.dark, view.selected, view.hits, view.metric, focus, drawn]);

  const rowAt = (/** @type {MouseEvent} */ event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    const at = boxAt(boxes, event.clientX - box.left, Math.floor((event.clientY - box.top) / height));
    return at < 0 ? -1 : /** @type {number} */ (boxes.rows[at]);
  };
  const onMove = (/** @type {PointerEvent} */ event) => {
    const row = rowAt(event);
    setTip(row < 0 ? null : { row, x: event.clientX, y: event.clientY });
    view.hover(row);
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^Arrow|^Home$/.test(event.key)) {
      const to = step(tree, root, focus, event.key);
      setFocus(to);
      view.hover(to);
    } else if (event.key === "Enter") setRoot(focus === root ? Math.max(tree.parent[root], 0) : focus);
    else if (event.key === " ") view.select(view.selected === focus ? -1 : focus);
    else if (event.key === "x") view.unfold(focus);
    else return;
    event.preventDefault();
  };
  return html`<div
    class="canvas-wrap" ref=${frame} role="group" aria-roledescription="icicle chart" tabindex="0" aria-label=${`${name}. Arrow keys move, Enter opens, Space pins.`}
    onKeyDown=${onKeyDown} onFocus=${() => redraw((n) => n + 1)} onBlur=${() => (view.hover(-1), redraw((n) => n + 1))}
  >
    <canvas ref=${canvas} aria-hidden="true"
      onPointerMove=${onMove} onPointerLeave=${() => (setTip(null), view.hover(-1))}
      onClick=${(/** @type {MouseEvent} */ e) => {
        const row = rowAt(e);
        if (row >= 0) view.select(row === view.selected ? -1 : row);
      }}
      onDblClick=${(/** @type {MouseEvent} */ e) => {
        const row = rowAt(e);
        if (row >= 0) setRoot(row === root ? Math.max(tree.parent[root], 0) : row);
      }}
    ></canvas>
    <span class="visually-hidden" role="status">${words(tree, focus)}</span>
    ${tip && html`<${Tip} view=${view} ...${tip} />`}
  </div>`;
}

/**
 * @param {import("../lib/tree.js").Tree} tree
 * @param {number} row
 */
function words(tree, row) {
  if (row >= tree.size) return "";
  return `${displayPath(tree, row)}${tree.count[row] > 1 ? `, ${tree.count[row]} equal ones` : ""}, ${amount(tree, row)}, ${percent(tree.share[row])} of the total`;
}

/** @param {{view: import("./TreeTable.js").View, row: number, x: number, y: number}} props */
export function Tip({ view: { tree }, row, x, y }) {
  if (row >= tree.size) return null;
  const right = x > window.innerWidth - 360;
  const style = { top: `${Math.min(y + 14, window.innerHeight - 90)}px`, left: right ? "auto" : `${x + 12}px`, right: right ? `${window.innerWidth - x + 12}px` : "auto" };
  return html`<div class="tip" style=${style}>
    <b>${label(tree, row)}${tree.count[row] > 1 ? ` ×${tree.count[row]}` : ""}</b>
    ${tree.nodes[row].op} · ${amount(tree, row)} · ${percent(tree.share[row])} of the total, ${percent(tree.parentShare[row])} of its parent
  </div>`;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {import("../lib/icicle.js").Boxes} boxes
 * @param {import("./TreeTable.js").View} view
 * @param {number} width
 * @param {number} height of a level
 * @param {number} focus
 */
function paint(canvas, boxes, view, width, height, focus) {
  const ratio = window.devicePixelRatio || 1;
  const tall = boxes.levels * height;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(tall * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${tall}px`;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const style = getComputedStyle(document.documentElement);
  const [paper, accent, ink, softInk] = ["--panel", "--accent", "--ink", "--ink-soft"].map((name) => style.getPropertyValue(name).trim());
  pen.scale(ratio, ratio);
  pen.font = `12px ${style.getPropertyValue("--font")}`;
  pen.textBaseline = "middle";
  const letter = pen.measureText("abcdefgh").width / 8;
  boxes.rows.forEach((row, i) => {
    const [x, y, w] = [boxes.x[i], boxes.level[i] * height, boxes.width[i]];
    const { at } = shareOf(view, row);
    const faint = view.hits && !view.hits.hits[row];
    pen.globalAlpha = faint ? 0.3 : 1;
    pen.fillStyle = ramp(at, view.dark);
    pen.fillRect(x, y, Math.max(w - (w > 3 ? 1 : 0), 0.5), height - 1);
    if (w > 34) {
      pen.globalAlpha = 1;
      pen.fillStyle = faint ? /** @type {string} */ (softInk) : inkOn(at, view.dark);
      pen.fillText(fit(boxText(view.tree, row), Math.floor((w - 10) / letter)), x + 5, y + height / 2);
    }
  });
  pen.globalAlpha = 1;
  const focused = document.activeElement === canvas.parentElement ? focus : -1;
  for (const [row, colour, thick] of /** @type {[number, string, number][]} */ ([[view.selected, accent, 2.5], [focused, ink, 1.5]])) {
    const i = boxes.rows.indexOf(row);
    if (i < 0) continue;
    pen.strokeStyle = /** @type {string} */ (colour ?? paper);
    pen.lineWidth = thick;
    pen.strokeRect(boxes.x[i] + thick / 2, boxes.level[i] * height + thick / 2, Math.max(boxes.width[i] - thick - 1, 1), height - 1 - thick);
  }
}

/**
 * @param {import("../lib/tree.js").Tree} tree
 * @param {number} row
 */
export function boxText(tree, row) {
  const times = tree.count[row] > 1 ? ` ×${tree.count[row]}` : "";
  return `${label(tree, row)}${times}  ${percent(tree.share[row])}`;
}

/**
 * @param {string} text
 * @param {number} room letters
 */
export function fit(text, room) {
  return text.length <= room ? text : room < 3 ? "" : `${text.slice(0, room - 1)}…`;
}

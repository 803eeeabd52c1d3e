// The tree as an icicle on a canvas: width = share, colour = share, depth downwards.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { boxAt, layoutIcicle, step } from "../lib/icicle.js";
import { inkOn, ramp } from "../lib/colour.js";
import { percent } from "../lib/format.js";
import { amount, opWord } from "../lib/headline.js";
import { displayPath, label } from "../lib/tree.js";
import { useWidth } from "./Chart.js";
import { shareOf } from "./TreeTable.js";

/** Height of a level from which a label may have two lines, px. */
const TWO_LINES = 38;

/**
 * @param {{view: import("./TreeTable.js").View, root: number, setRoot: (row: number) => void,
 *   height?: number, levels?: number, label?: string, roomy?: boolean}} props height: of a level, px;
 *   roomy: levels as high as the window has room for
 */
export function Icicle({ view, root, setRoot, height: least = 26, levels = Infinity, label: name = "Icicle of the model", roomy = false }) {
  const { tree, minShare } = view;
  const [frame, width] = useWidth();
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [focus, setFocus] = useState(root);
  const [drawn, redraw] = useState(0);
  const boxes = useMemo(
    () => layoutIcicle(tree, root, width, { levels, minShare: Math.max(minShare, 0) }),
    [tree, root, width, levels, minShare],
  );
  const height = roomy ? Math.min(Math.max(Math.floor((window.innerHeight - 480) / boxes.levels), 30), 64) : least;
  useEffect(() => setFocus(view.selected >= root && view.selected < tree.end[root] ? view.selected : root), [root, view.selected, tree]);
  useEffect(() => {
    if (canvas.current) paint(canvas.current, boxes, view, width, height, focus);
  }, [boxes, width, height, view.dark, view.selected, view.hits, view.metric, focus, drawn]);

  const rowAt = (/** @type {MouseEvent} */ event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    const at = boxAt(boxes, event.clientX - box.left, Math.floor((event.clientY - box.top) / height));
    return at < 0 ? -1 : /** @type {number} */ (boxes.rows[at]);
  };
  // With Ctrl, or a pinch, the wheel opens what is under the pointer, and goes back up.
  const onWheel = (/** @type {WheelEvent} */ event) => {
    if (!roomy || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    let row = rowAt(event);
    if (event.deltaY > 0) return setRoot(Math.max(tree.parent[root], 0));
    while (row > root && tree.parent[row] !== root) row = tree.parent[row];
    if (row > root) setRoot(row);
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
      onPointerMove=${(/** @type {PointerEvent} */ e) => view.hover(rowAt(e))} onPointerLeave=${() => view.hover(-1)} onWheel=${onWheel}
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

/**
 * The part under the pointer, beside the pointer.
 * @param {{view: import("./TreeTable.js").View, hovered: {value: number}, pointer: {value: number[]}}} props
 */
export function Tip({ view: { tree }, hovered, pointer }) {
  const row = hovered.value;
  const [x, y] = /** @type {[number, number]} */ (pointer.value);
  if (row < 0 || row >= tree.size || !y) return null;
  const right = x > window.innerWidth - 360;
  const style = { top: `${Math.min(y + 14, window.innerHeight - 90)}px`, left: right ? "auto" : `${x + 12}px`, right: right ? `${window.innerWidth - x + 12}px` : "auto" };
  return html`<div class="tip" style=${style}>
    <b>${label(tree, row)}${tree.count[row] > 1 ? ` ×${tree.count[row]}` : ""}</b>
    ${opWord(tree.nodes[row].op)} · ${amount(tree, row)} · ${percent(tree.share[row])} of the total, ${percent(tree.parentShare[row])} of its parent
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
      const lines = boxLines(view.tree, row, Math.floor((w - 10) / letter), height >= TWO_LINES);
      lines.forEach((line, at) => pen.fillText(line, x + 5, y + height / 2 + (at - (lines.length - 1) / 2) * 15));
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
 * Name and share on one line, on two where they fit so, or the name alone.
 * @param {import("../lib/tree.js").Tree} tree
 * @param {number} row
 * @param {number} room letters
 * @param {boolean} two whether there is room for two lines
 */
function boxLines(tree, row, room, two) {
  const whole = boxText(tree, row);
  if (whole.length <= room) return [whole];
  const [name = "", share = ""] = whole.split("  ");
  return two && share.length <= room ? [fit(name, room), share] : [fit(name, room)];
}

/**
 * @param {string} text
 * @param {number} room letters
 */
export function fit(text, room) {
  return text.length <= room ? text : room < 3 ? "" : `${text.slice(0, room - 1)}…`;
}

// Pictures of a tree as SVG text, for export. Names are escaped: they are text.

import { inkOn, position, ramp } from "./colour.js";
import { percent } from "./format.js";
import { layoutIcicle } from "./icicle.js";
import { BOX, layoutNodeLink } from "./node-link.js";
import { sentence } from "./headline.js";
import { label } from "./tree.js";

/** @typedef {import("./tree.js").Tree} Tree */

const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const LETTER = 6.8;
const TITLE = 30;

/** @param {string} text */
export function escapeXml(text) {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/**
 * @param {Tree} tree
 * @param {number} row
 * @param {string} metric
 */
function place(tree, row, metric) {
  const share = metric === "parent" ? tree.parentShare[row] : tree.share[row];
  return position(share, metric === "log" ? "log" : "linear");
}

/**
 * @param {{tree: Tree, x: number, y: number, width: number, height: number, row: number, metric: string, dark: boolean}} box
 */
function drawBox({ tree, x, y, width, height, row, metric, dark }) {
  const at = place(tree, row, metric);
  const times = tree.count[row] > 1 ? ` ×${tree.count[row]}` : "";
  const whole = `${label(tree, row)}${times}  ${percent(tree.share[row])}`;
  const room = Math.floor((width - 10) / LETTER);
  const shown = whole.length <= room ? whole : room < 3 ? "" : `${whole.slice(0, room - 1)}…`;
  const text = shown
    ? `<text x="${(x + 5).toFixed(1)}" y="${(y + height / 2 + 4).toFixed(1)}" fill="${inkOn(at, dark)}">${escapeXml(shown)}</text>`
    : "";
  return `<g><title>${escapeXml(`${tree.path[row] || label(tree, row)} ${percent(tree.share[row])}`)}</title><rect x="${x.toFixed(2)}" y="${y.toFixed(2)}" width="${Math.max(width, 0.3).toFixed(2)}" height="${height}" fill="${ramp(at, dark)}"/>${text}</g>`;
}

/**
 * @param {number} width
 * @param {number} height
 * @param {string} title
 * @param {boolean} dark
 * @param {string[]} parts
 */
function frame(width, height, title, dark, parts) {
  const [paper, ink] = dark ? ["#1a1a21", "#e9e9ef"] : ["#ffffff", "#1b1b22"];
  const size = `width="${Math.ceil(width)}" height="${Math.ceil(height)}" viewBox="0 0 ${Math.ceil(width)} ${Math.ceil(height)}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${FONT}" font-size="12"><rect width="100%" height="100%" fill="${paper}"/><text x="10" y="20" font-size="13" fill="${ink}">${escapeXml(title)}</text>${parts.join("")}</svg>`;
}

/**
 * @typedef {{root?: number, metric?: string, dark?: boolean, minShare?: number}} Options
 */

/**
 * @param {Tree} tree
 * @param {Options & {width?: number}} [options]
 * @returns {string}
 */
export function icicleSvg(tree, { root = 0, metric = "total", dark = false, minShare = 0, width = 1200 } = {}) {
  const height = 24;
  const boxes = layoutIcicle(tree, root, width - 20, { minShare });
  const parts = boxes.rows.map((row, i) =>
    drawBox({
      tree, row, metric, dark, x: 10 + boxes.x[i], y: TITLE + boxes.level[i] * height,
      width: boxes.width[i] - (boxes.width[i] > 3 ? 1 : 0), height: height - 1,
    }),
  );
  return frame(width, TITLE + boxes.levels * height + 10, sentence(tree), dark, parts);
}

/**
 * @param {Tree} tree
 * @param {Int32Array} rows on screen
 * @param {Options} [options]
 * @returns {string}
 */
export function nodeLinkSvg(tree, rows, { root = 0, metric = "total", dark = false } = {}) {
  const { nodes, width, height } = layoutNodeLink(tree, root, rows);
  const line = dark ? "#7a7a89" : "#8b8b98";
  const edges = nodes.slice(1).map((node) => {
    const above = /** @type {import("./node-link.js").Placed} */ (nodes[node.above]);
    const [x0, x1] = [above.x + BOX.width, node.x];
    const middle = (x0 + x1) / 2;
    const [y0, y1] = [above.y + TITLE, node.y + TITLE];
    return `<path d="M${x0},${y0}C${middle},${y0} ${middle},${y1} ${x1},${y1}" fill="none" stroke="${line}" stroke-opacity="0.6"/>`;
  });
  const boxes = nodes.map(({ row, x, y }) =>
    drawBox({ tree, row, metric, dark, x, y: y + TITLE - BOX.height / 2, width: BOX.width, height: BOX.height }),
  );
  return frame(Math.max(width, 760), height + TITLE, sentence(tree), dark, [...edges, ...boxes]);
}

/**
 * The tree as rows of a table, the header first.
 * @param {Tree} tree
 * @param {{only?: Uint8Array | null, minShare?: number}} [options]
 * @returns {(string | number | null)[][]}
 */
export function treeRows(tree, { only = null, minShare = -1 } = {}) {
  const shapes = (/** @type {number[][]} */ list) => list.map((shape) => shape.join("x")).join(" ");
  /** @type {(string | number | null)[][]} */
  const rows = [
    [
      "path", "kind", "op", "call", "count", "times", "energy_j", "low_j", "high_j", "source", "own_j",
      "share", "parent_share", "flops", "bytes_read", "bytes_written", "params", "inputs", "outputs", "dtype",
    ],
  ];
  for (let row = 0; row < tree.size; row++) {
    if ((only && !only[row]) || (minShare > 0 && !(tree.share[row] >= minShare))) continue;
    const node = tree.nodes[row];
    rows.push([
      tree.path[row], node.kind, node.op, tree.call[row], tree.count[row], tree.times[row],
      node.energy_j ?? null, node.low_j ?? null, node.high_j ?? null, node.source ?? null,
      tree.basis === "energy" ? tree.own[row] : null, tree.share[row], tree.parentShare[row],
      node.flops, node.bytes_read, node.bytes_written, node.params,
      shapes(node.inputs), shapes(node.outputs), node.dtype,
    ]);
  }
  return rows;
}

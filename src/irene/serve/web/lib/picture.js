// Pictures as SVG text, and a tree's rows, for files alone: loaded when somebody exports.
// Names are escaped: they are text.

import { inkOn, position, ramp, series } from "./colour.js";
import { joules, percent } from "./format.js";
import { layoutIcicle } from "./icicle.js";
import { BOX, layoutNodeLink } from "./node-link.js";
import { sentence } from "./headline.js";
import { label } from "./tree.js";

/** @typedef {import("./tree.js").Tree} Tree */

const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const LETTER = 6.8;
const TITLE = 30;
const WIDE = 1200;

/** @param {unknown} text */
function escapeXml(text) {
  return String(text)
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
 * @param {readonly string[]} parts
 */
function frame(width, height, title, dark, parts) {
  const [paper, ink] = dark ? ["#1a1a21", "#e9e9ef"] : ["#ffffff", "#1b1b22"];
  const size = `width="${Math.ceil(width)}" height="${Math.ceil(height)}" viewBox="0 0 ${Math.ceil(width)} ${Math.ceil(height)}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${FONT}" font-size="12" fill="${ink}"><rect width="100%" height="100%" fill="${paper}"/><text x="10" y="20" font-size="13">${escapeXml(title)}</text>${parts.join("")}</svg>`;
}

/**
 * @typedef {{root?: number, metric?: string, dark?: boolean, minShare?: number}} Options
 */

/**
 * @param {Tree} tree
 * @param {number} top px
 * @param {number} width px
 * @param {Options} options
 * @returns {{parts: string[], bottom: number}}
 */
function icicle(tree, top, width, { root = 0, metric = "total", dark = false, minShare = 0 }) {
  const height = 24;
  const boxes = layoutIcicle(tree, root, width, { minShare });
  const parts = boxes.rows.map((row, i) =>
    drawBox({
      tree, row, metric, dark, x: 10 + boxes.x[i], y: top + boxes.level[i] * height,
      width: boxes.width[i] - (boxes.width[i] > 3 ? 1 : 0), height: height - 1,
    }),
  );
  return { parts, bottom: top + boxes.levels * height + 10 };
}

/**
 * @param {Tree} tree
 * @param {Options} [options]
 * @returns {string}
 */
export function icicleSvg(tree, options = {}) {
  const { parts, bottom } = icicle(tree, TITLE, WIDE - 20, options);
  return frame(WIDE, bottom, sentence(tree), options.dark ?? false, parts);
}

/**
 * Icicles below each other, as many pixels per joule in each.
 * @param {string} title
 * @param {readonly {name: string, tree: Tree, factor: number}[]} subjects factor: what energies are divided by
 * @param {Options} options
 * @returns {string}
 */
export function linkedSvg(title, subjects, options) {
  const energies = subjects.map(({ tree, factor }) => tree.value[0] / factor);
  let top = TITLE;
  const all = subjects.flatMap(({ name, tree }, i) => {
    const energy = /** @type {number} */ (energies[i]);
    const { parts, bottom } = icicle(tree, top + 22, ((WIDE - 20) * energy) / Math.max(...energies), options);
    const heading = `<text x="10" y="${top + 14}" font-weight="600">${escapeXml(`${name}: ${joules(energy)}`)}</text>`;
    top = bottom;
    return [heading, ...parts];
  });
  return frame(WIDE, top, title, options.dark ?? false, all);
}

/**
 * Horizontal bars with names and values.
 * @param {string} title
 * @param {readonly {label: string, value: number, text: string}[]} items
 * @returns {string}
 */
export function barsSvg(title, items) {
  const [row, left, wide] = [22, 240, 380];
  const most = items.reduce((all, { value }) => Math.max(all, value || 0), 0) || 1;
  const parts = items.map(({ label, value, text }, index) => {
    const top = TITLE + index * row;
    const length = (Math.max(value || 0, 0) / most) * wide;
    const short = label.length > 36 ? `${label.slice(0, 35)}…` : label;
    return `<text x="${left - 8}" y="${top + 13}" text-anchor="end">${escapeXml(short)}</text>` +
      `<rect x="${left}" y="${top + 2}" width="${length.toFixed(1)}" height="${row - 7}" rx="2" fill="${series(0, false)}"/>` +
      `<text x="${(left + length + 6).toFixed(1)}" y="${top + 13}">${escapeXml(text)}</text>`;
  });
  return frame(left + wide + 110, TITLE + items.length * row + 12, title, false, parts);
}

/**
 * A table whose cells are coloured.
 * @param {string} title
 * @param {readonly unknown[]} rows
 * @param {readonly unknown[]} columns
 * @param {(row: any, column: any) => {level: number, text: string} | null} cell level 0 to 1
 * @returns {string}
 */
export function mapSvg(title, rows, columns, cell) {
  const [wide, high, left, top] = [84, 28, 110, 62];
  const words = (/** @type {number} */ x, /** @type {number} */ y, /** @type {unknown} */ text, /** @type {string} */ how) => `<text x="${x}" y="${y}" ${how}>${escapeXml(text)}</text>`;
  const parts = columns.map((column, c) => words(left + (c + 0.5) * wide, top - 8, column, 'text-anchor="middle"'));
  rows.forEach((row, r) => {
    const y = top + r * high;
    parts.push(words(left - 8, y + 18, row, 'text-anchor="end"'));
    columns.forEach((column, c) => {
      const found = cell(row, column);
      if (!found) return;
      parts.push(`<rect x="${left + c * wide}" y="${y}" width="${wide - 1}" height="${high - 1}" rx="3" fill="${ramp(found.level, false)}"/>`);
      parts.push(words(left + (c + 0.5) * wide, y + 18, found.text, `text-anchor="middle" fill="${inkOn(found.level, false)}"`));
    });
  });
  return frame(Math.max(left + columns.length * wide + 10, 420), top + rows.length * high + 12, title, false, parts);
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

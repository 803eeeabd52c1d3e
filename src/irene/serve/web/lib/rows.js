// Which rows of a tree are open, shown and marked.

import { childrenOf, hasChildren, keyOf, plainKey } from "./tree.js";

/** @typedef {import("./tree.js").Tree} Tree */

/**
 * Rows on screen: those whose ancestors are all open.
 * @param {Tree} tree
 * @param {Uint8Array} open
 * @param {{minShare?: number, only?: Uint8Array | null}} [options] minShare: -1 shows
 *   what costs nothing too (views of a tensor); only: rows to show, with what leads to
 *   them
 * @returns {Int32Array}
 */
export function visibleRows(tree, open, { minShare = 0, only = null } = {}) {
  const rows = new Int32Array(tree.size);
  let count = 0;
  for (let row = 0; row < tree.size; ) {
    const free = tree.share[row] === 0 && minShare >= 0;
    const small = minShare > 0 && !(tree.share[row] >= minShare);
    const hidden = row > 0 && ((only && !only[row]) || free || small);
    if (!hidden) rows[count++] = row;
    row = hidden || !open[row] ? tree.end[row] : row + 1;
  }
  return rows.subarray(0, count);
}

/**
 * Which rows are open so that `depth` levels below the root show.
 * @param {Tree} tree
 * @param {number} depth
 * @returns {Uint8Array}
 */
export function openTo(tree, depth) {
  const open = new Uint8Array(tree.size);
  for (let row = 0; row < tree.size; row++) {
    open[row] = tree.depth[row] < depth && hasChildren(tree, row) ? 1 : 0;
  }
  return open;
}

/**
 * Which rows are open so that what matters shows at first sight: largest parts first,
 * until about `rows` rows are on screen.
 * @param {Tree} tree
 * @param {number} [rows]
 * @returns {Uint8Array}
 */
export function openMain(tree, rows = 24) {
  const open = new Uint8Array(tree.size);
  let shown = 1;
  let edge = [0];
  while (edge.length) {
    edge.sort((a, b) => (tree.share[b] || 0) - (tree.share[a] || 0) || a - b);
    const row = /** @type {number} */ (edge.shift());
    const below = childrenOf(tree, row).filter((child) => !(tree.share[child] === 0));
    const main = tree.share[row] > 0.6; // nearly everything is in there
    if (!main && (tree.share[row] < 0.05 || shown + below.length > rows)) break;
    open[row] = below.length ? 1 : 0;
    shown += below.length;
    edge = [...edge, ...below.filter((child) => hasChildren(tree, child))];
  }
  return open;
}

/**
 * The same rows open in another tree of the model: other sizes, or unfolded.
 *
 * A member of a group that was folded is as open as the group was.
 * @param {Tree} from
 * @param {Uint8Array} open
 * @param {Tree} to
 * @param {number} depth how far to open what the old tree did not have
 * @returns {Uint8Array}
 */
export function carryOpen(from, open, to, depth) {
  const known = new Map();
  for (let row = 0; row < from.size; row++) {
    known.set(plainKey(from, row), open[row]);
    known.set(keyOf(from, row), open[row]);
  }
  const result = new Uint8Array(to.size);
  for (let row = 0; row < to.size; row++) {
    const state = known.get(keyOf(to, row)) ?? known.get(plainKey(to, row)) ?? (to.depth[row] < depth ? 1 : 0);
    result[row] = state && hasChildren(to, row) ? 1 : 0;
  }
  return result;
}

/**
 * Marks every row above the marked ones too.
 * @param {Tree} tree
 * @param {Uint8Array} marked
 * @returns {Uint8Array}
 */
export function withAncestors(tree, marked) {
  const result = Uint8Array.from(marked);
  for (let row = tree.size - 1; row > 0; row--) if (result[row]) result[tree.parent[row]] = 1;
  return result;
}

/**
 * Marks every row below the marked ones too.
 * @param {Tree} tree
 * @param {Uint8Array} marked
 * @returns {Uint8Array}
 */
export function withDescendants(tree, marked) {
  const result = Uint8Array.from(marked);
  for (let row = 1; row < tree.size; row++) if (result[tree.parent[row]]) result[row] = 1;
  return result;
}

/**
 * Which rows are open at a depth; a negative one opens what matters.
 * @param {Tree} tree
 * @param {number} depth
 */
export const openAt = (tree, depth) => (depth < 0 ? openMain(tree) : openTo(tree, depth));

/**
 * Rows that a search, or the largest leaves, leave to be shown; null for all.
 * @param {Tree} tree
 * @param {{hits: Uint8Array} | null} hits
 * @param {{rows: number[]} | null} top
 */
export function shownOnly(tree, hits, top) {
  let only = hits && withAncestors(tree, withDescendants(tree, hits.hits));
  if (top) {
    const marked = new Uint8Array(tree.size);
    for (const row of top.rows) marked[row] = 1;
    const best = withAncestors(tree, marked);
    only = only ? only.map((value, row) => value & best[row]) : best;
  }
  return only;
}

/**
 * Opens what leads to the rows that are wanted, not what is inside them.
 * @param {Tree} tree
 * @param {Uint8Array} open
 * @param {Uint8Array} only
 */
export function openFor(tree, open, only) {
  const result = Uint8Array.from(open);
  for (let row = 1; row < tree.size; row++) {
    const above = tree.parent[row];
    const whole = tree.end[above] - above - 1;
    if (only[row] && whole > 0 && !allBelow(tree, only, above)) result[above] = 1;
  }
  result[0] = 1;
  return result;
}

/**
 * @param {Tree} tree
 * @param {Uint8Array} only
 * @param {number} row
 */
function allBelow(tree, only, row) {
  for (let child = row + 1; child < tree.end[row]; child = tree.end[child]) if (!only[child]) return false;
  return true;
}

/**
 * @param {Uint8Array} old
 * @param {number[]} rows
 * @param {boolean} open
 */
export function changed(old, rows, open) {
  const next = Uint8Array.from(old);
  for (const row of rows) next[row] = open ? 1 : 0;
  return next;
}

/**
 * @param {Tree} tree
 * @param {Uint8Array} open
 * @param {number} row
 */
export function openAbove(tree, open, row) {
  const next = Uint8Array.from(open);
  for (let above = tree.parent[row]; above >= 0; above = tree.parent[above]) next[above] = 1;
  return next;
}

/**
 * The unfolded group that a row, or what it is in, came out of.
 * @param {Tree} tree
 * @param {number} row
 * @param {Set<string>} unfolded
 */
export function groupOf(tree, row, unfolded) {
  for (let at = row; at > 0; at = tree.parent[at]) {
    const members = tree.nodes[at].members;
    if (!members || tree.count[at] > 1) continue;
    const above = tree.path[tree.parent[at]];
    const first = /** @type {{name: string}} */ (members[0]).name;
    const path = first.startsWith("/") ? first.slice(1) : above ? `${above}.${first}` : first;
    if (unfolded.has(path)) return path;
  }
  return null;
}

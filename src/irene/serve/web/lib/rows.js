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

// Where the boxes of a node-link tree stand, left to right, by d3's tidy tree.

import { hierarchy, tree as tidy } from "../vendor/d3-hierarchy.js";

export const BOX = { width: 164, height: 24, gapX: 22, gapY: 6 };

/**
 * @typedef {object} Placed
 * @property {number} row
 * @property {number} x left edge, px
 * @property {number} y middle, px
 * @property {number} above index of its parent in the list; -1 for the root
 */

/**
 * @param {import("./tree.js").Tree} tree
 * @param {number} root
 * @param {Int32Array} rows on screen (see visibleRows), in pre-order
 * @returns {{nodes: Placed[], width: number, height: number}}
 */
export function layoutNodeLink(tree, root, rows) {
  /** @type {Map<number, {row: number, children: any[]}>} */
  const known = new Map();
  for (const row of rows) {
    if (row < root || row >= tree.end[root]) continue;
    const item = { row, children: [] };
    known.set(row, item);
    if (row !== root) known.get(tree.parent[row])?.children.push(item);
  }
  const top = known.get(root) ?? { row: root, children: [] };
  const placed = tidy().nodeSize([BOX.height + BOX.gapY, BOX.width + BOX.gapX]).separation(() => 1)(hierarchy(top));
  /** @type {any[]} */
  const all = [];
  placed.eachBefore((/** @type {any} */ each) => {
    each.index = all.length;
    all.push(each);
  });
  let [low, high, right] = [Infinity, -Infinity, 0];
  for (const each of all) {
    if (each.x < low) low = each.x;
    if (each.x > high) high = each.x;
    if (each.y > right) right = each.y;
  }
  const margin = BOX.height / 2 + 10;
  return {
    nodes: all.map((each) => ({
      row: each.data.row,
      x: each.y + 10,
      y: each.x - low + margin,
      above: each.parent ? each.parent.index : -1,
    })),
    width: right + BOX.width + 20,
    height: high - low + 2 * margin,
  };
}

// Questions asked of a tree: which nodes match, which carry it, what they sum to.

import { ML, hasChildren, label } from "./tree.js";

/** @typedef {import("./tree.js").Tree} Tree */

/**
 * @typedef {object} Search
 * @property {Uint8Array} hits 1 for rows that match
 * @property {number} rows how many rows match
 * @property {number} nodes how many nodes of the unfolded tree that is
 * @property {number} share of the total; what is below a match is not counted twice
 */

/**
 * Nodes whose name or class holds every word; the model itself is not looked at.
 *
 * What is below a match does not match for the part of its path that it shares.
 * @param {Tree} tree
 * @param {string} words
 * @returns {Search | null} null for no words
 */
export function search(tree, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return null;
  const hits = new Uint8Array(tree.size);
  const result = { hits, rows: 0, nodes: 0, share: 0 };
  let counted = 0;
  for (let row = 1; row < tree.size; row++) {
    const path = tree.path[row].toLowerCase();
    const above = tree.path[tree.parent[row]].toLowerCase();
    const words = `${tree.name[row]}\n${tree.nodes[row].op}`.toLowerCase();
    const fits = wanted.every((w) => words.includes(w) || (path.includes(w) && !above.includes(w)));
    if (!fits) continue;
    hits[row] = 1;
    result.rows += 1;
    result.nodes += tree.times[row];
    if (row < counted) continue;
    result.share += tree.share[row] || 0;
    counted = tree.end[row];
  }
  return result;
}

/**
 * The fewest leaves that carry a part of the whole (90 %), the largest first.
 * @param {Tree} tree
 * @param {number} [part]
 * @returns {{rows: number[], leaves: number, share: number}}
 */
export function topLeaves(tree, part = 0.9) {
  const leaves = [];
  for (let row = 0; row < tree.size; row++) {
    if (!hasChildren(tree, row) && tree.share[row] > 0) leaves.push(row);
  }
  leaves.sort((a, b) => tree.share[b] - tree.share[a] || a - b);
  let share = 0;
  let taken = 0;
  while (taken < leaves.length && share < part - 1e-12) share += tree.share[leaves[taken++]];
  return { rows: leaves.slice(0, taken), leaves: leaves.length, share };
}

/**
 * @typedef {object} Group
 * @property {string} name
 * @property {number[]} rows
 * @property {number} nodes of the unfolded tree
 * @property {number} value J or FLOPs, all of them
 * @property {number} share
 * @property {number} flops
 */

/**
 * Nodes by energy, one by one or summed by module class or by primitive.
 *
 * Primitives add up to the whole, with "(own)" for what belongs to none. Classes
 * contain each other; of equal classes inside each other only the outer one counts.
 * @param {Tree} tree
 * @param {"node" | "class" | "primitive"} by
 * @param {{maxDepth?: number, minShare?: number}} [options]
 * @returns {Group[]} the largest first
 */
export function aggregate(tree, by, { maxDepth = Infinity, minShare = 0 } = {}) {
  const groups = by === "node" ? eachNode(tree, maxDepth) : byOp(tree, by === "primitive");
  return groups
    .filter((group) => group.share >= minShare && group.share > 0)
    .sort((a, b) => b.share - a.share || a.rows[0] - b.rows[0]);
}

/**
 * @param {Tree} tree
 * @param {number} maxDepth
 * @returns {Group[]}
 */
function eachNode(tree, maxDepth) {
  const groups = [];
  for (let row = 1; row < tree.size; row++) {
    if (tree.depth[row] <= maxDepth) groups.push(groupOf(tree, row, label(tree, row)));
  }
  return groups;
}

/**
 * @param {Tree} tree
 * @param {number} row
 * @param {string} name
 * @returns {Group}
 */
function groupOf(tree, row, name) {
  const times = tree.times[row];
  return {
    name,
    rows: [row],
    nodes: times,
    value: tree.value[row] * times,
    share: tree.share[row],
    flops: tree.nodes[row].flops * times,
  };
}

/**
 * @param {Tree} tree
 * @param {boolean} primitives
 * @returns {Group[]}
 */
function byOp(tree, primitives) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  /** @type {Map<string, number>} */
  const inside = new Map();
  let rest = tree.value[0] || 0;
  for (let row = 0; row < tree.size; row++) {
    const op = tree.nodes[row].op;
    const wanted = primitives ? tree.kind[row] === ML : row > 0 && tree.kind[row] < ML;
    if (!wanted || row < (inside.get(op) ?? 0)) continue;
    inside.set(op, tree.end[row]);
    const one = groupOf(tree, row, op);
    const sum = groups.get(op);
    if (!sum) groups.set(op, one);
    else {
      sum.rows.push(row);
      for (const key of /** @type {const} */ (["nodes", "value", "share", "flops"])) sum[key] += one[key];
    }
    rest -= one.value || 0;
  }
  const whole = tree.value[0] || 0;
  if (primitives && rest > 1e-9 * whole) {
    groups.set("(own)", { name: "(own)", rows: [0], nodes: 0, value: rest, share: rest / whole, flops: 0 });
  }
  return [...groups.values()];
}

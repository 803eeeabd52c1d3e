// The document irene.tree/1 as flat typed arrays, one row per node in pre-order.
//
// Equal layers come folded (one node with a count and its members); here any of them
// can be unfolded. Costs and energies are those of one instance, as in the document;
// `times` says how often a row occurs in all, and shares count every occurrence.

import { calledName } from "./recent.js";

export const KINDS = ["model", "module", "ml", "math"];
export const ML = KINDS.indexOf("ml");

/**
 * @typedef {object} TreeNode a node of the document
 * @property {string} path
 * @property {string} kind
 * @property {string} op
 * @property {number} count
 * @property {number[][]} inputs
 * @property {number[][]} outputs
 * @property {string} dtype
 * @property {number} params
 * @property {number} flops
 * @property {number} bytes
 * @property {number} bytes_read
 * @property {number} bytes_written
 * @property {{name: string, place: number}[]} [members]
 * @property {Record<string, number>} [features]
 * @property {TreeNode[]} children
 * @property {number} [energy_j]
 * @property {number} [low_j]
 * @property {number} [high_j]
 * @property {string} [source]
 * @property {number | null} [own_j]
 */

/**
 * @typedef {object} Tree
 * @property {any} document
 * @property {number} size rows
 * @property {number} nodeCount nodes of the unfolded tree
 * @property {TreeNode[]} nodes the document's node of every row
 * @property {string[]} path
 * @property {string[]} name last part of the path, as seen from the parent
 * @property {Uint8Array} kind index into KINDS
 * @property {Int32Array} parent row; -1 for the root
 * @property {Int32Array} end row after the last descendant
 * @property {Uint16Array} depth
 * @property {Int32Array} count how many equal siblings the row stands for
 * @property {Int32Array} call which call of its path, from 1
 * @property {Float64Array} times how often it occurs in all
 * @property {Float64Array} value what shares are of: J, or FLOPs where there is no energy; one instance
 * @property {Float64Array} share of the total, all occurrences
 * @property {Float64Array} parentShare of the parent, all siblings it stands for
 * @property {Float64Array} own of `value`, what no child carries
 * @property {"energy" | "flops" | "bytes"} basis
 * @property {boolean} folded some rows stand for several
 * @property {Set<string>} unfolded paths that were unfolded on demand
 */

/**
 * @param {any} document irene.tree/1
 * @param {{unfolded?: Iterable<string>, all?: boolean}} [options] paths of folded rows
 *   to unfold, or all of them
 * @returns {Tree}
 */
export function loadTree(document, { unfolded = [], all = false } = {}) {
  if (!document?.tree) throw new Error("this document holds no tree");
  const open = new Set(unfolded);
  const rows = collect(document.tree, open, all);
  const size = rows.nodes.length;
  /** @type {Tree} */
  const tree = {
    document,
    size,
    ...rows,
    parent: Int32Array.from(rows.parent),
    count: Int32Array.from(rows.count),
    kind: new Uint8Array(size),
    end: new Int32Array(size),
    depth: new Uint16Array(size),
    call: new Int32Array(size),
    times: new Float64Array(size),
    value: new Float64Array(size),
    share: new Float64Array(size),
    parentShare: new Float64Array(size),
    own: new Float64Array(size),
    nodeCount: 0,
    basis: basisOf(document.tree),
    folded: false,
    unfolded: open,
  };
  fillDown(tree);
  fillUp(tree);
  return tree;
}

/** @param {TreeNode} root */
function basisOf(root) {
  if (Number.isFinite(root.energy_j ?? NaN)) return "energy";
  return root.flops > 0 ? "flops" : "bytes";
}

/**
 * @param {TreeNode} root
 * @param {Set<string>} unfolded
 * @param {boolean} all
 */
function collect(root, unfolded, all) {
  /** @type {TreeNode[]} */
  const nodes = [];
  /** @type {string[]} */
  const path = [];
  /** @type {string[]} */
  const name = [];
  /** @type {number[]} */
  const parent = [];
  /** @type {number[]} */
  const count = [];
  /** @type {{node: TreeNode, name: string, above: number, count: number}[]} */
  const stack = [{ node: root, name: root.path, above: -1, count: root.count }];
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { node, above } = next;
    const row = nodes.length;
    const here = joinPath(above < 0 ? "" : /** @type {string} */ (path[above]), next.name);
    nodes.push(node);
    path.push(here);
    name.push(next.name.replace(/^\//, ""));
    parent.push(above);
    count.push(next.count);
    const below = instances(node, here, unfolded, all);
    for (let i = below.length - 1; i >= 0; i--) {
      const child = /** @type {{node: TreeNode, name: string, count: number}} */ (below[i]);
      stack.push({ ...child, above: row });
    }
  }
  return { nodes, path, name, parent, count };
}

/**
 * @param {string} above
 * @param {string} name relative, or absolute with a slash before it
 */
function joinPath(above, name) {
  if (name.startsWith("/")) return name.slice(1);
  return above ? `${above}.${name}` : name;
}

/**
 * @param {TreeNode} child
 * @param {TreeNode} parent
 */
function relativeName(child, parent) {
  if (parent.path === "") return child.path;
  if (child.path.startsWith(`${parent.path}.`)) return child.path.slice(parent.path.length + 1);
  return `/${child.path}`;
}

/**
 * Children in the order of the tree, folded ones as one or as all their members.
 * @param {TreeNode} node
 * @param {string} path
 * @param {Set<string>} unfolded
 * @param {boolean} all
 * @returns {{node: TreeNode, name: string, count: number}[]}
 */
function instances(node, path, unfolded, all) {
  /** @type {{node: TreeNode, name: string, count: number}[]} */
  const free = [];
  /** @type {Map<number, {node: TreeNode, name: string, count: number}>} */
  const placed = new Map();
  for (const child of node.children) {
    const name = relativeName(child, node);
    const members = child.members;
    if (!members?.length || !(all || unfolded.has(joinPath(path, name)))) {
      free.push({ node: child, name, count: child.count });
      continue;
    }
    for (const member of members) {
      placed.set(member.place, { node: child, name: member.name, count: 1 });
    }
  }
  return placed.size ? inPlaces(free, placed) : free;
}

/**
 * Members go to their places; what stayed folded fills the gaps by its first member's.
 * @param {{node: TreeNode, name: string, count: number}[]} free
 * @param {Map<number, {node: TreeNode, name: string, count: number}>} placed
 */
function inPlaces(free, placed) {
  const ordered = [...placed].sort((a, b) => a[0] - b[0]);
  const result = [];
  let place = 0;
  const rest = free.values();
  for (const [wanted, each] of ordered) {
    while (place < wanted) {
      const { value, done } = rest.next();
      if (done) break;
      result.push(value);
      place += value.count;
    }
    result.push(each);
    place += 1;
  }
  return [...result, ...rest];
}

/** @param {Tree} tree */
function fillDown(tree) {
  const { size, nodes, parent, count, basis } = tree;
  const key = basis === "energy" ? "energy_j" : basis;
  const total = nodes[0]?.[key] ?? NaN;
  const seen = new Map();
  for (let row = 0; row < size; row++) {
    const node = /** @type {TreeNode} */ (nodes[row]);
    const above = parent[row];
    const root = above < 0;
    tree.kind[row] = KINDS.indexOf(node.kind);
    tree.depth[row] = root ? 0 : tree.depth[above] + 1;
    tree.times[row] = (root ? 1 : tree.times[above]) * count[row];
    tree.value[row] = node[key] ?? NaN;
    tree.share[row] = (tree.value[row] * tree.times[row]) / total;
    tree.parentShare[row] = root ? 1 : (tree.value[row] * count[row]) / tree.value[above];
    tree.nodeCount += tree.times[row];
    tree.folded ||= count[row] > 1;
    const before = seen.get(tree.path[row]) ?? 0;
    tree.call[row] = before + 1;
    seen.set(tree.path[row], before + tree.times[row]);
  }
}

/** @param {Tree} tree */
function fillUp(tree) {
  const below = new Float64Array(tree.size);
  for (let row = tree.size - 1; row >= 0; row--) {
    if (tree.end[row] === 0) tree.end[row] = row + 1;
    const value = tree.value[row] || 0;
    tree.own[row] = value - below[row];
    const above = tree.parent[row];
    if (above < 0) continue;
    below[above] += value * tree.count[row];
    if (tree.end[row] > tree.end[above]) tree.end[above] = tree.end[row];
  }
}

/**
 * @param {Tree} tree
 * @param {number} row
 * @returns {number[]} rows directly below
 */
export function childrenOf(tree, row) {
  const rows = [];
  for (let child = row + 1; child < tree.end[row]; child = tree.end[child]) rows.push(child);
  return rows;
}

/**
 * @param {Tree} tree
 * @param {number} row
 * @returns {boolean}
 */
export const hasChildren = (tree, row) => tree.end[row] > row + 1;

/**
 * What names a row in the address bar: its path, and its call if not the first; a dot
 * for the root.
 * @param {Tree} tree
 * @param {number} row
 */
export function keyOf(tree, row) {
  if (row === 0) return ".";
  return tree.call[row] > 1 ? `${tree.path[row]}#${tree.call[row]}` : tree.path[row];
}

/** @type {WeakMap<Tree, Map<string, number>>} */
const indices = new WeakMap();

/**
 * The row that `keyOf` names. A layer that is folded away is found as its group.
 * @param {Tree} tree
 * @param {string} key
 * @returns {number} -1 if there is none
 */
export function findRow(tree, key) {
  let index = indices.get(tree);
  if (!index) {
    index = new Map();
    for (let row = tree.size - 1; row >= 0; row--) {
      index.set(plainKey(tree, row), row);
      index.set(keyOf(tree, row), row);
    }
    indices.set(tree, index);
  }
  return index.get(key) ?? index.get(withoutNumbers(key)) ?? -1;
}

/**
 * Name for people: the model's at the root, "layer.0–11" where equal layers are folded.
 * @param {Tree} tree
 * @param {number} row
 */
export function label(tree, row) {
  const node = tree.nodes[row];
  if (row === 0) return calledName(tree.document.spec?.model ?? node.op);
  const above = tree.name[/** @type {number} */ (tree.parent[row])];
  const name = (tree.name[row] || node.op).replace(/^\d+$/, `${above && `${above}.`}$&`);
  return tree.count[row] > 1 && node.members ? memberNames(node.members.map((m) => m.name)) : name;
}

/**
 * The path for people: "encoder.layer.*.attention" where equal layers are folded.
 * @param {Tree} tree
 * @param {number} row
 */
export function displayPath(tree, row) {
  if (row === 0) return label(tree, 0);
  const parts = [];
  for (let at = row; at > 0; at = tree.parent[at]) {
    const name = tree.name[at] || tree.nodes[at].op;
    parts.unshift(tree.count[at] > 1 ? name.replace(/\d+(?=[^\d]*$)/, "*") : name);
    if (!tree.path[at].endsWith(`.${tree.name[at]}`)) break; // an absolute name starts anew
  }
  return parts.join(".");
}

/**
 * "layer.0", "layer.1", "layer.2" -> "layer.0–2"; gaps are shown.
 * @param {string[]} names
 */
export function memberNames(names) {
  const clean = names.map((name) => name.replace(/^\//, ""));
  const first = clean[0] ?? "";
  const parts = clean.map((name) => name.match(/^(.*?)(\d+)([^\d]*)$/));
  const like = parts[0];
  if (!like || !parts.every((p) => p && p[1] === like[1] && p[3] === like[3])) return first;
  const numbers = parts.map((p) => Number(p?.[2]));
  const runs = [];
  for (let i = 0; i < numbers.length; ) {
    let j = i;
    while (j + 1 < numbers.length && numbers[j + 1] === numbers[j] + 1) j++;
    runs.push(j > i ? `${numbers[i]}–${numbers[j]}` : `${numbers[i]}`);
    i = j + 1;
  }
  const shown = runs.length > 4 ? [...runs.slice(0, 3), "…", runs[runs.length - 1]] : runs;
  return `${like[1]}${shown.join(",")}${like[3]}`;
}

/**
 * @param {Tree} tree
 * @param {number} row
 */
export const plainKey = (tree, row) => withoutNumbers(keyOf(tree, row));

/** @param {string} key */
const withoutNumbers = (key) => key.replace(/(^|\.)\d+(?=\.|#|$)/g, "$1*");

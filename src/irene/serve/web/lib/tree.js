// The document irene.tree/1 as flat typed arrays, one row per node in pre-order.
//
// Equal layers come folded (one node with a count and its members); here any of them
// can be unfolded. Costs and energies are those of one instance, as in the document;
// `times` says how often a row occurs in all, and shares count every occurrence.

export const KINDS = ["model", "module", "ml", "math"];
const ML = KINDS.indexOf("ml");

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
  if (row === 0) return tree.document.spec?.model ?? node.op;
  const name = tree.name[row] || node.op;
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
 * @param {Tree} tree
 * @param {number} row
 */
const plainKey = (tree, row) => withoutNumbers(keyOf(tree, row));

/** @param {string} key */
const withoutNumbers = (key) => key.replace(/(^|\.)\d+(?=\.|#|$)/g, "$1*");

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

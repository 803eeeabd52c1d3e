// Where every box of an icicle stands: as wide as its share, children below.

/** @typedef {import("./tree.js").Tree} Tree */

/**
 * @typedef {object} Boxes
 * @property {number[]} rows
 * @property {Float64Array} x from the left, px
 * @property {Float64Array} width px
 * @property {Uint16Array} level below the root of the picture
 * @property {number} levels
 */

/**
 * @param {Tree} tree
 * @param {number} root row that fills the width
 * @param {number} width px
 * @param {{least?: number, levels?: number, minShare?: number}} [options] least: px below which a
 *   box and what is in it are left out
 * @returns {Boxes}
 */
export function layoutIcicle(tree, root, width, { least = 0.4, levels = Infinity, minShare = 0 } = {}) {
  const rows = [root];
  const x = [0];
  const wide = [width];
  const level = [0];
  let deepest = 0;
  for (let i = 0; i < rows.length; i++) {
    const row = /** @type {number} */ (rows[i]);
    const below = /** @type {number} */ (level[i]) + 1;
    if (below >= levels) continue;
    let left = /** @type {number} */ (x[i]);
    const scale = /** @type {number} */ (wide[i]) / tree.value[row];
    for (let child = row + 1; child < tree.end[row]; child = tree.end[child]) {
      const size = tree.value[child] * tree.count[child] * scale;
      if (size >= least && tree.share[child] >= minShare) {
        rows.push(child);
        x.push(left);
        wide.push(size);
        level.push(below);
        deepest = below;
      }
      if (size > 0) left += size;
    }
  }
  return {
    rows,
    x: Float64Array.from(x),
    width: Float64Array.from(wide),
    level: Uint16Array.from(level),
    levels: deepest + 1,
  };
}

/**
 * The box at a point.
 * @param {Boxes} boxes
 * @param {number} x px
 * @param {number} level
 * @returns {number} index into the boxes; -1 for none
 */
export function boxAt(boxes, x, level) {
  for (let i = 0; i < boxes.rows.length; i++) {
    if (boxes.level[i] === level && x >= boxes.x[i] && x < boxes.x[i] + boxes.width[i]) return i;
  }
  return -1;
}

/**
 * The row that an arrow key leads to.
 * @param {Tree} tree
 * @param {number} root of the picture
 * @param {number} row
 * @param {string} key
 * @returns {number}
 */
export function step(tree, root, row, key) {
  if (key === "ArrowUp") return row === root ? row : tree.parent[row];
  if (key === "Home") return root;
  if (key === "ArrowDown") {
    let best = row;
    for (let child = row + 1; child < tree.end[row]; child = tree.end[child]) {
      const more = best === row || tree.value[child] * tree.count[child] > tree.value[best] * tree.count[best];
      if (more) best = child;
    }
    return best;
  }
  if (row === root) return row;
  const siblings = [];
  const above = tree.parent[row];
  for (let child = above + 1; child < tree.end[above]; child = tree.end[child]) {
    if (tree.value[child] > 0 || child === row) siblings.push(child);
  }
  const at = siblings.indexOf(row) + (key === "ArrowRight" ? 1 : -1);
  return siblings[Math.min(Math.max(at, 0), siblings.length - 1)] ?? row;
}

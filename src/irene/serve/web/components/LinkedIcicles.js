// Icicles of several trees on one scale: as many pixels per joule in each. What is
// pointed at in one lights up in all that have it.

import { html, useMemo, useState } from "../vendor/preact.js";
import { useWidth } from "./Chart.js";
import { useDark } from "./Page.js";
import { inkOn, position, ramp } from "../lib/colour.js";
import { joules, percent } from "../lib/format.js";
import { childrenOf, keyOf, label } from "../lib/tree.js";

const ROW = 24;
const DEEPEST = 6;
const NARROWEST = 1.5;

/**
 * @typedef {import("../lib/tree.js").Tree} Tree
 * @typedef {{row: number, depth: number, left: number, width: number}} Box px
 */

/**
 * @param {{subjects: {name: string, tree: Tree | null, factor: number, href: string}[],
 *   path: string, onPath: (path: string) => void}} props factor: what energies are
 *   divided by, for one sequence or token
 */
export function LinkedIcicles({ subjects, path, onPath }) {
  const [ref, width] = useWidth();
  const [hover, setHover] = useState("");
  const most = Math.max(0, ...subjects.map((each) => energyOf(each)));
  const shown = hover || path;
  return html`<div class="linked" ref=${ref}>
    ${subjects.map(
      (subject, index) => html`<section key=${`${index} ${subject.name}`} class="linked-one">
        <h3><a href=${subject.href}>${subject.name}</a> <span class="hint">${joules(energyOf(subject))}</span></h3>
        ${subject.tree && html`<${OneIcicle}
          tree=${subject.tree} name=${subject.name} width=${(width * energyOf(subject)) / (most || 1)}
          shown=${shown} pinned=${path} onHover=${setHover} onPath=${onPath}
        />`}
      </section>`,
    )}
    <${Readout} subjects=${subjects} path=${shown} />
  </div>`;
}

/** @param {{tree: Tree | null, factor: number}} subject */
function energyOf({ tree, factor }) {
  return tree ? (tree.value[0] ?? 0) / factor : 0;
}

/**
 * The same part in trees whose layers count differently: numbers do not matter.
 * @param {Tree} tree
 * @param {number} row
 */
export function partKey(tree, row) {
  return row === 0 ? "" : keyOf(tree, row).replace(/(^|\.)\d+(?=\.|#|$)/g, "$1*");
}

/**
 * What a part of one tree is called in another: the same, or else what has its name,
 * such as another model's `attention`.
 * @param {Tree} tree
 * @param {string} key of `partKey`, of any tree
 * @returns {string | null} null if there is none
 */
export function partIn(tree, key) {
  const last = key.split(".").at(-1) ?? "";
  let named = null;
  for (let row = 0; row < tree.size; row++) {
    const own = partKey(tree, row);
    if (own === key) return own;
    if (named === null && /[a-z]/i.test(last) && own.endsWith(`.${last}`)) named = own;
  }
  return named;
}

/**
 * @param {Tree} tree
 * @param {number} width px
 * @returns {Box[]}
 */
function boxes(tree, width) {
  /** @type {Box[]} */
  const found = [];
  const place = (/** @type {number} */ row, /** @type {number} */ left, /** @type {number} */ wide, /** @type {number} */ depth) => {
    found.push({ row, depth, left, width: wide });
    if (depth + 1 >= DEEPEST) return;
    let at = left;
    for (const child of childrenOf(tree, row)) {
      const size = (wide * (tree.value[child] ?? 0) * (tree.count[child] ?? 1)) / (tree.value[row] || 1);
      if (size >= NARROWEST) place(child, at, size, depth + 1);
      at += size || 0;
    }
  };
  place(0, 0, width, 0);
  return found;
}

/**
 * @param {{tree: Tree, name: string, width: number, shown: string, pinned: string,
 *   onHover: (path: string) => void, onPath: (path: string) => void}} props
 */
function OneIcicle({ tree, name, width, shown, pinned, onHover, onPath }) {
  const dark = useDark();
  const all = useMemo(() => boxes(tree, Math.max(width, 2)), [tree, width]);
  const depth = all.reduce((most, box) => Math.max(most, box.depth), 0) + 1;
  const full = all.reduce((most, box) => (box.depth > 1 ? Math.max(most, tree.share[box.row] ?? 0) : most), 0) || 1;
  const here = useMemo(() => partIn(tree, shown), [tree, shown]);
  const current = all.find((box) => partKey(tree, box.row) === here) ?? all[0];
  const go = (/** @type {KeyboardEvent} */ event) => {
    if (!current) return;
    const beside = all.filter((box) => tree.parent[box.row] === tree.parent[current.row]);
    const at = beside.indexOf(current);
    const next = {
      ArrowRight: beside[at + 1],
      ArrowLeft: beside[at - 1],
      ArrowUp: all.find((box) => box.row === tree.parent[current.row]),
      ArrowDown: all.filter((box) => tree.parent[box.row] === current.row).sort((a, b) => b.width - a.width)[0],
      Home: all[0],
    }[event.key];
    if (next) onHover(partKey(tree, next.row));
    else if (event.key === "Enter" || event.key === " ") onPath(shown === pinned ? "" : shown);
    else if (event.key === "Escape") onPath("");
    else return;
    event.preventDefault();
  };
  const said = current ? `${label(tree, current.row)}, ${percent(tree.share[current.row])}` : "";
  return html`<div
    class="linked-frame" tabindex="0" role="application" aria-roledescription="icicle"
    aria-label=${`Icicle of ${name}: ${said}. Arrow keys move, Enter pins.`} onKeyDown=${go}
    onPointerLeave=${() => onHover("")}
  >
    <svg width=${Math.max(width, 2)} height=${depth * ROW} viewBox=${`0 0 ${Math.max(width, 2)} ${depth * ROW}`} aria-hidden="true">
      ${all.map((box) => {
        const key = partKey(tree, box.row);
        const level = position(tree.share[box.row] ?? 0, "linear", full);
        const words = `${label(tree, box.row)}${(tree.count[box.row] ?? 1) > 1 ? ` ×${tree.count[box.row]}` : ""}`;
        const room = Math.floor((box.width - 8) / 6.6);
        return html`<g
          key=${box.row} class=${`part ${shown && key === here ? "lit" : ""}`}
          onPointerEnter=${() => onHover(key)} onClick=${() => onPath(key === pinned ? "" : key)}
        >
          <rect
            x=${box.left + 0.5} y=${box.depth * ROW + 0.5} width=${Math.max(box.width - 1, 0.5)} height=${ROW - 1}
            style=${{ fill: ramp(level, dark) }}
          />
          ${room > 2 && html`<text x=${box.left + 5} y=${box.depth * ROW + ROW / 2} dy="0.34em" style=${{ fill: inkOn(level, dark) }}>${words.length > room ? `${words.slice(0, room - 1)}…` : words}</text>`}
        </g>`;
      })}
    </svg>
  </div>`;
}

/** @param {{subjects: {name: string, tree: Tree | null, factor: number}[], path: string}} props */
function Readout({ subjects, path }) {
  return html`<p class="readout" role="status">
    <strong>${path || "the whole model"}</strong>
    ${subjects.map((subject) => subject.tree && html`<span>${subject.name}: ${found(subject.tree, subject.factor, path)}</span>`)}
  </p>`;
}

/**
 * @param {Tree} tree
 * @param {number} factor
 * @param {string} path
 */
function found(tree, factor, path) {
  const key = partIn(tree, path);
  if (key === null) return "does not have it";
  let energy = 0;
  for (let row = 0; row < tree.size; row++) {
    if (partKey(tree, row) === key) energy += ((tree.value[row] ?? 0) * (tree.times[row] ?? 1)) / factor;
  }
  return html`${joules(energy)} · ${percent(energy / energyOf({ tree, factor }))}${key !== path && html` <span class="hint">in ${key}</span>`}`;
}

// Icicles of several trees on one scale: as many pixels per joule in each. What is
// pointed at in one lights up in all that have it.

import { html, useMemo, useState } from "../vendor/preact.js";
import { useWidth } from "./Chart.js";
import { fit } from "./Icicle.js";
import { useDark } from "./Page.js";
import { inkOn, position, ramp } from "../lib/colour.js";
import { joules, percent } from "../lib/format.js";
import { layoutIcicle, step } from "../lib/icicle.js";
import { keyOf, label } from "../lib/tree.js";

const ROW = 24;
const DEEPEST = 6;
const NARROWEST = 1.5;

/** @typedef {import("../lib/tree.js").Tree} Tree */

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
 * @param {{tree: Tree, name: string, width: number, shown: string, pinned: string,
 *   onHover: (path: string) => void, onPath: (path: string) => void}} props
 */
function OneIcicle({ tree, name, width, shown, pinned, onHover, onPath }) {
  const dark = useDark();
  const boxes = useMemo(() => layoutIcicle(tree, 0, Math.max(width, 2), { least: NARROWEST, levels: DEEPEST }), [tree, width]);
  const high = boxes.levels * ROW;
  const full = boxes.rows.reduce((most, row, i) => (boxes.level[i] > 1 ? Math.max(most, tree.share[row]) : most), 0) || 1;
  const here = useMemo(() => partIn(tree, shown), [tree, shown]);
  const current = boxes.rows.find((row) => partKey(tree, row) === here) ?? 0;
  const go = (/** @type {KeyboardEvent} */ event) => {
    if (/^Arrow|^Home$/.test(event.key)) {
      const next = step(tree, 0, current, event.key);
      if (boxes.rows.includes(next)) onHover(partKey(tree, next));
    }
    else if (event.key === "Enter" || event.key === " ") onPath(shown === pinned ? "" : shown);
    else if (event.key === "Escape") onPath("");
    else return;
    event.preventDefault();
  };
  const said = `${label(tree, current)}, ${percent(tree.share[current])}`;
  return html`<div
    class="linked-frame" tabindex="0" role="application" aria-roledescription="icicle"
    aria-label=${`Icicle of ${name}: ${said}. Arrow keys move, Enter pins.`} onKeyDown=${go}
    onPointerLeave=${() => onHover("")}
  >
    <svg width=${Math.max(width, 2)} height=${high} viewBox=${`0 0 ${Math.max(width, 2)} ${high}`} aria-hidden="true">
      ${boxes.rows.map((row, i) => {
        const key = partKey(tree, row);
        const at = position(tree.share[row], "linear", full);
        const [left, top, wide] = [boxes.x[i], boxes.level[i] * ROW, boxes.width[i]];
        return html`<g
          key=${row} class=${`part ${shown && key === here ? "lit" : ""}`}
          onPointerEnter=${() => onHover(key)} onClick=${() => onPath(key === pinned ? "" : key)}
        >
          <rect x=${left + 0.5} y=${top + 0.5} width=${Math.max(wide - 1, 0.5)} height=${ROW - 1} style=${{ fill: ramp(at, dark) }} />
          <text x=${left + 5} y=${top + ROW / 2} dy="0.34em" style=${{ fill: inkOn(at, dark) }}>${fit(`${label(tree, row)}${tree.count[row] > 1 ? ` ×${tree.count[row]}` : ""}`, Math.floor((wide - 8) / 6.6))}</text>
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

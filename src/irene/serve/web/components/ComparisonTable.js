// Parts of several trees, aligned: energies side by side, differences with their causes.

import { html } from "../vendor/preact.js";
import { change, joules, percent } from "../lib/format.js";

const CAUSES = [
  ["flops_j", "compute", "more or less compute"],
  ["bytes_j", "memory", "more or fewer bytes"],
  ["efficiency_j", "efficiency", "energy per unit of work"],
];

/**
 * @typedef {import("../lib/comparison.js").Row} Row
 * @typedef {import("../lib/comparison.js").Comparison} Comparison
 */

/**
 * @param {{rows: readonly Row[], names: readonly string[], comparisons: readonly Comparison[],
 *   by: string, path: string}} props
 */
export function ComparisonTable({ rows, names, comparisons, by, path }) {
  const most = rows.reduce((all, row) => Math.max(all, ...row.energies), 0);
  const swing = rows.reduce((all, row) => Math.max(all, ...row.deltas.map((each) => Math.abs(each?.difference_j ?? 0))), 0);
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label="Parts side by side">
    <table class="data comparison">
      <thead>
        <tr>
          <th scope="col">${by === "role" ? "Role" : "Part"}</th>
          ${names.map((name, index) => html`<th scope="col" class="number">${name}${index === 0 && html` <span class="badge">base</span>`}</th>
            ${index > 0 && html`<th scope="col">Difference, and because of what</th>`}`)}
        </tr>
      </thead>
      <tbody>
        <${Total} comparisons=${comparisons} />
        ${rows.map((row) => html`<tr key=${row.name} class=${row.name === path ? "picked" : ""}>
          <th scope="row">${row.name}</th>
          ${row.energies.map((energy, index) => html`<${EnergyCell} energy=${energy} count=${row.counts[index] ?? 0} most=${most} />
            ${index > 0 && html`<${DeltaCell} row=${row} index=${index - 1} swing=${swing} />`}`)}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}

/** @param {{comparisons: readonly Comparison[]}} props */
function Total({ comparisons }) {
  const base = comparisons[0]?.base;
  if (!base) return null;
  return html`<tr class="total">
    <th scope="row">Whole</th>
    <td class="number">${joules(base.energy_j)}</td>
    ${comparisons.map((each) => html`<td class="number">${joules(each.other.energy_j)}</td>
      <td class="delta-cell"><span class=${deltaClass(each.difference_j)}>${signed(each.difference_j)}</span>
        <span class="hint"> ± ${joules((each.high_j - each.low_j) / 2)}${each.ratio === null ? "" : html` ${change(each.ratio - 1)}`}${each.is_real ? "" : ", may be none"}</span></td>`)}
  </tr>`;
}

/** @param {{energy: number, count: number, most: number}} props */
function EnergyCell({ energy, count, most }) {
  if (!count) return html`<td class="number none">–</td>`;
  return html`<td class="number energy-cell">
    <span class="cell-bar" aria-hidden="true" style=${{ "--part": most ? energy / most : 0 }}></span>
    <span class="cell-text">${joules(energy)}</span>
  </td>`;
}

/** @param {{row: Row, index: number, swing: number}} props */
function DeltaCell({ row, index, swing }) {
  const delta = row.deltas[index];
  const difference = delta?.difference_j ?? 0;
  if (!difference) return html`<td class="delta-cell none">same</td>`;
  const base = row.energies[0] ?? 0;
  const half = delta && delta.low_j !== undefined && delta.high_j !== undefined ? (delta.high_j - delta.low_j) / 2 : null;
  const part = swing ? (Math.abs(difference) / swing) * 50 : 0;
  return html`<td class="delta-cell">
    <span class="delta-track" aria-hidden="true"><span
      class=${`delta-bar ${difference > 0 ? "more" : "less"}`}
      style=${{ width: `${part}%`, left: `${difference > 0 ? 50 : 50 - part}%` }}
    ></span></span>
    <span class=${deltaClass(difference)}>${signed(difference)}</span>
    ${half !== null && html`<span class="hint"> ± ${joules(half)}</span>`}
    <span class="hint"> ${base ? change(difference / base) : "new"}</span>
    <div class="causes">${causes(delta)}</div>
  </td>`;
}

/** @param {number} difference */
const deltaClass = (difference) => (difference > 0 ? "delta more" : "delta less");

/** @param {number} value J */
export const signed = (value) => (value > 0 ? `+${joules(value)}` : joules(value));

/**
 * Which part of the difference each cause makes; one that works against it is below 0.
 * @param {import("../lib/comparison.js").Contribution | null | undefined} delta
 */
function causes(delta) {
  if (!delta?.difference_j) return "";
  return CAUSES.map(([field, word, title]) => {
    const term = delta[/** @type {"flops_j"} */ (field)];
    const share = term / delta.difference_j;
    if (Math.abs(share) < 0.01) return null;
    return html`<span class="cause" title=${`${title}: ${signed(term)}`}>${word} ${percent(share)}</span>`;
  });
}

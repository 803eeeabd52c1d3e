// Several comparisons with one base, as one table: a row per part, a column per subject.

import { calledName } from "./recent.js";

/**
 * @typedef {{name: string, base_j: number, other_j: number, flops_j: number, bytes_j: number,
 *   efficiency_j: number, base_count: number, other_count: number, difference_j: number,
 *   low_j?: number, high_j?: number}} Contribution
 * @typedef {{name: string, run: string, source: string, covers: string, energy_j: number,
 *   low_j: number, high_j: number, flops: number, bytes: number}} Side
 * @typedef {{base: Side, other: Side, per: string, difference_j: number, low_j: number,
 *   high_j: number, ratio: number | null, is_real: boolean, aligned_by: string, shared: number,
 *   by_role: Contribution[], by_path: Contribution[]}} Comparison
 * @typedef {{name: string, energies: number[], counts: number[], deltas: (Contribution | null)[],
 *   isDifferent: boolean}} Row energies and counts of all subjects, the base first
 */

// Parts that differ by less than this share of the larger tree do not differ.
const NOTHING = 1e-5;

/**
 * @param {readonly Comparison[]} comparisons all with the same base
 * @returns {Side[]} the base, then the others
 */
export function sides(comparisons) {
  const first = comparisons[0];
  const all = first ? [first.base, ...comparisons.map((each) => each.other)] : [];
  return all.map((side) => ({ ...side, name: calledName(side.name) }));
}

/**
 * How the parts are best aligned: by path if that holds for all.
 * @param {readonly Comparison[]} comparisons
 * @returns {"path" | "role"}
 */
export function alignment(comparisons) {
  return comparisons.every((each) => each.aligned_by === "path") ? "path" : "role";
}

/**
 * @param {readonly Comparison[]} comparisons
 * @param {"path" | "role"} by
 * @returns {Row[]} the largest difference first
 */
export function mergedRows(comparisons, by) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  const width = comparisons.length + 1;
  comparisons.forEach((comparison, index) => {
    const larger = Math.max(Math.abs(comparison.base.energy_j), Math.abs(comparison.other.energy_j));
    for (const part of by === "role" ? comparison.by_role : comparison.by_path) {
      const row = rows.get(part.name) ?? emptyRow(part.name, width);
      rows.set(part.name, row);
      row.energies[0] = part.base_j;
      row.counts[0] = part.base_count;
      row.energies[index + 1] = part.other_j;
      row.counts[index + 1] = part.other_count;
      row.deltas[index] = part;
      row.isDifferent ||= matters(part, NOTHING * larger);
    }
  });
  return [...rows.values()].sort((a, b) => largest(b) - largest(a));
}

/**
 * @param {string} name
 * @param {number} width
 * @returns {Row}
 */
function emptyRow(name, width) {
  return {
    name,
    energies: new Array(width).fill(0),
    counts: new Array(width).fill(0),
    deltas: new Array(width - 1).fill(null),
    isDifferent: false,
  };
}

/**
 * @param {Contribution} part
 * @param {number} nothing_j
 */
function matters(part, nothing_j) {
  return [part.difference_j, part.flops_j, part.bytes_j, part.efficiency_j].some((term) => Math.abs(term) > nothing_j);
}

/** @param {Row} row */
function largest(row) {
  return Math.max(0, ...row.deltas.map((each) => Math.abs(each?.difference_j ?? 0)));
}

/**
 * What follows the name of a subject in a sentence, with the interval.
 * @param {Comparison} comparison
 * @param {{joules: (value: number) => string, change: (share: number | null) => string}} format
 * @returns {{takes: string, than: string}} the base is named between the two
 */
export function verdict(comparison, { joules, change }) {
  const { difference_j, low_j, high_j, ratio, is_real: isReal } = comparison;
  const most = Math.max(Math.abs(comparison.base.energy_j), Math.abs(comparison.other.energy_j));
  if (Math.abs(difference_j) <= NOTHING * most) return { takes: "takes the same energy as", than: "" };
  const figure = `${joules(Math.abs(difference_j))} ± ${joules((high_j - low_j) / 2)}`;
  const share = ratio === null ? "" : ` (${change(ratio - 1)})`;
  return {
    takes: `takes ${figure} ${difference_j > 0 ? "more" : "less"}${share} than`,
    than: isReal ? "" : ", which may be no difference at all",
  };
}

/**
 * The table as lines of cells for CSV.
 * @param {readonly Row[]} rows
 * @param {readonly string[]} names of the subjects
 * @returns {(string | number)[][]}
 */
export function comparisonCells(rows, names) {
  const head = ["part", ...names.map((name) => `${name} energy_j`)];
  for (const name of names.slice(1)) {
    head.push(...["difference_j", "flops_j", "bytes_j", "efficiency_j"].map((term) => `${name} ${term}`));
  }
  const body = rows.map((row) => [
    row.name,
    ...row.energies,
    ...row.deltas.flatMap((each) => [
      each?.difference_j ?? 0,
      each?.flops_j ?? 0,
      each?.bytes_j ?? 0,
      each?.efficiency_j ?? 0,
    ]),
  ]);
  return [head, ...body];
}

/**
 * The subjects in another order or number: URL values after an action.
 * @param {readonly string[]} subjects
 * @param {{type: "add", text: string} | {type: "remove", index: number} |
 *   {type: "base", index: number} | {type: "replace", index: number, text: string}} action
 * @returns {string[]}
 */
export function changedSubjects(subjects, action) {
  const all = [...subjects];
  if (action.type === "add") return [...all, action.text];
  if (action.type === "remove") return all.filter((_, index) => index !== action.index);
  if (action.type === "replace") {
    all[action.index] = action.text;
    return all;
  }
  const [base] = all.splice(action.index, 1);
  return base === undefined ? all : [base, ...all];
}

// Accuracy against energy: who fits a budget, who is the one to take.

/**
 * @typedef {{joules: number, low: number, high: number, source: string, produced_by: string}} Energy
 * @typedef {{model: string, accuracy: number, energy: Energy, on_front: boolean, beaten_by: string,
 *   maybe: boolean, split: string, source: string, notes: string[]}} Candidate
 * @typedef {{budget_j: number | null, at_least: number | null}} Budget
 */

/**
 * @param {Candidate} each
 * @param {Budget} budget
 */
export function fits(each, { budget_j, at_least }) {
  return (budget_j === null || each.energy.joules <= budget_j) && (at_least === null || each.accuracy >= at_least);
}

/**
 * Where a model stands; intervals make both sides of the front unsure.
 * @param {Candidate} each
 */
export function place({ on_front, beaten_by, maybe }) {
  if (!on_front) return `behind ${beaten_by}${maybe ? ", perhaps" : ""}`;
  return maybe ? `front, unless ${beaten_by} takes no more` : "front";
}

/**
 * The model to take, as `irene trade-off` chooses: on the front, the cheapest if an
 * accuracy is asked for, else the most accurate.
 * @param {readonly Candidate[]} candidates the cheapest first
 * @param {Budget} budget
 * @returns {Candidate | null} null if nothing was asked or none fits
 */
export function chosen(candidates, budget) {
  if (budget.budget_j === null && budget.at_least === null) return null;
  const fit = candidates.filter((each) => each.on_front && fits(each, budget));
  return (budget.at_least === null ? fit.at(-1) : fit[0]) ?? null;
}

/**
 * Within the budget first; on the front before others; then by what was asked for.
 * @param {readonly Candidate[]} candidates
 * @param {Budget} budget
 * @returns {Candidate[]}
 */
export function ranked(candidates, budget) {
  const byEnergy = budget.at_least !== null || budget.budget_j === null;
  const rank = (/** @type {Candidate} */ each) => (fits(each, budget) ? 0 : 2) + (each.on_front ? 0 : 1);
  return [...candidates].sort(
    (a, b) =>
      rank(a) - rank(b) ||
      (byEnergy ? a.energy.joules - b.energy.joules : b.accuracy - a.accuracy) ||
      a.model.localeCompare(b.model),
  );
}

/**
 * The steps of the front as a line: energy rises, accuracy waits, then rises.
 * @param {readonly Candidate[]} candidates the cheapest first
 * @returns {[number, number][]} energy in J, accuracy
 */
export function frontSteps(candidates) {
  /** @type {[number, number][]} */
  const line = [];
  for (const each of candidates.filter((one) => one.on_front)) {
    const last = line.at(-1);
    if (last) line.push([each.energy.joules, last[1]]);
    line.push([each.energy.joules, each.accuracy]);
  }
  return line;
}

/**
 * A position 0…1000 of a slider as an energy, in even steps of its logarithm.
 * @param {number} position
 * @param {number} least J
 * @param {number} most J
 */
export function sliderEnergy(position, least, most) {
  return Number((least * (most / least) ** (position / 1000)).toPrecision(3));
}

/**
 * @param {number} energy J
 * @param {number} least J
 * @param {number} most J
 */
export function sliderPosition(energy, least, most) {
  if (most <= least) return 1000;
  const share = Math.log(energy / least) / Math.log(most / least);
  return Math.round(1000 * Math.min(Math.max(share, 0), 1));
}

/**
 * What is wrong with a table of accuracies, told before it is sent; "" if nothing is.
 * @param {string} text CSV
 * @returns {string}
 */
export function csvProblem(text) {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/).filter((line) => line.trim() !== "");
  const head = (lines[0] ?? "").split(/[,;\t]/).map((name) => name.trim().toLowerCase().replace(/^"|"$/g, ""));
  const missing = ["model", "accuracy"].filter((name) => !head.includes(name));
  if (missing.length) {
    return `The first line must name the columns model and accuracy; ${missing.join(" and ")} ${missing.length > 1 ? "are" : "is"} missing.`;
  }
  return lines.length < 2 ? "The table has no rows below its first line." : "";
}

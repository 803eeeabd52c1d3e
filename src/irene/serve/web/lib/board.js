// The leaderboard: which rows, in which order, in which unit.

/**
 * @typedef {{place: number | null, model: string, family: string, kind: string, params: number | null,
 *   energy: {joules: number, low: number, high: number, source: string} | null,
 *   per_sequence_j: number | null, per_token_j: number | null, flops: number | null,
 *   is_extrapolated: boolean, problem: string, accuracy?: number | null}} Entry
 */

export const SORTS = ["energy", "params", "flops", "efficiency", "accuracy", "model", "family"];
/** What energy is told of, in the API's names. */
export const PER = ["sequence", "token", "run"];

/**
 * @param {string} per of PER
 * @param {boolean} serving a served model answers requests and writes tokens
 */
export function unitWord(per, serving) {
  return serving ? { sequence: "request", token: "output token" }[per] ?? per : per;
}

/**
 * Energy in the wanted unit, J; NaN where it is not known.
 * @param {Pick<Entry, "problem" | "per_sequence_j" | "per_token_j"> & {energy: {joules: number} | null}} entry of a board, or of a grid
 * @param {string} per
 */
export function energyPer(entry, per) {
  if (entry.problem) return NaN;
  if (per === "run") return entry.energy?.joules ?? NaN;
  return (per === "token" ? entry.per_token_j : entry.per_sequence_j) ?? NaN;
}

/**
 * Lower and upper end in the wanted unit, J.
 * @param {Entry} entry
 * @param {string} per
 * @returns {[number, number]}
 */
export function intervalPer(entry, per) {
  if (!entry.energy) return [NaN, NaN];
  const scale = energyPer(entry, per) / entry.energy.joules;
  return [entry.energy.low * scale, entry.energy.high * scale];
}

/**
 * @param {readonly Entry[]} entries
 * @param {string} by one of SORTS
 * @param {boolean} down largest first
 * @param {string} per
 * @returns {Entry[]}
 */
export function sorted(entries, by, down, per) {
  const sign = down ? -1 : 1;
  const isText = by === "model" || by === "family";
  return [...entries].sort((a, b) => {
    const [x, y] = [sortValue(a, by, per), sortValue(b, by, per)];
    if (isText) return sign * String(x).localeCompare(String(y)) || a.model.localeCompare(b.model);
    // What is not known is last in both directions.
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
    return sign * (Number(x) - Number(y)) || a.model.localeCompare(b.model);
  });
}

/**
 * @param {Entry} entry
 * @param {string} by
 * @param {string} per
 */
function sortValue(entry, by, per) {
  if (by === "model" || by === "family") return entry[by];
  if (by === "params") return entry.params ?? NaN;
  if (by === "flops") return entry.flops ?? NaN;
  if (by === "accuracy") return entry.accuracy ?? NaN;
  if (by === "efficiency") return joulesPerGflop(entry);
  return energyPer(entry, per);
}

/** @param {Entry} entry */
export function joulesPerGflop(entry) {
  return entry.energy && entry.flops ? entry.energy.joules / (entry.flops / 1e9) : NaN;
}

/**
 * Distinct values with how often they occur, the most frequent first.
 * @param {readonly Entry[]} entries
 * @param {"family" | "kind"} field
 * @returns {[string, number][]}
 */
export function counted(entries, field) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const entry of entries) counts.set(entry[field], (counts.get(entry[field]) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

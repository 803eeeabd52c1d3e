// A grid of what-ifs: lists of values as the command line writes them, and the table.

/**
 * @typedef {{joules: number, low: number, high: number}} Energy
 * @typedef {{settings: Record<string, string | number>, energy: Energy | null, batch_size: number,
 *   tokens: number, flops: number, params: number, saving_j: number, saving_half_j: number,
 *   saving_is_real: boolean, notes: string[], problem: string, per_sequence_j: number | null,
 *   per_token_j: number | null}} Outcome
 */

export const MOST_CELLS = 400;

/**
 * Values of a list: `1,8,32`, or `64:512:64` for from:to:step; null if it is none.
 * @param {string} text
 * @returns {number[] | null}
 */
export function listValues(text) {
  /** @type {number[]} */
  const values = [];
  for (const part of text.split(",").map((each) => each.trim())) {
    const numbers = part.split(":").map(Number);
    const [from, to, step] = numbers;
    if (part === "" || numbers.length > 3 || numbers.some((each) => !Number.isInteger(each) || each < 1)) return null;
    if (to === undefined) values.push(Number(from));
    else for (let value = Number(from); value <= to && values.length <= 1000; value += step ?? 1) values.push(value);
  }
  const distinct = [...new Set(values)];
  return distinct.length && distinct.length <= 1000 ? distinct : null;
}

/**
 * The two settings that vary most become rows and columns; each mix of others a group.
 * @param {Record<string, (string | number)[]>} choices
 * @returns {{rows: string, columns: string, others: string[]}}
 */
export function axes(choices) {
  const names = Object.keys(choices);
  const varied = names.filter((name) => (choices[name]?.length ?? 0) > 1);
  const order = [...varied, ...names.filter((name) => !varied.includes(name))];
  const rows = varied.includes("batch_size") ? "batch_size" : (order[0] ?? "batch_size");
  const columns = varied.includes("seq_len") && rows !== "seq_len" ? "seq_len" : (order.find((name) => name !== rows) ?? "");
  return { rows, columns, others: varied.filter((name) => name !== rows && name !== columns) };
}

/**
 * @param {readonly Outcome[]} outcomes
 * @param {readonly string[]} others settings that make a group
 * @returns {Map<string, Outcome[]>} by the words of the group, "" if there are none
 */
export function grouped(outcomes, others) {
  /** @type {Map<string, Outcome[]>} */
  const groups = new Map();
  for (const outcome of outcomes) {
    const key = others.map((name) => `${name} ${outcome.settings[name]}`).join(" · ");
    const group = groups.get(key) ?? [];
    groups.set(key, group);
    group.push(outcome);
  }
  return groups;
}

/**
 * @param {readonly Outcome[]} outcomes of one group
 * @param {string} rows
 * @param {string} columns
 * @returns {{rows: (string | number)[], columns: (string | number)[],
 *   cell: (row: string | number, column: string | number) => Outcome | undefined}}
 */
export function table(outcomes, rows, columns) {
  /** @type {Map<string, Outcome>} */
  const cells = new Map();
  const key = (/** @type {unknown} */ row, /** @type {unknown} */ column) => `${row}\u0000${column}`;
  const value = (/** @type {Outcome} */ outcome, /** @type {string} */ name) => outcome.settings[name] ?? "";
  for (const outcome of outcomes) cells.set(key(value(outcome, rows), value(outcome, columns)), outcome);
  const distinct = (/** @type {string} */ name) => [...new Set(outcomes.map((outcome) => value(outcome, name)))];
  return { rows: distinct(rows), columns: distinct(columns), cell: (row, column) => cells.get(key(row, column)) };
}

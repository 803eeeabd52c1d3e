// The settings of a run in the address bar, for pages that share them with explore.

import { DEFAULTS } from "./spec.js";
import { text } from "./state.js";

const { model: FIRST, ...settings } = DEFAULTS;
export const FIRST_MODEL = FIRST;

/** What a run is unless somebody says so; explore starts there, too. */
export const USUAL = Object.freeze(
  /** @type {Record<string, string>} */ (Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, String(value)]))),
);

/** Settings that are passed on where they are given. */
const OTHERS = [
  "decoder_len", "context_len", "model_class", "prompt_len", "output_len", "quantization", "cache_dtype", "tensor_parallel",
];

/**
 * @typedef {Record<string, string>} Run in the API's names
 */

/**
 * The run that an address means; what is left out is as usual.
 * @param {import("./state.js").Query} query
 * @param {Run} [usual]
 * @returns {Run}
 */
export function readRun(query, usual = USUAL) {
  /** @type {Run} */
  const run = {};
  for (const [name, value] of Object.entries(usual)) run[name] = text(query, name, value);
  for (const name of OTHERS) if (text(query, name)) run[name] = text(query, name);
  return run;
}

/**
 * Changes for the address bar: what is as usual is taken out.
 * @param {Run} run
 * @param {Run} [usual]
 * @returns {Record<string, string | null>}
 */
export function runChanges(run, usual = USUAL) {
  /** @type {Record<string, string | null>} */
  const changes = {};
  for (const name of [...Object.keys(usual), ...OTHERS]) {
    const value = run[name] ?? "";
    changes[name] = value === "" || value === usual[name] ? null : value;
  }
  return changes;
}

/**
 * The settings that differ from the usual ones: for short addresses and commands.
 * @param {Run} run
 * @param {Run} [usual]
 * @returns {Run}
 */
export function unusual(run, usual = USUAL) {
  return Object.fromEntries(Object.entries(run).filter(([name, value]) => value !== "" && value !== usual[name]));
}

/** What the commands take to be usual; sizes and what was given are always written. */
const COMMANDS = { hardware: "pc1" };

/**
 * The run as options of a command.
 * @param {Run} run
 * @returns {Run}
 */
export function runOptions(run) {
  return unusual(run, COMMANDS);
}

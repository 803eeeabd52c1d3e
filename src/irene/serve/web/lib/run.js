// A run as the address bar, the API and the command line name it: one subject that goes
// along from page to page.

import { runFields } from "./parameters.js";
import { text, writeQuery } from "./state.js";

/** @typedef {Record<string, string>} Run in the API's names */

export const FIRST_MODEL = "bert-base-uncased";

/**
 * What a run is unless somebody says so. Settings that are "" are left open: the machine
 * chooses, and the answer says what.
 */
export const USUAL = Object.freeze(
  /** @type {Run} */ ({ batch_size: "8", seq_len: "128", dtype: "", attention: "", phase: "", on: "default" }),
);

/** The settings of one pass with a control of their own. */
export const CHOICES = {
  dtype: ["fp32", "fp16", "bf16"],
  attention: ["eager", "sdpa"],
  phase: ["forward", "prefill", "decode", "train", "generate"],
};

/** What is served at first. */
export const SERVED = "llama-3.1-8b";
/** A chat with a language model: what a serving is at first. */
export const CHAT = Object.freeze({ batch_size: "64", prompt_len: "750", output_len: "500" });

/** Names of what is carried from page to page beside the run. */
const SUBJECT = ["model", "upload", "anew", "answer"];

/** @returns {string[]} settings that are passed on where they are given */
const others = () => runFields().map(({ name }) => name).filter((name) => !(name in USUAL));

/**
 * What a setting may be: left open, which says what was chosen where that is known, or
 * one of its values.
 * @param {keyof typeof CHOICES} name
 * @param {any} [resolved] the run of an answer
 * @returns {[string, string][]}
 */
export function settingChoices(name, resolved) {
  const open = resolved?.chosen?.includes(name) ? `${resolved[name]} (auto)` : "auto";
  return [["", open], ...CHOICES[name].map((each) => /** @type {[string, string]} */ ([each, each]))];
}

/**
 * Whether a language model is served: prompts are read and answered.
 * @param {Record<string, any>} run
 */
export function isServing(run) {
  return run.phase === "generate" || Boolean(run.prompt_len || run.output_len);
}

/**
 * The run that an address means; what is left out is as usual, what is no field is ignored.
 * @param {import("./state.js").Query} query
 * @param {Run} [usual]
 * @returns {Run}
 */
export function readRun(query, usual = USUAL) {
  /** @type {Run} */
  const run = {};
  for (const [name, value] of Object.entries(usual)) run[name] = text(query, name, value);
  for (const name of others()) if (text(query, name)) run[name] = text(query, name);
  if (isServing(run)) delete run.seq_len;
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
  const changes = run.model ? { model: run.model } : {};
  for (const name of [...Object.keys(usual), ...others()]) {
    const value = run[name] ?? "";
    changes[name] = value === "" || value === usual[name] ? null : value;
  }
  return changes;
}

/**
 * The same run as a serving, or as one pass through the model.
 * @param {Run} run
 * @param {boolean} serving
 * @param {string} on a machine that can do it
 * @returns {Run}
 */
export function asServing(run, serving, on) {
  const kept = Object.fromEntries(Object.entries(run).filter(([name]) => !runFields().find((field) => field.name === name)?.serving));
  const open = { ...kept, phase: "", attention: "", context_len: "", on };
  return serving ? { ...open, seq_len: "", ...CHAT } : { ...open, batch_size: String(USUAL.batch_size), seq_len: String(USUAL.seq_len) };
}

/**
 * What of an address goes along to another page: the model, its run, the machine, the file.
 * @param {import("./state.js").Query} query
 * @returns {string} a query string
 */
export function carried(query) {
  const names = [...SUBJECT, ...Object.keys(USUAL), ...others()];
  // Lists are what-if's own: other pages have one size.
  const one = (/** @type {string} */ name) => text(query, name).split(/[,:]/)[0];
  const isSize = (/** @type {string} */ name) => name.endsWith("_len") || name === "batch_size";
  return writeQuery(Object.fromEntries(names.map((name) => [name, isSize(name) ? one(name) : text(query, name)])));
}

/**
 * The run as options of a command; sizes and what was given are always written.
 * @param {Run} run
 * @returns {Run}
 */
export function runOptions(run) {
  return Object.fromEntries(Object.entries(run).filter(([name, value]) => value !== "" && !(name === "on" && value === USUAL.on)));
}

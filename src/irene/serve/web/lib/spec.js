// A run as the page, the API and the command line name it.

import { number, text } from "./state.js";

/**
 * What the first page shows; what equals these is left out of the address. Settings that
 * are "" are left open: the machine chooses, and the answer says what.
 */
export const DEFAULTS = {
  model: "bert-base-uncased",
  batch_size: 8,
  seq_len: 128,
  dtype: "",
  attention: "",
  phase: "",
  hardware: "pc1",
};

/** The fields with a control of their own; the API's other parameters are generic. */
export const CHOICES = {
  dtype: ["fp32", "fp16", "bf16"],
  attention: ["eager", "sdpa"],
  phase: ["forward", "prefill", "decode", "train", "generate"],
};

/**
 * What a setting may be: left open, which says what was chosen where that is known, or
 * one of its values.
 * @param {keyof typeof CHOICES} name
 * @param {any} [resolved] the run of an answer
 * @returns {[string, string][]}
 */
export function settingChoices(name, resolved) {
  const open = resolved?.chosen?.includes(name) ? `${resolved[name]} (chosen)` : "as usual";
  return [["", open], ...CHOICES[name].map((each) => /** @type {[string, string]} */ ([each, each]))];
}

/** Names of the page's own state; everything else in the address belongs to the run. */
export const VIEW_NAMES = [
  "view", "path", "root", "depth", "min_share", "metric", "by", "search", "unfold", "top", "upload", "answer",
  "ledger_by", "ledger_sort", "ledger_down", "ledger_search", "from", "to",
];

/** @type {Record<string, string>} */
const FLAGS = {
  batch_size: "-b",
  seq_len: "-s",
  hardware: "--on",
  decoder_len: "--decoder-seq",
  context_len: "--context",
  prompt_len: "--prompt",
  output_len: "--output",
};

/**
 * The run that the address names, with the defaults filled in.
 * @param {import("./state.js").Query} query
 * @returns {Record<string, string | number>}
 */
export function readSpec(query) {
  /** @type {Record<string, string | number>} */
  const spec = { ...DEFAULTS };
  for (const name of Object.keys(query)) {
    if (!VIEW_NAMES.includes(name)) spec[name] = text(query, name);
  }
  for (const name of /** @type {const} */ (["batch_size", "seq_len"])) {
    const value = number(query, name, DEFAULTS[name]);
    spec[name] = Number.isInteger(value) && value > 0 ? value : DEFAULTS[name];
  }
  return spec;
}

/**
 * Changes for the address: values equal to their default are taken out.
 * @param {Record<string, any>} changes
 */
export function forAddress(changes) {
  return Object.fromEntries(
    Object.entries(changes).map(([name, value]) => [
      name,
      String(value) === String(/** @type {any} */ (DEFAULTS)[name]) ? null : value,
    ]),
  );
}

/**
 * The command that prints what is on screen.
 * @param {Record<string, string | number>} spec
 * @param {string} [command]
 */
export function cliCommand(spec, command = "predict") {
  const words = ["irene", command, quoted(String(spec.model))];
  for (const [name, value] of Object.entries(spec)) {
    if (name === "model") continue;
    const usual = /** @type {any} */ (DEFAULTS)[name];
    const always = name === "batch_size" || name === "seq_len" || name === "hardware";
    if (!always && String(value) === String(usual)) continue;
    words.push(FLAGS[name] ?? `--${name.replaceAll("_", "-")}`, quoted(String(value)));
  }
  return words.join(" ");
}

/** @param {string} word */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// What is compared, in the words of `irene compare`: gpt2@b16s256,fp16, upload:ID.

import { CHOICES } from "./run.js";
import { writeQuery } from "./state.js";

/**
 * @typedef {Record<string, string | number>} Run settings in the API's names
 * @typedef {{text: string, model: string, kind: "model" | "upload" | "answer",
 *   id: string, run: Run, unknown: string[]}} Subject
 */

/** @type {Record<string, string>} */
const SIZES = {
  b: "batch_size", s: "seq_len", d: "decoder_len", c: "context_len", p: "prompt_len", o: "output_len",
};
const LETTERS = Object.entries(SIZES);

/** Weights that a subject can have. */
export const QUANTIZED = ["fp8", "fp4", "mxfp4", "int4"];
/** @type {Record<string, readonly string[]>} */
const WORDS = { ...CHOICES, quantization: QUANTIZED };

/** Fields of a run that a subject can say of itself. */
export const SAID = new Set(["model", "on", ...Object.values(SIZES), ...Object.keys(WORDS)]);

/**
 * Reads a subject; `upload:ID` and `answer:KEY` are documents the server has already.
 * @param {string} text
 * @returns {Subject}
 */
export function parseSubject(text) {
  const known = /^(upload|answer):(.+)$/.exec(text);
  const at = text.lastIndexOf("@");
  const model = at < 0 ? text : text.slice(0, at);
  /** @type {Subject} */
  const subject = {
    text,
    model,
    kind: known ? /** @type {"upload" | "answer"} */ (known[1]) : "model",
    id: known ? String(known[2]).replace(/@.*$/, "") : "",
    run: {},
    unknown: [],
  };
  for (const word of at < 0 ? [] : text.slice(at + 1).split(",")) readWord(subject, word);
  return subject;
}

/**
 * @param {Subject} subject
 * @param {string} word
 */
function readWord(subject, word) {
  if (word === "") return;
  if (word.startsWith("on=")) {
    subject.run.on = word.slice(3);
  } else if (/^(?:[bsdcpo]\d+)+$/.test(word)) {
    for (const [, letter, size] of word.matchAll(/([bsdcpo])(\d+)/g)) {
      subject.run[String(SIZES[String(letter)])] = Number(size);
    }
    if (/[po]/.test(word)) subject.run.phase = "generate";
  } else {
    const field = Object.keys(WORDS).find((name) => WORDS[name]?.includes(word));
    if (field) subject.run[field] = word;
    else subject.unknown.push(word);
  }
}

/**
 * Writes a subject, leaving out what all have in common.
 * @param {string} model
 * @param {Run} run
 * @param {Run} [common]
 * @returns {string}
 */
export function writeSubject(model, run, common = {}) {
  const differs = (/** @type {string} */ name) =>
    run[name] !== undefined && run[name] !== "" && String(run[name]) !== String(common[name] ?? "");
  const sizes = LETTERS.filter(([, name]) => differs(name)).map(([letter, name]) => `${letter}${run[name]}`);
  const words = Object.keys(WORDS).filter(differs).map((name) => String(run[name]));
  const on = differs("on") ? [`on=${run.on}`] : [];
  const all = [sizes.join(""), ...words, ...on].filter(Boolean).join(",");
  return all ? `${model}@${all}` : model;
}

/**
 * Where the tree of a subject is: path and parameters of the API.
 * @param {Subject} subject
 * @param {Run} common settings of all
 * @returns {{path: string, params: Run}}
 */
export function treeAddress(subject, common) {
  if (subject.kind === "answer") return { path: `/answers/${subject.id}`, params: {} };
  return { path: "/energy", params: { model: subject.model, ...common, ...subject.run } };
}

/**
 * The page on which a subject is explored.
 * @param {Subject} subject
 * @param {Run} common
 */
export function exploreLink(subject, common) {
  if (subject.kind !== "model") return `/${writeQuery({ [subject.kind]: subject.id })}`;
  return `/${writeQuery({ model: subject.model, ...common, ...subject.run })}`;
}

/**
 * A value in a shell command, quoted where it must be.
 * @param {string | number} value
 */
export function quoted(value) {
  const text = String(value);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** @type {Record<string, string>} */
const OPTIONS = {
  batch_size: "-b",
  seq_len: "-s",
  decoder_len: "--decoder-seq",
  context_len: "--context",
  prompt_len: "--prompt",
  output_len: "--output",
  on: "--on",
};

/**
 * A command of `irene` with options in the API's names; what is empty is left out.
 * @param {string} command
 * @param {readonly string[]} words positional arguments
 * @param {Record<string, string | number | boolean | null | undefined | readonly string[]>} [options]
 */
export function commandLine(command, words, options = {}) {
  const parts = ["irene", command, ...words.map(quoted)];
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === "" || value === false) continue;
    const option = OPTIONS[name] ?? `--${name.replaceAll("_", "-")}`;
    for (const each of Array.isArray(value) ? value : [value]) {
      parts.push(each === true ? option : `${option} ${quoted(each)}`);
    }
  }
  return parts.join(" ");
}

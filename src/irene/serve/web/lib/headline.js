// The sentence above a tree: what was run, what it uses, and where.

import { count, integer, interval, joules, flops, bytes, percent, si } from "./format.js";
import { aggregate } from "./questions.js";
import { childrenOf, label } from "./tree.js";

/** @typedef {import("./tree.js").Tree} Tree */

/**
 * Sizes of a run in a few words: "8 × 128 tokens", "8 inputs" where only images are read.
 * @param {any} spec
 * @param {number[][]} inputs Shapes of what the model reads.
 */
export function sizes(spec, inputs = []) {
  if (!spec) return "";
  const batch = integer(spec.batch_size);
  if (spec.phase === "decode") return `${batch} × one token after ${integer(spec.context_len ?? spec.seq_len)}`;
  if (spec.phase === "generate" && spec.output_len) {
    return `${batch} × ${integer(spec.prompt_len ?? spec.seq_len)} tokens in, ${integer(spec.output_len)} out`;
  }
  if (inputs.length && inputs.every((shape) => shape.length !== 2)) return `${batch} inputs`;
  return `${batch} × ${integer(spec.seq_len)} tokens`;
}

/**
 * Settings that differ from the usual ones, in words.
 * @param {any} spec
 * @returns {string[]}
 */
export function settings(spec) {
  if (!spec) return [];
  const words = [];
  if (spec.phase && spec.phase !== "forward") words.push(spec.phase);
  const chosen = (/** @type {string} */ name) => (spec.chosen?.includes(name) ? " (auto)" : "");
  if (spec.dtype) words.push(spec.dtype + chosen("dtype"));
  if (spec.attention) words.push(`${spec.attention} attention${chosen("attention")}`);
  if (spec.decoder_len) words.push(`decoder length ${integer(spec.decoder_len)}`);
  if (spec.quantization && spec.quantization !== "none") words.push(String(spec.quantization));
  if (spec.tensor_parallel > 1) words.push(`on ${spec.tensor_parallel} devices`);
  return words;
}

/**
 * @param {Tree} tree
 * @param {number} row
 * @returns {string} the value of all occurrences, with its unit
 */
export function amount(tree, row) {
  const value = tree.value[row] * tree.times[row];
  if (tree.basis === "energy") return joules(value);
  return tree.basis === "flops" ? flops(value) : bytes(value);
}

/** @type {Record<string, string>} what is no name of a kernel, in words */
const OPS = { host_gap: "waits for the host", generation_attention: "attention" };

/** @param {string} op */
export const opWord = (op) => OPS[op] ?? op;

/**
 * The parts a stranger should hear of: wrappers that hold nearly all are looked into.
 * @param {Tree} tree
 * @returns {number[]} rows, the largest first
 */
export function mainParts(tree) {
  let parts = childrenOf(tree, 0);
  for (let level = 0; level < 4; level++) {
    const wrapper = parts.find((row) => tree.share[row] > 0.6 && tree.count[row] === 1);
    const below = wrapper === undefined ? [] : childrenOf(tree, wrapper);
    const modules = below.filter((row) => tree.kind[row] < 2);
    if (wrapper === undefined || modules.length === 0) break;
    parts = [...parts.filter((row) => row !== wrapper), ...below];
  }
  return parts.sort((a, b) => (tree.share[b] || 0) - (tree.share[a] || 0));
}

/**
 * What a part that holds nearly all is made of; for the headline.
 * @param {Tree} tree
 * @param {number} row
 * @returns {{name: string, share: number}[]} shares of the total, the largest first
 */
function insideOf(tree, row) {
  if (row === undefined || tree.share[row] < 0.6) return [];
  return childrenOf(tree, row)
    .filter((child) => tree.share[child] >= 0.02)
    .sort((a, b) => tree.share[b] - tree.share[a])
    .slice(0, 4)
    .map((child) => ({ name: label(tree, child), share: tree.share[child] }));
}

/**
 * The parts as a strip shows them: what holds most is taken apart, equal layers too.
 * @param {Tree} tree
 * @returns {number[]} rows in the order of the tree
 */
export function stripParts(tree) {
  const parts = mainParts(tree);
  const first = parts[0];
  const inside = first !== undefined && tree.share[first] > 0.6 ? childrenOf(tree, first) : [];
  const rows = inside.length > 1 ? [...inside, ...parts.slice(1)] : parts;
  return rows.filter((row) => tree.share[row] >= 0.002).sort((a, b) => a - b);
}

/**
 * A part in words: "the 12 equal layers encoder.layer.0–11".
 * @param {Tree} tree
 * @param {number} row
 */
export function partName(tree, row) {
  const times = tree.count[row];
  const { op } = tree.nodes[row];
  if (times === 1) return op in OPS ? `${opWord(op)} (${tree.path[row]})` : tree.path[row] || label(tree, row);
  const above = tree.path[tree.parent[row]];
  const name = label(tree, row);
  const what = /layer|block|^h\./i.test(`${name}.${op}`) ? "equal layers" : "equal parts";
  return `the ${integer(times)} ${what} ${above ? `${above}.` : ""}${name}`;
}

/**
 * @param {Tree} tree
 * @returns {{model: string, sizes: string, where: string, amount: string, interval: string,
 *   source: string, parts: {row: number, share: number, text: string}[],
 *   inside: {name: string, share: number}[], primitives: {name: string, share: number}[], per: [string, string][]}}
 */
export function headline(tree) {
  const { spec, hardware } = tree.document;
  const root = tree.nodes[0];
  const known = tree.basis === "energy";
  const parts = mainParts(tree);
  return {
    model: spec?.model ?? root.op,
    sizes: sizes(spec, root.inputs),
    where: known && hardware ? hardware.name : "",
    amount: amount(tree, 0),
    interval: known ? interval(root.energy_j, root.low_j, root.high_j) : "",
    source: known ? (root.source ?? "") : "costs alone, no energy",
    inside: insideOf(tree, /** @type {number} */ (parts[0])),
    parts: parts
      .filter((row) => tree.share[row] >= 0.02)
      .slice(0, 3)
      .map((row) => ({ row, share: tree.share[row], text: partName(tree, row) })),
    primitives: aggregate(tree, "primitive").slice(0, 3).map(({ name, share }) => ({ name: opWord(name), share })),
    per: perUnit(tree),
  };
}

/**
 * Figures beside the headline: energy per sequence and per token, work, memory, size.
 * @param {Tree} tree
 * @returns {[string, string][]}
 */
function perUnit(tree) {
  const root = tree.nodes[0];
  const { spec } = tree.document;
  /** @type {[string, string][]} */
  const figures = [];
  if (tree.basis === "energy" && spec?.output_len) {
    const each = tree.value[0] / spec.batch_size;
    figures.push(["per request", joules(each)], ["per output token", joules(each / spec.output_len)]);
  } else if (tree.basis === "energy" && spec) {
    const each = tree.value[0] / spec.batch_size;
    const length = spec.phase === "decode" ? 1 : spec.seq_len;
    const reads = JSON.stringify(root.inputs?.[0]) === JSON.stringify([spec.batch_size, length]);
    figures.push([reads ? "per sequence" : "per input", joules(each)]);
    if (reads) figures.push(["per token", joules(each / length)]);
  }
  figures.push(["compute", flops(root.flops)], ["memory traffic", bytes(root.bytes)]);
  if (root.params) figures.push(["parameters", count(root.params)]);
  if (tree.basis === "energy" && root.flops) {
    figures.push(["energy per compute", si(tree.value[0] / (root.flops / 1e9), "J/GFLOP")]);
  }
  return figures;
}

/**
 * The headline as one plain sentence, for the page's title and for copying.
 * @param {Tree} tree
 */
export function sentence(tree) {
  const head = headline(tree);
  const run = [head.model, head.sizes].filter(Boolean).join(", ");
  const energy = [head.amount, head.interval].filter(Boolean).join(" ");
  const parts = head.parts.map(({ share, text }) => `${percent(share)} in ${text}`).join(", ");
  return `${run}${head.where ? ` on ${head.where}` : ""}: ${energy}, ${head.source}; ${parts}.`;
}

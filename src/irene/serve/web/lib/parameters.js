// The fields of a run as the server's table of questions has them: the page is told in its
// head, so that a new field gets a control without a change here.

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} description
 * @property {string[]} choices empty where anything goes
 * @property {boolean} whole a whole number
 * @property {number | null} least
 * @property {any} usual
 * @property {boolean} serving of a served language model
 */

/** @type {Record<string, string>} what of a machine energies are of */
export const COVERS = {
  wall: "the whole machine at the wall socket", "gpu-board": "the GPU board alone", "cpu-package": "the processor alone",
};

/** @type {Field[] | null} */
let known = null;

/** @returns {Field[]} all fields of a run but its model */
export function runFields() {
  if (known) return known;
  const told = globalThis.document?.querySelector("meta[name=irene-run]")?.getAttribute("content");
  known = told ? JSON.parse(told) : [];
  return /** @type {Field[]} */ (known);
}

/**
 * For tests, and for pages without a server.
 * @param {Field[]} fields
 */
export function setRunFields(fields) {
  known = fields;
}

/** @type {Record<string, string>} */
const LABELS = {
  batch_size: "Batch size", seq_len: "Sequence length", dtype: "Number format", prompt_len: "Prompt", output_len: "Output",
  tensor_parallel: "GPUs per model", expert_parallel: "GPUs for experts", data_parallel: "Groups of GPUs", quantization: "Weights", cache_dtype: "KV cache",
  power_limit_w: "Power limit, W", at: "Energy at", model_class: "Class", decoder_len: "Decoder length", context_len: "In the cache",
};

/** @param {string} name of a field */
export function fieldLabel(name) {
  const words = name.replaceAll("_", " ");
  return LABELS[name] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * What the server says to users of the terminal, with the names that the form has.
 * @param {string} text
 */
export function inWords(text) {
  return text
    .replace(/^(extrapolation|warning): /, "")
    .replace(/;? ?set IRENE_NO_LIMITS=1 or give --no-limits[^.;]*/, "; whoever runs this server can lift it")
    .replace(/covers (wall|gpu-board|cpu-package)/, (_, part) => COVERS[part] ?? part)
    .replace(/`[^`]*`|--on\b|--([a-z][a-z_-]*)/g, (found, name) => // what is to be typed stays
      name ? `“${fieldLabel(name.replaceAll("-", "_"))}”` : found.replace(/^--on$/, "hardware"));
}

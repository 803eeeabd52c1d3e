// Searching the catalogue of models.

/**
 * @typedef {object} Model
 * @property {string} name
 * @property {string} [family]
 * @property {string} [kind]
 * @property {string | null} [hub_id]
 * @property {number} [params]
 * @property {string[]} [aliases]
 * @property {any} [config]
 */

/**
 * Models that hold every word in name, family, kind or id; names that begin with the
 * words first, then shorter names.
 * @param {readonly Model[]} models
 * @param {string} words
 * @returns {Model[]}
 */
export function findModels(models, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return [...models];
  const start = wanted.join("-");
  return models
    .filter((model) => {
      const text = [model.name, model.family, model.kind, model.hub_id, ...(model.aliases ?? [])].join(" ").toLowerCase();
      return wanted.every((word) => text.includes(word));
    })
    .map((model) => ({ model, rank: rank(model.name.toLowerCase(), start, wanted) }))
    .sort((a, b) => a.rank - b.rank || a.model.name.localeCompare(b.model.name, "en", { numeric: true }))
    .map(({ model }) => model);
}

/**
 * @param {string} name
 * @param {string} start
 * @param {string[]} words
 */
function rank(name, start, words) {
  if (name === start) return 0;
  if (name.startsWith(start)) return 1;
  return words.every((word) => name.includes(word)) ? 2 : 3;
}

/**
 * Longest input the model's config allows, for the slider.
 * @param {Model | undefined} model
 * @returns {number}
 */
export function longest(model) {
  const config = model?.config ?? {};
  const known = ["max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_source_positions"]
    .map((name) => config[name] ?? config.text_config?.[name])
    .find((value) => Number.isInteger(value) && value > 0);
  return Math.min(Math.max(known ?? 4096, 128), 32768);
}

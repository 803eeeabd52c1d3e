// Parameters of an endpoint out of the server's OpenAPI document, so that a run's new
// fields get a control without a change here.

/**
 * @typedef {object} Parameter
 * @property {string} name
 * @property {string} description
 * @property {string[]} choices empty where anything goes
 * @property {boolean} whole a whole number
 * @property {number | undefined} least
 * @property {number | undefined} most
 */

/**
 * @param {any} openapi
 * @param {string} path such as "/energy"
 * @returns {Parameter[]}
 */
export function parametersOf(openapi, path) {
  const paths = openapi?.paths ?? {};
  const key = Object.keys(paths).find((each) => each === path || each === `/api/v1${path}`);
  const declared = key ? (paths[key].get?.parameters ?? []) : [];
  return declared
    .map((/** @type {any} */ each) => resolve(openapi, each))
    .filter((/** @type {any} */ each) => each?.in === "query")
    .map((/** @type {any} */ each) => describe(openapi, each));
}

/**
 * @param {any} openapi
 * @param {any} value
 */
function resolve(openapi, value) {
  if (!value?.$ref) return value;
  return value.$ref.replace(/^#\//, "").split("/").reduce(
    (/** @type {any} */ at, /** @type {string} */ part) => at?.[part], openapi,
  );
}

/**
 * @param {any} openapi
 * @param {any} parameter
 * @returns {Parameter}
 */
function describe(openapi, parameter) {
  const schema = resolve(openapi, parameter.schema) ?? {};
  const options = (schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [schema]).map(
    (/** @type {any} */ each) => resolve(openapi, each),
  );
  const used = options.find((/** @type {any} */ each) => each?.type !== "null") ?? {};
  return {
    name: parameter.name,
    description: parameter.description ?? schema.description ?? "",
    choices: (used.enum ?? (used.const !== undefined ? [used.const] : [])).map(String),
    whole: used.type === "integer",
    least: used.minimum ?? (used.exclusiveMinimum !== undefined ? used.exclusiveMinimum + 1 : undefined),
    most: used.maximum,
  };
}

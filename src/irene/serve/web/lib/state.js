// The address bar is the state: path and query <-> values, push or replace, back and
// forward. What equals its default is left out.

/**
 * @typedef {string | string[]} QueryValue
 * @typedef {Record<string, QueryValue>} Query
 * @typedef {string | number | boolean | null | undefined | ReadonlyArray<string | number>} Loose
 */

/**
 * The query string as an object; a name that occurs several times becomes a list.
 * @param {string} search with or without the question mark
 * @returns {Query}
 */
export function readQuery(search) {
  /** @type {Query} */
  const query = Object.create(null);
  for (const [given, value] of new URLSearchParams(search)) {
    const name = given === "hardware" ? "on" : given; // as links had it
    const known = query[name];
    if (known === undefined) query[name] = value;
    else query[name] = Array.isArray(known) ? [...known, value] : [known, value];
  }
  return query;
}

/**
 * The object as a query string, with its question mark, or empty.
 * @param {Record<string, Loose>} query
 * @param {Record<string, Loose>} [defaults] values that are left out
 * @returns {string}
 */
export function writeQuery(query, defaults = {}) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    if (Array.isArray(value)) value.forEach((each) => parts.append(name, String(each)));
    else if (String(value) !== String(defaults[name] ?? "")) parts.set(name, plain(value));
  }
  // Commas, colons, slashes and @ are legal in a query and easier on the eyes.
  const text = parts
    .toString()
    .replace(/%2C/g, ",")
    .replace(/%3A/g, ":")
    .replace(/%40/g, "@")
    .replace(/%2F/g, "/");
  return text && `?${text}`;
}

/** @param {Loose} value */
function plain(value) {
  return value === true ? "1" : String(value);
}

/**
 * @param {Query} query
 * @param {string} name
 * @param {string} [fallback]
 * @returns {string} the (first) value
 */
export function text(query, name, fallback = "") {
  const value = query[name];
  return (Array.isArray(value) ? value[0] : value) ?? fallback;
}

/**
 * @param {Query} query
 * @param {string} name
 * @param {number} fallback also for what is no number
 * @returns {number}
 */
export function number(query, name, fallback) {
  const value = text(query, name);
  const parsed = Number(value);
  return value.trim() === "" || !Number.isFinite(parsed) ? fallback : parsed;
}

/**
 * @param {Query} query
 * @param {string} name
 * @returns {boolean} true for 1, true, yes, on
 */
export function flag(query, name) {
  return ["1", "true", "yes", "on"].includes(text(query, name).toLowerCase());
}

/**
 * @param {Query} query
 * @param {string} name
 * @returns {string[]} all values
 */
export function list(query, name) {
  const value = query[name];
  return value === undefined ? [] : Array.isArray(value) ? value : [value];
}

/**
 * @param {Query} query
 * @param {string} name
 * @param {readonly string[]} choices the first is the fallback
 * @returns {string}
 */
export function choice(query, name, choices) {
  const value = text(query, name);
  return choices.includes(value) ? value : /** @type {string} */ (choices[0]);
}

/**
 * The page that a path names, with the parts of the path that are variable.
 * @param {readonly string[]} patterns such as "/jobs/:id"
 * @param {string} path
 * @returns {{pattern: string, params: Record<string, string>} | null}
 */
export function matchPath(patterns, path) {
  const parts = path.replace(/\/+$/, "").split("/");
  for (const pattern of patterns) {
    const wanted = pattern.replace(/\/+$/, "").split("/");
    if (wanted.length !== parts.length) continue;
    /** @type {Record<string, string>} */
    const params = {};
    const fits = wanted.every((want, i) => {
      const part = /** @type {string} */ (parts[i]);
      if (!want.startsWith(":")) return want === part;
      params[want.slice(1)] = safeDecode(part);
      return part !== "";
    });
    if (fits) return { pattern, params };
  }
  return null;
}

/** @param {string} part */
function safeDecode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @type {Set<() => void>} */
const listeners = new Set();

/**
 * Calls back after every change of the address, by us or by back and forward.
 * @param {() => void} listener
 * @returns {() => void} stops it
 */
export function onNavigate(listener) {
  if (listeners.size === 0) window.addEventListener("popstate", announce);
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function announce() {
  for (const listener of listeners) listener();
}

/**
 * Goes to an address of this dashboard without loading the page anew.
 * @param {string} href
 * @param {{replace?: boolean}} [options] replace: no new entry for "back"
 */
export function navigate(href, { replace = false } = {}) {
  const there = new URL(href, window.location.href);
  if (there.href === window.location.href) return;
  window.history[replace ? "replaceState" : "pushState"](null, "", there);
  announce();
}

/**
 * The present query with some values changed; null or "" takes a value out.
 * @param {Record<string, Loose>} changes
 * @param {{replace?: boolean}} [options]
 */
export function changeQuery(changes, options) {
  const query = { ...readQuery(window.location.search), ...changes };
  navigate(window.location.pathname + writeQuery(query), options);
}

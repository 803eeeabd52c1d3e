// Talking to /api/v1: JSON in and out, problems as errors with a message that helps.

import { keep, kept } from "./kept.js";
import { writeQuery } from "./state.js";

const ROOT = "/api/v1";

/** @typedef {import("./state.js").Loose} Loose */

/** What the server said was wrong; `message` is meant for people. */
export class ApiError extends Error {
  /**
   * @param {number} status HTTP status; 0 where there was no answer
   * @param {{title?: string, detail?: string, [other: string]: unknown}} problem
   */
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.problem = problem;
  }
}

/**
 * Address of an endpoint, from the root of this server.
 * @param {string} path such as "/energy", or one that starts with /api/ already
 * @param {Record<string, Loose>} [params]
 * @returns {string}
 */
export function apiUrl(path, params = {}) {
  return (path.startsWith("/api/") ? path : ROOT + path) + writeQuery(params);
}

/**
 * @param {string} path
 * @param {Record<string, Loose>} [params]
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>} the parsed document
 */
export async function get(path, params = {}, { signal } = {}) {
  return read(await send(apiUrl(path, params), { signal }));
}

/**
 * @param {string} path
 * @param {unknown} body text, Blob or File as it is; anything else as JSON
 * @param {{params?: Record<string, Loose>, signal?: AbortSignal, type?: string,
 *   headers?: Record<string, string>, method?: string}} [options]
 * @returns {Promise<any>} the parsed document
 */
export async function post(path, body, options = {}) {
  const { params = {}, signal, type, headers = {}, method = "POST" } = options;
  const raw = typeof body === "string" || body instanceof Blob || body === undefined;
  const token = storedToken();
  return read(
    await send(apiUrl(path, params), {
      method,
      signal,
      body: raw ? /** @type {any} */ (body) : JSON.stringify(body),
      headers: {
        ...(body === undefined
          ? {}
          : { "Content-Type": type ?? (raw ? "application/octet-stream" : "application/json") }),
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
        ...headers,
      },
    }),
  );
}

/**
 * @param {string} path
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export function remove(path, options = {}) {
  return post(path, undefined, { ...options, method: "DELETE" });
}

/** @type {Map<string, Promise<any>>} */
const asked = new Map();

/**
 * Like `get`, asked once per page load: lists that do not change meanwhile.
 * @param {string} path
 * @param {Record<string, Loose>} [params]
 * @returns {Promise<any>}
 */
export function getOnce(path, params = {}) {
  const url = apiUrl(path, params);
  const known = asked.get(url);
  if (known) return known;
  const answer = get(url);
  asked.set(url, answer);
  answer.catch(() => asked.delete(url));
  return answer;
}

/** Ask again for what `getOnce` has: something was added. */
export const askAgain = () => asked.clear();

/**
 * Server-sent events. The browser connects again by itself.
 * @param {string} url
 * @param {(data: any, type: string) => void} onMessage parsed data of each event
 * @param {(error: Event) => void} [onError]
 * @param {readonly string[]} [types] event names to listen for
 * @returns {() => void} closes the stream
 */
export function events(url, onMessage, onError, types = ["message", "progress", "state", "done"]) {
  const source = new EventSource(url);
  for (const type of types) {
    source.addEventListener(type, (event) => {
      onMessage(JSON.parse(/** @type {MessageEvent} */ (event).data), type);
      if (type === "done") source.close();
    });
  }
  source.addEventListener("error", (event) => onError?.(event));
  return () => source.close();
}

/** Token for jobs and uploads, for servers that ask for one; kept for this tab only. */
export const storedToken = () => kept("sessionStorage", "irene.token") ?? "";

/** @param {string} token */
export const storeToken = (token) => keep("sessionStorage", "irene.token", token);

/**
 * @param {string} url
 * @param {any} options
 */
async function send(url, options) {
  try {
    return await fetch(url, {
      ...options,
      headers: { Accept: "application/json", ...options.headers },
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, {
      title: "no answer",
      detail: "The server does not answer. Is `irene serve` still running?",
    });
  }
}

/** @param {Response} response */
async function read(response) {
  if (response.status === 204) return null;
  const text = await response.text();
  let document;
  try {
    document = text === "" ? null : JSON.parse(text);
  } catch {
    throw new ApiError(response.status, {
      title: `answer ${response.status} is not JSON`,
      detail: `The server answered ${response.status} with something that is not JSON.`,
    });
  }
  if (!response.ok) throw new ApiError(response.status, document ?? {});
  return document;
}

// Asking the API while somebody moves a slider: wait a little, drop what is stale,
// keep the old answer until the new one is there.

import { useEffect, useRef, useState } from "../vendor/preact.js";
import { apiUrl, get, getOnce, post } from "./api.js";

/**
 * @typedef {object} Answer
 * @property {any} document the newest answer there is; null at first
 * @property {any} error of the newest question
 * @property {boolean} busy
 * @property {() => void} retry
 */

/**
 * Hook: the answer to a question that changes.
 * @param {string | null} path null asks nothing
 * @param {Record<string, import("./state.js").Loose>} [params]
 * @param {{wait?: number, body?: string, type?: string}} [options] wait: ms of quiet before a changed question is asked; body: what is
 *   sent along, and its type
 * @returns {Answer}
 */
export function useAnswer(path, params = {}, { wait = 80, body, type } = {}) {
  const url = path === null ? null : apiUrl(path, params);
  const [state, setState] = useState({ document: null, error: null, busy: url !== null });
  const [turn, setTurn] = useState(0);
  const asked = useRef(false);
  useEffect(() => {
    if (url === null) {
      setState((old) => ({ ...old, busy: false, error: null }));
      return undefined;
    }
    const stop = new AbortController();
    const ask = () =>
      (body === undefined ? get(url, {}, { signal: stop.signal }) : post(/** @type {string} */ (path), body, { params, type, signal: stop.signal })).then(
        (document) => setState({ document, error: null, busy: false }),
        (error) => {
          if (!stop.signal.aborted) setState((old) => ({ ...old, error, busy: false }));
        },
      );
    setState((old) => (old.busy ? old : { ...old, busy: true }));
    const timer = setTimeout(ask, asked.current ? wait : 0);
    asked.current = true;
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [url, turn, body]);
  return { ...state, retry: () => setTurn((n) => n + 1) };
}

/**
 * Hook: a list that the server has one of, asked for once; empty until it is there.
 * @param {string} path
 * @param {(answer: any) => any[]} listed
 * @returns {any[]}
 */
export function useList(path, listed) {
  const [found, setFound] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    let here = true;
    getOnce(path).then((answer) => here && setFound(listed(answer)), () => {});
    return () => {
      here = false;
    };
  }, []);
  return found;
}

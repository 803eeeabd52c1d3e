// Asking the API while somebody moves a slider: wait a little, drop what is stale,
// keep the old answer until the new one is there.

import { useEffect, useRef, useState } from "../vendor/preact.js";
import { apiUrl, get } from "./api.js";

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
 * @param {{wait?: number}} [options] ms of quiet before a changed question is asked
 * @returns {Answer}
 */
export function useAnswer(path, params = {}, { wait = 80 } = {}) {
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
      get(url, {}, { signal: stop.signal }).then(
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
  }, [url, turn]);
  return { ...state, retry: () => setTurn((n) => n + 1) };
}

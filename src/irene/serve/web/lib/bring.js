// Bringing a file: it is sent, and opens where it can be looked at.

import { useEffect, useState } from "../vendor/preact.js";
import { post } from "./api.js";
import { remember } from "./recent.js";
import { navigate, writeQuery } from "./state.js";

/** Model files are large, and what describes them is in front. */
const HEAD_BYTES = 16e6;

/**
 * Sends a file and goes to its page.
 * @param {File} file
 */
export async function bring(file) {
  const body = /\.(gguf|safetensors)$/i.test(file.name) ? file.slice(0, HEAD_BYTES) : file;
  const upload = await post("/uploads", body, { headers: { "X-Filename": encodeURIComponent(file.name.slice(0, 200)) } });
  const isModel = !["tree", "ledger"].includes(upload.kind);
  const href = `/${writeQuery(isModel ? { model: `upload:${upload.id}` } : { upload: upload.id })}`;
  remember(upload.kind, upload.name || file.name, href);
  navigate(href);
}

/** Hook: a file that is dropped anywhere opens. */
export function useDrop() {
  const [state, setState] = useState(/** @type {{over: boolean, busy: boolean, name: string, error: any}} */ ({ over: false, busy: false, name: "", error: null }));
  useEffect(() => {
    const holdsFile = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
    const over = (/** @type {DragEvent} */ event) => {
      if (event.defaultPrevented || !holdsFile(event)) return;
      event.preventDefault();
      setState((old) => (old.over ? old : { ...old, over: true }));
    };
    const leave = (/** @type {DragEvent} */ event) => {
      if (!event.relatedTarget) setState((old) => ({ ...old, over: false }));
    };
    const drop = (/** @type {DragEvent} */ event) => {
      const file = event.dataTransfer?.files[0];
      if (event.defaultPrevented || !file) return setState((old) => ({ ...old, over: false }));
      event.preventDefault();
      setState({ over: false, busy: true, name: file.name, error: null });
      return void bring(file).then(
        () => setState({ over: false, busy: false, name: "", error: null }),
        (error) => setState({ over: false, busy: false, name: file.name, error }),
      );
    };
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", leave);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("dragleave", leave);
      document.removeEventListener("drop", drop);
    };
  }, []);
  return state;
}

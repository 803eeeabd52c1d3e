// The controls of a page: beside the answer, on a phone above it and folded.

import { html, useEffect, useState } from "../vendor/preact.js";

const NARROW = "(max-width: 860px)";

/** Hook: whether the window is as narrow as a phone. */
function useNarrow() {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const look = () => setNarrow(media.matches);
    media.addEventListener("change", look);
    return () => media.removeEventListener("change", look);
  }, []);
  return narrow;
}

/** @param {{change?: string, children?: any}} props change: what can be changed here */
export function Side({ change = "model, sizes and hardware", children }) {
  if (!useNarrow()) return html`<aside class="side" aria-label="Settings">${children}</aside>`;
  return html`<details class="side panel fold-form"><summary>Change ${change}</summary><div class="side">${children}</div></details>`;
}

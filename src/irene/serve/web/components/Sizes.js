// A whole number by slider and by typing. The slider answers while it moves.

import { html, useEffect, useId, useState } from "../vendor/preact.js";
import { nearest, steps } from "../lib/sizes.js";
import { integer } from "../lib/format.js";
import { SizeCurve } from "./SizeCurve.js";

/**
 * @param {{label: string, value: number, least?: number, most: number, unit?: string,
 *   curve?: {first: boolean, model: string, run: Record<string, string>, over: string} | null, onChange: (value: number, options: {replace: boolean}) => void}} props
 *   replace is true while the slider moves; curve: what is run, for its energy over this size
 */
export function Sizes({ label, value, least = 1, most, unit = "", curve = null, onChange }) {
  const id = useId();
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  useEffect(() => setTyped(null), [value]);
  const [wanted, setWanted] = useState(false); // one curve is enough for who only looks
  const draw = () => setWanted(true);
  const drawn = wanted || curve?.first;
  const values = steps(least, Math.max(most, value));
  const commit = (/** @type {string} */ text) => {
    const wanted = Math.round(Number(text));
    if (text.trim() && Number.isFinite(wanted) && wanted >= least && wanted !== value) onChange(wanted, { replace: false });
    else setTyped(null);
  };
  return html`<div class="field" onFocusIn=${draw}>
    <label for=${id}>${label}</label>
    <div class="field-pair">
      <input
        type="range" min="0" max=${values.length - 1} step="1" value=${nearest(values, value)}
        aria-label=${`${label}, slider`} aria-valuetext=${`${integer(value)} ${unit}`.trim()}
        onInput=${(/** @type {any} */ e) => onChange(/** @type {number} */ (values[Number(e.target.value)]), { replace: true })}
      />
      <input
        id=${id} type="number" min=${least} step="1" inputmode="numeric" value=${typed ?? value}
        onInput=${(/** @type {any} */ e) => setTyped(e.target.value)}
        onChange=${(/** @type {any} */ e) => commit(e.target.value)}
      />
    </div>
    ${curve && !drawn && html`<p class="hint"><button type="button" class="link" onClick=${draw}>energy by ${label.toLowerCase()}</button></p>`}
    ${curve && drawn && html`<${SizeCurve} ...${curve} label=${label} values=${values} value=${value} onPick=${(/** @type {number} */ size) => onChange(size, { replace: false })} />`}
  </div>`;
}

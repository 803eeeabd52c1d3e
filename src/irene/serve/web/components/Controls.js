// Small controls of the pages beside explore: slider with a number, choice, segments,
// table head that sorts, place to drop a file.

import { html, useEffect, useId, useRef, useState } from "../vendor/preact.js";
import { PER, unitWord } from "../lib/board.js";
import { inWords } from "../lib/parameters.js";

/**
 * A slider with its value in words; `onInput` while it moves, `onChange` when it rests.
 * @param {{label: string, value: number, min: number, max: number, step?: number, text?: string,
 *   onInput: (value: number) => void, onChange?: (value: number) => void, hint?: any}} props
 */
export function Slider({ label, value, min, max, step = 1, text, onInput, onChange, hint }) {
  const id = useId();
  const read = (/** @type {any} */ event) => Number(event.target.value);
  return html`<div class="field slider-field">
    <label for=${id}>${label}</label>
    <output for=${id} class="slider-value">${text ?? value}</output>
    <input
      id=${id} type="range" min=${min} max=${max} step=${step} value=${value} aria-valuetext=${text}
      onInput=${(/** @type {any} */ event) => onInput(read(event))}
      onChange=${onChange && ((/** @type {any} */ event) => onChange(read(event)))}
    />
    ${hint && html`<p class="hint">${hint}</p>`}
  </div>`;
}

/**
 * @param {{label: string, value: string, options: readonly (readonly [string, string])[],
 *   onChange: (value: string) => void, title?: string}} props options are [value, words]
 */
export function Choice({ label, value, options, onChange, title }) {
  const id = useId();
  return html`<div class="field">
    <label for=${id} title=${title}>${label}</label>
    <select id=${id} value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
      ${options.map(([each, words]) => html`<option value=${each} selected=${each === value}>${words}</option>`)}
    </select>
  </div>`;
}

/**
 * Something typed; told when it is whole, or letter by letter where it searches. What is
 * being typed stays when an answer arrives meanwhile.
 * @param {{label: string, value: string | number, onChange: (value: string) => void, type?: string,
 *   placeholder?: string, hint?: any, problem?: string, min?: number, step?: number | "any",
 *   search?: boolean}} props
 */
export function Entry({ label, value, onChange, type = "text", placeholder, hint, problem, min, step, search }) {
  const id = useId();
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  useEffect(() => setTyped(null), [value]);
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <input
      id=${id} type=${type} value=${typed ?? value} placeholder=${placeholder} min=${min} step=${step}
      data-search=${search || undefined} autocomplete="off" spellcheck=${false}
      aria-invalid=${problem ? "true" : undefined} aria-describedby=${problem || hint ? `${id}-hint` : undefined}
      onInput=${(/** @type {any} */ event) => {
        setTyped(event.target.value);
        if (search) onChange(event.target.value);
      }}
      onChange=${(/** @type {any} */ event) => onChange(event.target.value)}
    />
    ${(problem || hint) && html`<p id=${`${id}-hint`} class=${problem ? "hint wrong" : "hint"}>${problem || hint}</p>`}
  </div>`;
}

/**
 * One of a few, side by side.
 * @param {{label: string, value: string, options: readonly (readonly [string, string])[],
 *   onChange: (value: string) => void}} props
 */
export function Segments({ label, value, options, onChange }) {
  const id = useId();
  return html`<div class="field"><span id=${id}>${label}</span>
    <div><div class="segments" role="group" aria-labelledby=${id}>
      ${options.map(([each, words]) => html`<button type="button" key=${each} aria-pressed=${each === value} onClick=${() => onChange(each)}>${words}</button>`)}
    </div></div>
  </div>`;
}

/**
 * What energy is told of.
 * @param {{per: string, usual: string, serving: boolean, setQuery: (changes: any) => void}} props usual: where nobody chose
 */
export function Units({ per, usual, serving, setQuery }) {
  return html`<${Segments} label="Energy per" value=${per} options=${PER.map((each) => [each, unitWord(each, serving)])} onChange=${(/** @type {string} */ value) => setQuery({ per: value === usual ? null : value })} />`;
}

/**
 * Several of a few.
 * @param {{label: string, value: string, options: readonly (readonly [string, string])[],
 *   onChange: (value: string) => void}} props value: those that are chosen, with commas; options are [value, explanation]
 */
export function Toggles({ label, value, options, onChange }) {
  const id = useId();
  const chosen = value.split(",").filter(Boolean);
  const turn = (/** @type {string} */ name) => options.map(([each]) => each).filter((each) => chosen.includes(each) !== (each === name));
  return html`<div class="field"><span id=${id}>${label}</span>
    <p class="chips" role="group" aria-labelledby=${id}>
      ${options.map(([each, words]) => html`<button type="button" class="chip" key=${each} title=${words} aria-pressed=${chosen.includes(each)} onClick=${() => onChange(turn(each).join(","))}>${each}</button>`)}
    </p>
  </div>`;
}

/** @param {{label: any, checked: boolean, onChange: (checked: boolean) => void}} props */
export function Check({ label, checked, onChange }) {
  return html`<label class="check">
    <input type="checkbox" checked=${checked} onChange=${(/** @type {any} */ event) => onChange(event.target.checked)} />
    <span>${label}</span>
  </label>`;
}

/**
 * Head of a column that sorts.
 * @param {{name: string, by: string, down: boolean, onSort: (by: string, down: boolean) => void,
 *   children: any, number?: boolean, first?: "up" | "down"}} props
 */
export function SortHead({ name, by, down, onSort, children, number = false, first = "up" }) {
  const active = name === by;
  return html`<th scope="col" class=${number ? "number" : ""} aria-sort=${active ? (down ? "descending" : "ascending") : undefined}>
    <button type="button" class="sort" onClick=${() => onSort(name, active ? !down : first === "down")}>
      ${children}<span class="sort-mark" aria-hidden="true">${active ? (down ? " ▾" : " ▴") : ""}</span>
    </button>
  </th>`;
}

/**
 * A place to drop a file, or to choose one.
 * @param {{label: string, accept?: string, hint?: any, onFile: (file: File) => void, small?: boolean,
 *   busy?: boolean}} props
 */
export function DropZone({ label, accept, hint, onFile, small = false, busy = false }) {
  const [over, setOver] = useState(false);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const id = useId();
  const take = (/** @type {FileList | null | undefined} */ files) => {
    const file = files?.[0];
    if (file) onFile(file);
  };
  return html`<div
    class=${`drop ${small ? "drop-small" : ""} ${over ? "over" : ""}`}
    onDragOver=${(/** @type {DragEvent} */ event) => {
      event.preventDefault();
      setOver(true);
    }}
    onDragLeave=${() => setOver(false)}
    onDrop=${(/** @type {DragEvent} */ event) => {
      event.preventDefault();
      setOver(false);
      take(event.dataTransfer?.files);
    }}
  >
    <p class="drop-words">${label}</p>
    <label for=${id} class="visually-hidden">${label}</label>
    <input
      id=${id} ref=${input} class="visually-hidden" type="file" accept=${accept} disabled=${busy} tabindex="-1"
      onChange=${(/** @type {any} */ event) => {
        take(event.target.files);
        event.target.value = "";
      }}
    />
    <button type="button" disabled=${busy} onClick=${() => input.current?.click()}>Choose a file</button>
    ${hint && html`<p class="hint">${hint}</p>`}
  </div>`;
}

/** @param {{notes?: readonly string[] | null, label?: string}} props what a reader should know */
export function Notes({ notes, label = "Notes" }) {
  if (!notes?.length) return null;
  return html`<details class="notes"><summary>${label} (${notes.length})</summary>
    <ul>${notes.map((note) => html`<li>${inWords(note)}</li>`)}</ul>
  </details>`;
}

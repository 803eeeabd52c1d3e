// What is run: model, sizes, number format, attention, phase, hardware.

import { html, useEffect, useId, useState } from "../vendor/preact.js";
import { getOnce } from "../lib/api.js";
import { longest } from "../lib/catalogue.js";
import { parametersOf } from "../lib/parameters.js";
import { DEFAULTS, settingChoices } from "../lib/spec.js";
import { ModelCombobox, useModels } from "./ModelCombobox.js";
import { Sizes } from "./Sizes.js";

const OWN_CONTROLS = ["model", ...Object.keys(DEFAULTS), "on", "fold", "format"];

/** @typedef {(changes: Record<string, any>, options?: {replace?: boolean}) => void} OnChange */

/**
 * @param {{value: Record<string, any>, onChange: OnChange, hardware?: boolean, resolved?: any}} props
 *   value: as `readSpec` gives it; hardware: offer it too; resolved: the run of the answer
 */
export function SpecForm({ value, onChange, hardware = true, resolved }) {
  const models = useModels();
  const model = models.find((each) => each.name === value.model);
  const field = (/** @type {"dtype" | "attention" | "phase"} */ name, /** @type {string} */ label) =>
    html`<${Select} label=${label} value=${value[name]} choices=${settingChoices(name, resolved)}
      onChange=${(/** @type {string} */ v) => onChange({ [name]: v })} />`;
  return html`<form class="spec" aria-label="The run" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
    <${ModelCombobox} value=${value.model} onChange=${(/** @type {string} */ v) => onChange({ model: v })} />
    <${Sizes} label="Batch size" value=${value.batch_size} most=${256} unit="sequences"
      onChange=${(/** @type {number} */ v, /** @type {any} */ o) => onChange({ batch_size: v }, o)} />
    <${Sizes} label="Sequence length" value=${value.seq_len} most=${longest(model)} unit="tokens"
      onChange=${(/** @type {number} */ v, /** @type {any} */ o) => onChange({ seq_len: v }, o)} />
    <div class="spec-grid">
      ${hardware && html`<${HardwareSelect} value=${value.hardware} onChange=${onChange} />`}
      ${field("dtype", "Number format")} ${field("attention", "Attention")} ${field("phase", "Phase")}
    </div>
    <${MoreFields} value=${value} onChange=${onChange} />
  </form>`;
}

/**
 * @param {readonly string[]} known
 * @param {string} value an unknown one, out of an address, is shown all the same
 */
function choicesOf(known, value) {
  return known.includes(value) ? known : [...known, value];
}

/**
 * @param {{label: string, value: string, choices: readonly (string | [string, string])[],
 *   onChange: (value: string) => void, title?: string}} props
 */
export function Select({ label, value, choices, onChange, title }) {
  const id = useId();
  return html`<div class="field">
    <label for=${id} title=${title}>${label}</label>
    <select id=${id} value=${value} onChange=${(/** @type {any} */ e) => onChange(e.target.value)}>
      ${choices.map((choice) => {
        const [name, words] = typeof choice === "string" ? [choice, choice] : choice;
        return html`<option value=${name} selected=${name === value}>${words}</option>`;
      })}
    </select>
  </div>`;
}

/** @param {{value: string, onChange: OnChange}} props */
export function HardwareSelect({ value, onChange }) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    let here = true;
    getOnce("/hardware").then(
      (answer) => here && setNames(answer.hardware.map((/** @type {any} */ each) => each.hardware?.name ?? each.name)),
      () => {},
    );
    return () => {
      here = false;
    };
  }, []);
  return html`<${Select} label="Hardware" value=${value} choices=${choicesOf(names, value)}
    onChange=${(/** @type {string} */ v) => onChange({ hardware: v })} />`;
}

/**
 * The run's other parameters, as the server describes them; read when opened.
 * @param {{value: Record<string, any>, onChange: OnChange, without?: readonly string[]}} props
 */
export function MoreFields({ value, onChange, without = [] }) {
  const [fields, setFields] = useState(/** @type {import("../lib/parameters.js").Parameter[] | null} */ (null));
  const set = Object.keys(value).some((name) => !OWN_CONTROLS.includes(name));
  const [open, setOpen] = useState(set);
  useEffect(() => {
    if (!open || fields) return;
    getOnce("/openapi.json").then(
      (openapi) => setFields(parametersOf(openapi, "/energy").filter(({ name }) => !OWN_CONTROLS.includes(name))),
      () => setFields([]),
    );
  }, [open]);
  return html`<details open=${open} onToggle=${(/** @type {any} */ e) => setOpen(e.target.open)}>
    <summary>More settings</summary>
    ${open && fields && html`<div class="spec-grid">${fields.filter(({ name }) => !without.includes(name)).map((field) => html`<${OneField} field=${field} value=${value[field.name] ?? ""} onChange=${onChange} />`)}</div>`}
  </details>`;
}

/** @param {{field: import("../lib/parameters.js").Parameter, value: string, onChange: OnChange}} props */
function OneField({ field, value, onChange }) {
  const id = useId();
  const words = field.name.replaceAll("_", " ");
  const label = words.charAt(0).toUpperCase() + words.slice(1);
  const change = (/** @type {string} */ v) => onChange({ [field.name]: v || null });
  if (field.choices.length) {
    return html`<${Select} label=${label} value=${value} title=${field.description}
      choices=${[["", "default"], ...field.choices.map((c) => [c, c])]} onChange=${change} />`;
  }
  return html`<div class="field">
    <label for=${id} title=${field.description}>${label}</label>
    <input id=${id} type=${field.whole ? "number" : "text"} min=${field.least} max=${field.most}
      placeholder="default" value=${value} onChange=${(/** @type {any} */ e) => change(e.target.value)} />
  </div>`;
}

// The run that a question is about: model (where there is one), sizes, settings, machine.
// One pass through a model and a served language model are asked for in their own ways.

import { html, useId, useState } from "../vendor/preact.js";
import { Choice, Segments } from "./Controls.js";
import { ModelCombobox, useModels } from "./ModelCombobox.js";
import { Sizes } from "./Sizes.js";
import { longest } from "../lib/catalogue.js";
import { useMachines } from "../lib/machines.js";
import { COVERS, fieldLabel, runFields } from "../lib/parameters.js";
import { asServing, CHOICES, isServing, SERVED, settingChoices } from "../lib/run.js";

const SIZED = ["prompt_len", "output_len"];

/** @typedef {Record<string, string>} Run */

/**
 * @param {{model?: string, onModel?: (name: string) => void, run: Run,
 *   onRun: (run: Run, options?: {replace?: boolean}) => void,
 *   without?: readonly string[], resolved?: any, fixed?: any, curves?: boolean}} props without: settings that the page
 *   asks for in its own way; resolved: the run of the answer; fixed: why nothing can be
 *   changed; curves: under the sliders, once there is an answer
 */
export function RunForm({ model, onModel, run, onRun, without = [], resolved, fixed, curves = false }) {
  const models = useModels();
  const machines = useMachines();
  const serving = isServing(run);
  const known = models.find((each) => each.name === model);
  const set = (/** @type {string} */ name) => (/** @type {string | number} */ value, /** @type {any} */ how) => onRun({ ...run, [name]: String(value) }, how);
  const asked = (/** @type {string} */ name) => !without.includes(name);
  const size = (/** @type {string} */ name, /** @type {string} */ label, /** @type {number} */ most, /** @type {string} */ unit) =>
    asked(name) && html`<${Sizes} key=${name} label=${label} unit=${unit} value=${Number(run[name] ?? resolved?.[name]) || 1} most=${most} onChange=${set(name)} curve=${curves && resolved && model ? { first: name === "batch_size", model, run, over: name, unit: serving ? "output token" : readsTokens(known) ? "sequence" : "input" } : null} />`;
  const turn = (/** @type {string} */ mode) => {
    const can = (/** @type {string} */ name) => machines.find((each) => each.name === name)?.serves;
    const wanted = mode === "serving";
    const on = wanted && !can(String(run.on)) ? "h100" : String(run.on);
    /** @type {Run} */
    const other = wanted && onModel && known?.kind !== "decoder" && !model?.startsWith("upload:") ? { model: SERVED } : {};
    onRun({ ...asServing(run, wanted, on), ...other });
  };
  const hardware = asked("on") && html`<${HardwareSelect} value=${run.on} serving=${serving} onChange=${set("on")} />`;
  if (fixed) return html`<div class="group"><p class="hint">${fixed}</p></div>`;
  return html`<fieldset class="group"><legend>The run</legend>
    ${asked("phase") && html`<${Segments} label="What is run" value=${serving ? "serving" : "pass"} options=${[["pass", "one pass"], ["serving", "LLM serving"]]} onChange=${turn} />`}
    ${onModel && html`<${ModelCombobox} value=${model} onChange=${onModel} kind=${serving ? "decoder" : ""} />`}
    ${serving
      ? html`${hardware}
          ${size("batch_size", "Streams at once", 1024, "streams")} ${size("prompt_len", "Prompt", 32768, "tokens")} ${size("output_len", "Output", 8192, "tokens")}
          <div class="field-row">${settings(["dtype"])}${runFields().filter((field) => field.serving && asked(field.name) && !SIZED.includes(field.name)).map(one)}</div>`
      : html`${size("batch_size", "Batch size", 256, "sequences")}
          ${readsTokens(known) && size("seq_len", "Sequence length", known ? longest(known) : 4096, "tokens")}
          ${hardware}
          <div class="field-row">${settings(["dtype", "attention", "phase"])}</div>
          <${More} fields=${runFields().filter((field) => !field.serving && !(field.name in CHOICES) && !["batch_size", "seq_len"].includes(field.name))} run=${run} one=${one} />`}
  </fieldset>`;

  /** @param {string[]} names */
  function settings(names) {
    return names.filter((name) => asked(name) && run[name] !== undefined).map((name) => html`<${Choice}
      key=${name} label=${fieldLabel(name)} value=${run[name]} onChange=${set(name)}
      options=${settingChoices(/** @type {"dtype"} */ (name), resolved).filter(([value]) => value !== "generate")}
    />`);
  }

  /** @param {import("../lib/parameters.js").Field} field */
  function one(field) {
    return html`<${OneField} key=${field.name} field=${field} value=${run[field.name] ?? ""} resolved=${resolved} onChange=${set(field.name)} />`;
  }
}

/** @param {import("../lib/catalogue.js").Model | undefined} model whether its inputs have a length */
function readsTokens(model) {
  return !model || !["vision", "audio"].includes(model.kind ?? "");
}

/** @param {{fields: import("../lib/parameters.js").Field[], run: Run, one: (field: any) => any}} props */
function More({ fields, run, one }) {
  const [open, setOpen] = useState(fields.some(({ name }) => run[name]));
  return html`<details class="more" open=${open} onToggle=${(/** @type {any} */ e) => setOpen(e.target.open)}>
    <summary>More settings</summary>
    ${open && html`<div class="field-row">${fields.map(one)}</div>`}
  </details>`;
}

/** @param {{value: string, serving?: boolean, onChange: (value: string) => void}} props */
export function HardwareSelect({ value, serving = false, onChange }) {
  const machines = useMachines();
  const able = machines.filter((each) => each.serves || !serving);
  // The usual machine goes by its name; where it cannot serve, it is told as what was asked.
  const usual = machines.find((each) => each.usual);
  const now = value === usual?.name ? "default" : value;
  /** @type {[string, string][]} */
  const known = able.filter((each) => each !== usual).map((each) => [each.name, each.words]);
  if (!serving || usual?.serves || now === "default") known.unshift(["default", usual?.words ?? "…"]);
  return html`<${Choice} label="Hardware" value=${now} options=${known.some(([name]) => name === now) ? known : [...known, [now, now]]} onChange=${onChange} />`;
}

/** @param {{name: string, description?: string}} props a machine, and what of it energies cover */
export function Where({ name, description = "" }) {
  const machine = useMachines().find((each) => each.name === name || (each.usual && name === "default"));
  const told = [machine?.words ?? description, machine && (COVERS[machine.covers] ?? machine.covers)].filter(Boolean);
  return told.length > 0 && html`<p class="soft where">${told.join(": ")}.</p>`;
}

/** @param {{field: import("../lib/parameters.js").Field, value: string, resolved: any, onChange: (value: string) => void}} props */
function OneField({ field, value, resolved, onChange }) {
  const id = useId();
  const label = fieldLabel(field.name);
  const chosen = resolved?.chosen?.includes(field.name) ? resolved[field.name] : undefined;
  const usual = chosen ?? field.usual;
  const open = usual !== undefined && usual !== null ? `${usual} (auto)` : "auto";
  if (field.choices.length) {
    return html`<${Choice} label=${label} title=${field.description} value=${value} options=${[["", open], ...field.choices.map((each) => [each, each])]} onChange=${onChange} />`;
  }
  return html`<div class="field">
    <label for=${id} title=${field.description}>${label}</label>
    <input id=${id} type=${field.whole ? "number" : "text"} min=${field.least ?? undefined} placeholder=${open} value=${value} onChange=${(/** @type {any} */ e) => onChange(e.target.value)} />
  </div>`;
}

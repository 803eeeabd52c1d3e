// The run that a question is about: model (where there is one), sizes, settings, machine.

import { html } from "../vendor/preact.js";
import { Choice } from "./Controls.js";
import { ModelCombobox, useModels } from "./ModelCombobox.js";
import { Sizes } from "./Sizes.js";
import { HardwareSelect, MoreFields } from "./SpecForm.js";
import { longest } from "../lib/catalogue.js";
import { CHOICES, settingChoices } from "../lib/spec.js";

const NOT_OF_A_RUN = ["level"];
const WORDS = { dtype: "Number format", attention: "Attention", phase: "Phase" };

/**
 * @param {{model?: string, onModel?: (name: string) => void, run: Record<string, string>,
 *   onRun: (run: Record<string, string>, options?: {replace: boolean}) => void,
 *   without?: readonly string[], resolved?: any}} props without: settings that the page
 *   asks for in its own way; resolved: the run of the answer
 */
export function RunForm({ model, onModel, run, onRun, without = [], resolved }) {
  const models = useModels();
  const has = (/** @type {string} */ name) => !without.includes(name) && run[name] !== undefined;
  const set = (/** @type {string} */ name) => (/** @type {string | number} */ value, /** @type {any} */ how) =>
    onRun({ ...run, [name]: String(value) }, how);
  const change = (/** @type {Record<string, any>} */ changes, /** @type {any} */ how) =>
    onRun({ ...run, ...Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, value === null ? "" : String(value)])) }, how);
  return html`<fieldset class="group"><legend>The run</legend>
    ${onModel && html`<${ModelCombobox} value=${model} onChange=${onModel} />`}
    ${has("batch_size") && html`<${Sizes} label="Batch size" value=${Number(run.batch_size) || 1} most=${256} onChange=${set("batch_size")} />`}
    ${has("seq_len") && html`<${Sizes}
      label="Sequence length" unit="tokens" value=${Number(run.seq_len) || 1}
      most=${model ? longest(models.find((each) => each.name === model)) : 4096} onChange=${set("seq_len")}
    />`}
    <div class="field-row">
      ${Object.keys(CHOICES).map((name) => has(name) && html`<${Choice}
        key=${name} label=${WORDS[/** @type {"dtype"} */ (name)]} value=${run[name]} options=${settingChoices(/** @type {"dtype"} */ (name), resolved)} onChange=${set(name)}
      />`)}
      ${has("hardware") && html`<${HardwareSelect} value=${run.hardware} onChange=${change} />`}
    </div>
    <div class="spec"><${MoreFields} value=${run} onChange=${change} without=${NOT_OF_A_RUN} /></div>
  </fieldset>`;
}

// What to change, and what it saves.

import { html, useState } from "../vendor/preact.js";
import { Busy } from "../components/Busy.js";
import { Check, Choice, Notes } from "../components/Controls.js";
import { ExportMenu } from "../components/ExportMenu.js";
import { Problem } from "../components/Problem.js";
import { RunForm } from "../components/RunForm.js";
import { Side } from "../components/Side.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl } from "../lib/api.js";
import { barsSvg } from "../lib/drawings.js";
import { interval, joules, percent } from "../lib/format.js";
import { FIRST_MODEL, readRun, runChanges, runOptions, USUAL } from "../lib/run.js";
import { choice, flag, text, writeQuery } from "../lib/state.js";
import { commandLine } from "../lib/subjects.js";

export const title = "Suggestions";

const EFFORTS = [["", "anything"], ["setting", "a setting"], ["retraining", "retraining"], ["another model", "another model"]];
const GROUPS = [["setting", "A setting is enough"], ["retraining", "Takes retraining"], ["another model", "Takes another model"], ["", "Other"]];
const SPEC_FIELDS = new Set([...Object.keys(USUAL), "model", "decoder_len", "context_len", "model_class", "quantization", "cache_dtype", "tensor_parallel", "prompt_len", "output_len"]);

/** @param {{query: any, setQuery: any}} props */
export default function SuggestPage({ query, setQuery }) {
  const run = readRun(query);
  const model = text(query, "model", FIRST_MODEL);
  const effort = choice(query, "effort", EFFORTS.map(([each]) => /** @type {string} */ (each)));
  const sure = flag(query, "sure");
  const params = { model, ...run };
  const answer = useAnswer("/suggest", params);
  const { document } = answer;
  const all = document?.suggestions ?? [];
  const shown = [...all]
    .filter((each) => (!effort || each.effort === effort) && (!sure || each.is_real))
    .sort((a, b) => b.share - a.share);
  return html`<div class="page">
    <header class="page-head">
      <div><h1>Suggestions</h1>
        <p class="lede" role="status">${document
          ? html`${document.model} takes <strong>${joules(document.per_sequence_j)}</strong> per sequence${" "}
              <span class="hint">${interval(document.energy.joules, document.energy.low, document.energy.high)}</span> on ${document.hardware}.
              ${" "}${best(all)}`
          : "What to change about a model or its run, and what it saves."}</p>
      </div>
      <${ExportMenu}
        name=${`suggest-${model}`} csv=${() => cells(shown)}
        svg=${shown.length ? () => barsSvg(`What saves energy: ${model}`, shown.map((each) => ({ label: each.title, value: each.share, text: percent(each.share) }))) : undefined} json=${() => document} api=${() => apiUrl("/suggest", params)}
        cli=${() => commandLine("suggest", [model], runOptions(run))}
      />
    </header>
    <div class="with-side">
      <${Side}>
        <${RunForm} model=${model} run=${run} resolved=${document?.spec} onModel=${(/** @type {string} */ name) => setQuery({ model: name })} onRun=${(/** @type {any} */ next, /** @type {any} */ how) => setQuery(runChanges(next), how)} />
        <fieldset class="group"><legend>Show</legend>
          <${Choice} label="What it may take" value=${effort} options=${EFFORTS} onChange=${(/** @type {string} */ value) => setQuery({ effort: value })} />
          <${Check} label="only savings that are sure" checked=${sure} onChange=${(/** @type {boolean} */ on) => setQuery({ sure: on ? 1 : null })} />
        </fieldset>
      </${Side}>
      <section class="main-column" aria-busy=${answer.busy}>
        ${answer.error && html`<${Problem} error=${answer.error} retry=${answer.retry} />`}
        ${!document && answer.busy && html`<${Busy} label="Trying every rule" />`}
        ${document && !shown.length && html`<p class="panel">Nothing to suggest ${effort || sure ? "with these filters" : "for this run"}.</p>`}
        ${GROUPS.map(([kind, words]) => {
          const own = shown.filter((each) => each.effort === kind || (kind === "" && !GROUPS.some(([known]) => known === each.effort)));
          return own.length > 0 && html`<section class="main-column" key=${kind}><h2>${words}</h2><ol class="suggestions">
            ${own.map((each) => html`<${Suggestion} key=${each.title} each=${each} model=${model} run=${run} />`)}
          </ol></section>`;
        })}
        ${document && html`<p class="hint">Rules that found nothing to save here: ${document.silent.join(", ") || "none"}.
          Savings are per sequence; they do not simply add up.</p><${Notes} notes=${document.notes} />`}
      </section>
    </div>
  </div>`;
}

/** @param {any[]} all */
function best(all) {
  const sure = all.filter((each) => each.is_real && each.effort === "setting");
  const top = sure.sort((a, b) => b.share - a.share)[0];
  return top ? html`The best setting saves <strong>${percent(top.share)}</strong>: ${top.title}.` : "No setting alone is sure to save.";
}

/** @param {{each: any, model: string, run: any}} props */
function Suggestion({ each, model, run }) {
  const before = { model, ...run };
  const isSpec = Object.keys(each.change).every((name) => SPEC_FIELDS.has(name));
  const after = { ...before, ...Object.fromEntries(Object.entries(each.change).map(([name, value]) => [name, String(value)])) };
  const fields = Object.entries(each.change);
  const command = isSpec
    ? commandLine("predict", [after.model], runOptions(without(after, "model")))
    : commandLine("what-if", [model], { ...runOptions(run), set: fields.map(([name, value]) => `${name}=${value}`) });
  const link = isSpec
    ? `/${writeQuery({ model: after.model, ...runChanges(without(after, "model")) })}`
    : `/what-if${writeQuery({ model, ...runChanges(run), set: fields.map(([name, value]) => `${name}=${value}`) })}`;
  return html`<li class="panel suggestion">
    <div class="suggestion-figure">
      <span class="suggestion-share">${percent(each.share)}</span>
      <span class="hint">${joules(each.saving_j)} ± ${joules(each.half_j)}</span>
    </div>
    <div class="suggestion-words">
      <h3>${each.title}</h3>
      <p>${sentence(each.why)}</p>
      <div class="saving-track" aria-hidden="true"><span class=${each.is_real ? "saving" : "saving unsure"} style=${{ width: `${Math.max(Math.min(each.share, 1), 0) * 100}%` }}></span></div>
      <dl class="inline">
        <div><dt>accuracy</dt><dd>${each.accuracy === "none" ? "stays" : each.accuracy}</dd></div>
        ${!each.is_real && html`<div><dt>sure</dt><dd>no: the interval holds zero</dd></div>`}
      </dl>
      <div class="apply"><span class="hint">How to apply:</span> <${CopyCode} code=${codeFor(each.change, after.model)} /></div>
      <p class="actions"><a href=${link}>Look at it</a>
        ${isSpec && html`<a href=${`/compare${writeQuery({ subject: [subjectOf(before), subjectOf(after)] })}`}>Compare with now</a>`}
        <${CopyCommand} command=${command} /></p>
      <${Notes} notes=${each.notes} />
    </div>
  </li>`;
}

/**
 * A change as code that can be pasted: what transformers, or a serving engine, is told.
 * @param {Record<string, any>} change
 * @param {string} model
 */
function codeFor(change, model) {
  /** @type {Record<string, (value: any) => string>} */
  const known = {
    dtype: (value) => `model = AutoModel.from_pretrained("${model}", torch_dtype=torch.${{ fp16: "float16", bf16: "bfloat16", fp32: "float32" }[/** @type {"fp16"} */ (value)] ?? value})`,
    attention: (value) => `model = AutoModel.from_pretrained("${model}", attn_implementation="${value}")`,
    batch_size: (value) => `loader = DataLoader(dataset, batch_size=${value})`,
    seq_len: (value) => `batch = tokenizer(texts, padding=True, truncation=True, max_length=${value})`,
    model: (value) => `model = AutoModel.from_pretrained("${value}")`,
    quantization: (value) => `vllm serve ${model} --quantization ${value}`,
    cache_dtype: (value) => `vllm serve ${model} --kv-cache-dtype ${value}`,
    tensor_parallel: (value) => `vllm serve ${model} --tensor-parallel-size ${value}`,
  };
  const setting = (/** @type {[string, any]} */ [name, value]) => known[name]?.(value) ?? `config.${name} = ${JSON.stringify(value)}`;
  return Object.entries(change).map(setting).join("\n");
}

/** @param {{code: string}} props */
function CopyCode({ code }) {
  const [said, say] = useState("");
  return html`<pre class="code"><code>${code}</code></pre>
    <button type="button" class="quiet" onClick=${() => navigator.clipboard?.writeText(code).then(() => say("copied"), () => say(""))}>Copy<span class="visually-hidden"> the code ${code}</span></button>
    <span role="status" class="hint">${said}</span>`;
}

/** @param {string} words */
const sentence = (words) => `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;

/**
 * @param {Record<string, string>} run
 * @param {string} name
 */
function without(run, name) {
  return Object.fromEntries(Object.entries(run).filter(([each]) => each !== name));
}

/** @param {Record<string, string>} run */
function subjectOf(run) {
  const sizes = `b${run.batch_size}s${run.seq_len}`;
  const words = [run.dtype, run.attention, run.phase, run.hardware !== "default" && `on=${run.hardware}`];
  return `${run.model}@${[sizes, ...words].filter(Boolean).join(",")}`;
}

/** @param {{command: string}} props */
function CopyCommand({ command }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      say("copied");
    } catch {
      say("");
    }
  };
  return html`<span class="copy-command"><code>${command}</code>
    <button type="button" class="quiet" onClick=${copy}>Copy<span class="visually-hidden"> the command ${command}</span></button>
    <span role="status" class="hint">${said}</span></span>`;
}

/** @param {any[]} shown */
function cells(shown) {
  const head = ["rule", "title", "saving_j", "half_j", "share", "is_real", "effort", "accuracy", "change"];
  return [head, ...shown.map((each) => [each.rule, each.title, each.saving_j, each.half_j, each.share, each.is_real, each.effort, each.accuracy, Object.entries(each.change).map((pair) => pair.join("=")).join(" ")])];
}

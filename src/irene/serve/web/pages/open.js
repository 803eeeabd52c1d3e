// Bring your own: a config.json, a saved tree, a ledger.

import { html, useEffect, useState } from "../vendor/preact.js";
import { Busy } from "../components/Busy.js";
import { DropZone, Entry, Notes } from "../components/Controls.js";
import { LedgerView } from "../components/LedgerView.js";
import { Problem } from "../components/Problem.js";
import { RunForm } from "../components/RunForm.js";
import { Side } from "../components/Side.js";
import { TokenField } from "../components/TokenField.js";
import { useAnswer } from "../lib/answer.js";
import { apiUrl, getOnce, post } from "../lib/api.js";
import { bring } from "../lib/bring.js";
import { bytes, interval, joules } from "../lib/format.js";
import { forget, recent, remember } from "../lib/recent.js";
import { readRun, runChanges, runOptions } from "../lib/run.js";
import { navigate, text, writeQuery } from "../lib/state.js";
import { commandLine } from "../lib/subjects.js";

export const title = "Open";

const ACCEPT = ".json,.gz,.gguf,application/json,application/gzip";

/** @param {{query: any, setQuery: any}} props */
export default function OpenPage({ query, setQuery }) {
  const id = text(query, "upload");
  return html`<div class="page">
    <header class="page-head"><div><h1>Bring your own</h1>
      <p class="lede">Energy depends on shapes, not on weights: a <code>config.json</code> is enough. Saved trees and ledgers open in the same views. Nothing leaves this server.</p></div></header>
    ${id ? html`<${Opened} id=${id} query=${query} setQuery=${setQuery} />` : html`<${Bring} />`}
  </div>`;
}

function Bring() {
  const [state, setState] = useState(/** @type {any} */ ({ file: null, busy: false, error: null }));
  const send = async (/** @type {File} */ file) => {
    setState({ file, busy: true, error: null });
    try {
      await bring(file);
    } catch (error) {
      setState({ file, busy: false, error });
    }
  };
  const needsToken = state.error?.status === 401 || state.error?.status === 403;
  return html`<div class="open-columns">
    <section>
      <${DropZone} label="Drop a config.json, a saved tree, a ledger or a GGUF file here, or anywhere" accept=${ACCEPT} onFile=${send} busy=${state.busy} hint="also gzipped; what is brought is never run" />
      ${state.busy && html`<${Busy} label=${`Sending ${state.file.name}, ${bytes(state.file.size)}`} />`}
      ${state.error && html`<${Problem} error=${state.error} retry=${() => send(state.file)} />`}
      ${needsToken && html`<${TokenField} onToken=${() => send(state.file)} />`}
      <div class="panel prose">
        <h2>How to make one</h2>
        <dl class="how">
          <dt>config.json</dt><dd>of any model that transformers has; from the hub, or <code>model.config.save_pretrained(".")</code></dd>
          <dt>a tree</dt><dd><code>irene predict MODEL --out tree.json</code> or <code>irene measure MODEL --out tree.json</code></dd>
          <dt>a ledger</dt><dd><code>irene account --json train.py > ledger.json</code></dd>
        </dl>
      </div>
    </section>
    <${Recent} />
  </div>`;
}

function Recent() {
  const [all, setAll] = useState(recent);
  return html`<section class="panel" aria-labelledby="recent-title">
    <div class="card-head"><h2 id="recent-title">Recent in this browser</h2>
      ${all.length > 0 && html`<button type="button" class="quiet" onClick=${() => (forget(), setAll([]))}>Forget</button>`}</div>
    ${all.length
      ? html`<ul class="recent">${all.map((each) => html`<li key=${each.href}><a href=${each.href}>${each.name}</a> <span class="hint">${each.kind}, ${new Date(each.when).toLocaleString()}</span></li>`)}</ul>`
      : html`<p class="hint">Nothing yet. Links keep working after the server restarts.</p>`}
  </section>`;
}

/** @param {{id: string, query: any, setQuery: any}} props */
function Opened({ id, query, setQuery }) {
  const answer = useAnswer(`/uploads/${encodeURIComponent(id)}`);
  const { document, error } = answer;
  if (error) return html`<${Problem} error=${error} retry=${answer.retry} /><p><a href="/open">Bring another file</a></p>`;
  if (!document) return html`<${Busy} label="Opening" />`;
  const link = new URL(`/open${writeQuery({ upload: id })}`, location.href).href;
  return html`<p class="come-back">Link to come back to: <a href=${link}>${link}</a> <${CopyLink} text=${link} /> · <a href="/open">Bring another file</a></p>
    ${document.ledger
      ? html`<${TreeSummary} document=${document} id=${id} /><${LedgerView} ledger=${document.ledger} document=${document} api=${apiUrl(`/uploads/${id}`)} query=${query} setQuery=${setQuery} name="upload" />`
      : document.tree
        ? html`<${TreeSummary} document=${document} id=${id} />`
        : html`<${ConfigForm} config=${document} id=${id} query=${query} setQuery=${setQuery} />`}`;
}

/** @param {{text: string}} props */
function CopyLink({ text: words }) {
  const [said, say] = useState("");
  return html`<button type="button" class="quiet" onClick=${() => navigator.clipboard?.writeText(words).then(() => say("copied"), () => say(""))}>Copy</button> <span role="status" class="hint">${said}</span>`;
}

/** @param {{document: any, id: string}} props */
function TreeSummary({ document, id }) {
  const root = document.tree;
  return html`<section class="panel stack"><h2>${document.spec?.model ?? root.op}</h2>
    <p>${root.energy_j === undefined ? "A tree with costs alone." : html`<strong>${joules(root.energy_j)}</strong> <span class="hint">${interval(root.energy_j, root.low_j, root.high_j)}, ${root.source}</span>${document.hardware ? html` on ${document.hardware.name}` : ""}`}</p>
    <p class="actions"><a class="button primary" href=${`/${writeQuery({ upload: id })}`}>Explore where it goes</a>
      ${root.energy_j !== undefined && html`<a class="button" href=${`/compare${writeQuery({ subject: [`upload:${id}`, document.spec?.model ?? "bert-base-uncased"] })}`}>Compare it</a>`}</p>
    <${Notes} notes=${document.notes} />
  </section>`;
}

/** @param {{config: any, id: string, query: any, setQuery: any}} props */
function ConfigForm({ config, id, query, setQuery }) {
  const run = readRun(query);
  const model = `upload:${id}`;
  const [email, setEmail] = useState("");
  const [webhook, setWebhook] = useState("");
  const [state, setState] = useState(/** @type {any} */ ({ busy: false, error: null }));
  const offers = useOffers();
  const submit = async () => {
    setState({ busy: true, error: null });
    const notify = { ...(email && { email }), ...(webhook && { webhook }) };
    try {
      const job = await post("/jobs", { kind: "predict", model, ...numbers(run), ...(Object.keys(notify).length && { notify }) });
      remember("job", `${config.model_type ?? "model"}, ${run.batch_size} × ${run.seq_len}`, `/jobs/${job.id}`);
      navigate(`/jobs/${job.id}`);
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  const needsToken = state.error?.status === 401 || state.error?.status === 403;
  const facts = ["model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"].filter((name) => ["string", "number"].includes(typeof config[name]));
  return html`<div class="with-side">
    <${Side}><${RunForm} run=${run} onRun=${(/** @type {any} */ next, /** @type {any} */ how) => setQuery(runChanges(next), how)} /></${Side}>
    <section class="main-column"><div class="panel stack">
      <h2>Your model</h2>
      <dl class="inline">${facts.map((name) => html`<div><dt>${name}</dt><dd>${String(config[name])}</dd></div>`)}</dl>
      ${(offers.email || offers.webhook) && html`<details class="notify"><summary>Tell me when it is ready</summary>
        ${offers.email && html`<${Entry} label="E-mail" type="email" value=${email} onChange=${setEmail} />`}
        ${offers.webhook && html`<${Entry} label="Webhook" type="url" value=${webhook} placeholder="https://example.org/hook" hint="gets the job as JSON" onChange=${setWebhook} />`}
      </details>`}
      <p class="actions">
        <button type="button" class="primary" disabled=${state.busy} onClick=${submit}>Predict its energy</button>
        <a class="button" href=${`/${writeQuery({ model, ...runChanges(run) })}`}>Explore while sliding</a>
      </p>
      ${state.busy && html`<${Busy} inline label="Handing it in" />`}
      ${state.error && html`<${Problem} error=${state.error} />`}
      ${needsToken && html`<${TokenField} onToken=${submit} />`}
      <p class="hint">The same on the command line: <code>${commandLine("predict", ["config.json"], runOptions(run))}</code></p>
    </div></section>
  </div>`;
}

/**
 * Which messages the server can send, if it says so.
 * @returns {{email: boolean, webhook: boolean}}
 */
function useOffers() {
  const [offers, setOffers] = useState({ email: false, webhook: false });
  useEffect(() => {
    getOnce("/server").then((document) => setOffers({ email: !!document.notify?.email, webhook: !!document.notify?.webhook }), () => {});
  }, []);
  return offers;
}

/**
 * What was given, sizes as numbers, as a job wants them.
 * @param {Record<string, string>} run
 */
function numbers(run) {
  return Object.fromEntries(Object.entries(run).filter(([, value]) => value !== "").map(([name, value]) => [name, /^\d+$/.test(value) ? Number(value) : value]));
}

// One job: how far it is, its result, what went wrong.

import { html, useEffect, useState } from "../vendor/preact.js";
import { Busy } from "../components/Busy.js";
import { ExportMenu } from "../components/ExportMenu.js";
import { Problem } from "../components/Problem.js";
import { TokenField } from "../components/TokenField.js";
import { apiUrl, askAgain, events, get, remove } from "../lib/api.js";
import { integer } from "../lib/format.js";
import { calledName, remember } from "../lib/recent.js";
import { writeQuery } from "../lib/state.js";
import { commandLine } from "../lib/subjects.js";
import { runOptions } from "../lib/run.js";

export const title = "Job";

const ENDED = ["succeeded", "failed", "cancelled"];
const WORDS = { queued: "is waiting for its turn", running: "is running", succeeded: "is done", failed: "has failed", cancelled: "was cancelled" };
const POLL_MS = 2000;

/**
 * Hook: a job as it changes, by its stream of events, or by asking now and then where
 * streams do not get through.
 * @param {string} id
 */
function useJob(id) {
  const [state, setState] = useState(/** @type {{job: any, error: any, by: string}} */ ({ job: null, error: null, by: "" }));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let here = true;
    let timer = 0;
    let close = () => {};
    const path = `/jobs/${encodeURIComponent(id)}`;
    const take = (/** @type {any} */ job, /** @type {string} */ by) => here && setState((old) => (older(job, old.job) ? old : { job, error: null, by }));
    const poll = async () => {
      try {
        const job = await get(path);
        take(job, "asking");
        if (!ENDED.includes(job.state) && here) timer = window.setTimeout(poll, POLL_MS);
      } catch (error) {
        if (here) setState((old) => ({ ...old, error }));
        // A server that restarts is there again soon.
        if (here && /** @type {any} */ (error).status !== 404) timer = window.setTimeout(poll, POLL_MS);
      }
    };
    get(path).then((job) => {
      take(job, "");
      if (!here || ENDED.includes(job.state)) return;
      close = events(apiUrl(`${path}/events`), (next) => take(next, "events"), () => {
        close();
        if (here && !timer) timer = window.setTimeout(poll, POLL_MS / 2);
      });
    }, (error) => here && setState((old) => ({ ...old, error })));
    return () => {
      here = false;
      clearTimeout(timer);
      close();
    };
  }, [id, turn]);
  return { ...state, retry: () => setTurn((each) => each + 1) };
}

/**
 * @param {any} next
 * @param {any} known
 */
const older = (next, known) => known && Number.isFinite(next.version) && next.version < known.version;

/** @param {{params: any}} props */
export default function JobPage({ params }) {
  const { job, error, by, retry } = useJob(params.id);
  const [refused, setRefused] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (job) remember("job", nameOf(job), `/jobs/${params.id}`);
  }, [job?.id]);
  const learned = job?.kind === "learn" && job.state === "succeeded";
  useEffect(() => {
    if (learned) askAgain(); // for the list of machines, which has one more
  }, [learned]);
  const cancel = () => remove(`/jobs/${encodeURIComponent(params.id)}`).then(retry, setRefused);
  const needsToken = refused?.status === 401 || refused?.status === 403;
  return html`<div class="page">
    <header class="page-head"><div><h1>Job</h1>
      <p class="lede" role="status">${job ? html`<strong>${nameOf(job)}</strong> ${WORDS[/** @type {"queued"} */ (job.state)] ?? job.state}.` : error ? "" : "Looking for it."}</p></div>
      ${job && html`<${ExportMenu} name=${`job-${job.id}`} json=${() => job} api=${() => apiUrl(`/jobs/${job.id}`)} cli=${job.request ? () => command(job) : undefined} />`}
    </header>
    ${error && html`<${Problem} error=${error} retry=${retry} /><p><a href="/open">Bring a file, or find a recent one</a></p>`}
    ${!job && !error && html`<${Busy} label="Loading the job" />`}
    ${job && html`<section class="panel job">
      <p><span class=${`state state-${job.state}`}>${job.state}</span>
        ${!ENDED.includes(job.state) && html`<button type="button" onClick=${cancel}>Cancel</button>`}</p>
      ${!ENDED.includes(job.state) && html`<${Progress} progress=${job.progress} unit=${job.kind === "learn" ? "\u00a0s" : ""} />`}
      ${refused && html`<${Problem} error=${refused} />`}
      ${needsToken && html`<${TokenField} onToken=${cancel} />`}
      ${learned && html`<p class="actions"><a class="button primary" href=${`/${writeQuery({ on: "this-machine" })}`}>Predict for this machine</a>
        <a class="button" href="/method?on=this-machine">What was learned</a></p>`}
      ${job.state === "succeeded" && job.kind !== "learn" && job.result && html`<p class="actions"><a class="button primary" href=${`/${writeQuery({ answer: job.result.key })}`}>Explore the result</a>
        <a class="button" href=${job.result.link}>The document</a>
        <a class="button" href=${`/compare${writeQuery({ subject: [`answer:${job.result.key}`, "bert-base-uncased"] })}`}>Compare it</a></p>`}
      ${job.state === "failed" && html`<${Problem} error=${failure(job)} /><p>Change the model or its sizes and <a href=${again(job)}>hand it in again</a>.</p>`}
      ${job.state === "cancelled" && html`<p>It was cancelled. <a href=${again(job)}>Hand it in again</a>.</p>`}
      <dl class="inline">
        ${[["handed in", job.created], ["started", job.started], ["ended", job.finished]].map(([word, time]) => time && html`<div><dt>${word}</dt><dd>${new Date(time).toLocaleString()}</dd></div>`)}
        ${job.attempts > 1 && html`<div><dt>attempts</dt><dd>${integer(job.attempts)}</dd></div>`}
        ${by && html`<div><dt>followed by</dt><dd>${by === "events" ? "a stream of events" : "asking every two seconds"}</dd></div>`}
        <div><dt>id</dt><dd><code>${job.id}</code></dd></div>
      </dl>
      <p class="hint">This page is the link to come back to; it also works after the server restarts.</p>
    </section>`}
  </div>`;
}

/** @param {{progress: any, unit: string}} props */
function Progress({ progress, unit }) {
  const known = progress?.total > 0;
  return html`<div class="progress-field"><label for="job-progress">${progress?.text || "in progress"}</label>
    ${known
      ? html`<progress id="job-progress" max=${progress.total} value=${progress.done ?? 0}></progress> <span class="hint">${integer(progress.done ?? 0)} of ${integer(progress.total)}${unit}</span>`
      : html`<progress id="job-progress"></progress>`}
  </div>`;
}

/** @param {any} job */
function nameOf(job) {
  const run = job.request?.run ?? {};
  const model = calledName(String(job.request?.model ?? job.kind));
  const sizes = run.batch_size ? `, ${run.batch_size}${run.seq_len ? ` × ${run.seq_len}` : " at once"}` : "";
  if (job.kind === "learn") return `Learning this machine, ${job.request?.plan ?? "quick"}`;
  return `${job.kind === "measure" ? "Measuring" : "Predicting"} ${model}${sizes}`;
}

/** @param {any} job */
function failure(job) {
  const error = new Error(job.error?.detail ?? job.error?.title ?? "the job failed without saying why");
  return Object.assign(error, { problem: job.error ?? {} });
}

/** @param {any} job */
function settings(job) {
  const { run = {}, hardware } = job.request ?? {};
  return Object.fromEntries(Object.entries({ ...run, on: hardware }).filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [name, String(value)]));
}

/** @param {any} job */
function again(job) {
  if (job.kind === "learn") return "/method";
  const model = String(job.request?.model ?? "");
  if (model.startsWith("upload:")) return `/open${writeQuery({ upload: model.slice(7), ...settings(job) })}`;
  return `/${writeQuery({ model, ...settings(job) })}`;
}

/** @param {any} job */
function command(job) {
  if (job.kind === "learn") return `irene learn${job.request.plan === "usual" ? "" : ` --${job.request.plan}`}`;
  const model = String(job.request.model);
  const { on, ...run } = settings(job);
  const options = job.kind === "predict" ? { ...run, on } : run;
  return commandLine(job.kind, [model.startsWith("upload:") ? "config.json" : model], runOptions(/** @type {any} */ (options)));
}

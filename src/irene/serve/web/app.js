// The dashboard: static ES modules, no build step; what is written is what is served.
//
// Contract of the shell:
// - PAGES maps a path to a module of pages/ that is imported when somebody goes there.
//   Its default export is a Preact component `Page({query, setQuery, params, path})`:
//     query     the query string as an object (lib/state.js: text, number, flag, list,
//               choice read it); a name that occurs twice is a list
//     setQuery  (changes, {replace}) => void; null or "" takes a value out. Push for
//               what "back" should undo; replace while a slider moves
//     params    variable parts of the path, such as {id} of /jobs/:id
// - A page may export `title` (string, or a function of {query, params}).
// - Links are plain <a href>: the shell catches clicks on addresses of PAGES.
// - lib/ is free of the DOM where it can be and tested with `node --test`;
//   components/ hold what several pages use; vendor/preact.js exports html, the hooks
//   and signals.
// - The content security policy allows no inline script or style: use classes, and
//   `style=${{...}}` objects (set through the CSSOM) for values that are computed.

import { html, render, useEffect, useErrorBoundary, useState } from "./vendor/preact.js";
import { changeQuery, matchPath, navigate, onNavigate, readQuery } from "./lib/state.js";
import { Chrome } from "./components/Page.js";
import { Problem } from "./components/Problem.js";
import { Busy } from "./components/Busy.js";

/** @type {Record<string, () => Promise<any>>} */
const PAGES = {
  "/": () => import("./pages/explore.js"),
  "/compare": () => import("./pages/compare.js"),
  "/trade-off": () => import("./pages/trade-off.js"),
  "/leaderboard": () => import("./pages/leaderboard.js"),
  "/suggest": () => import("./pages/suggest.js"),
  "/cost": () => import("./pages/cost.js"),
  "/serve-plan": () => import("./pages/serve-plan.js"),
  "/what-if": () => import("./pages/what-if.js"),
  "/open": () => import("./pages/open.js"),
  "/jobs/:id": () => import("./pages/job.js"),
  "/method": () => import("./pages/method.js"),
  "/help": () => import("./pages/help.js"),
};
const PATTERNS = Object.keys(PAGES);
/** @type {Record<string, any>} */
const loaded = {};

function here() {
  const { pathname, search } = window.location;
  return { path: pathname, query: readQuery(search), found: matchPath(PATTERNS, pathname) };
}

function App() {
  const [place, setPlace] = useState(here);
  useEffect(() => onNavigate(() => setPlace(here())), []);
  useEffect(() => {
    document.addEventListener("click", followLink);
    return () => document.removeEventListener("click", followLink);
  }, []);
  const pattern = place.found?.pattern;
  return html`<${Chrome} path=${place.path}>
    ${pattern
      ? html`<${Lazy} key=${pattern} pattern=${pattern} place=${place} />`
      : html`<${NotFound} path=${place.path} />`}
  </${Chrome}>`;
}

/** @param {{pattern: string, place: ReturnType<typeof here>}} props */
function Lazy({ pattern, place }) {
  const [state, setState] = useState({ module: loaded[pattern], failure: null });
  const [crash, retry] = useErrorBoundary((error) => console.error(error));
  useEffect(() => {
    if (state.module) return;
    PAGES[pattern]?.().then(
      (module) => setState({ module: (loaded[pattern] = module), failure: null }),
      (failure) => {
        console.error(failure);
        setState({ module: null, failure });
      },
    );
  }, [pattern]);
  const params = place.found?.params ?? {};
  const { module, failure } = state;
  useEffect(() => {
    const title = module?.title;
    const words = typeof title === "function" ? title({ query: place.query, params }) : title;
    document.title = words ? `${words} · irene` : "irene";
  }, [module, place]);
  if (crash) return html`<${Problem} error=${crash} retry=${retry} />`;
  if (failure) {
    const detail = "This page could not be loaded. Reload it; if that does not help, the server is gone.";
    return html`<${Problem} error=${new Error(detail)} retry=${() => location.reload()} />`;
  }
  if (!module) return html`<${Busy} label="Loading the page" />`;
  return html`<${module.default}
    query=${place.query}
    setQuery=${changeQuery}
    params=${params}
    path=${place.path}
  />`;
}

/** @param {{path: string}} props */
function NotFound({ path }) {
  return html`<div class="page"><section class="prose">
    <h1>No such page</h1>
    <p>There is nothing at <code>${path}</code>. <a href="/">Explore a model</a> instead.</p>
  </section></div>`;
}

/** @param {MouseEvent} event */
function followLink(event) {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const plain = !event.defaultPrevented && event.button === 0 &&
    !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || link.target || link.hasAttribute("download")) return;
  const there = new URL(link.href, location.href);
  if (there.origin !== location.origin || !matchPath(PATTERNS, there.pathname)) return;
  if (there.hash && there.pathname === location.pathname) return;
  event.preventDefault();
  const elsewhere = there.pathname !== location.pathname;
  navigate(there.href);
  if (elsewhere) {
    window.scrollTo(0, 0);
    document.querySelector("main")?.focus({ preventScroll: true });
  }
}

const root = document.getElementById("app");
if (root) render(html`<${App} />`, root);

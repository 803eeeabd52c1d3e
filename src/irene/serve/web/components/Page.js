// What is around every page: navigation, theme, keyboard help.

import { html, useEffect, useState } from "../vendor/preact.js";
import { carried } from "../lib/run.js";
import { navigate, readQuery } from "../lib/state.js";
import { useDrop } from "../lib/bring.js";
import { keep } from "../lib/kept.js";
import { Busy, Later } from "./Busy.js";
import { Palette } from "./Palette.js";
import { Problem } from "./Problem.js";

/** Path, label, and the key that follows `g`. */
export const NAVIGATION = [
  ["/", "Explore", "e"],
  ["/compare", "Compare", "c"],
  ["/trade-off", "Trade-off", "t"],
  ["/leaderboard", "Leaderboard", "l"],
  ["/suggest", "Suggest", "s"],
  ["/cost", "Cost", "k"],
  ["/serve-plan", "Serve plan", "p"],
  ["/what-if", "What if", "w"],
  ["/open", "Open", "o"],
];
const THEMES = ["auto", "light", "dark"];

/** @param {{path: string, children?: any}} props */
export function Chrome({ path, children }) {
  const [help, setHelp] = useState(false);
  const [finding, setFinding] = useState(false);
  const dropped = useDrop();
  // One subject: model, run, machine and file go along.
  const along = carried(readQuery(window.location.search));
  useEffect(() => watchKeys(() => setHelp(true), () => setFinding(true)), []);
  useEffect(() => {
    document.querySelector(".bar nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [path]);
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    <header class="bar">
      <a class="brand" href="/" aria-label="irene, start page">
        <img src="/static/icon.svg" width="22" height="22" alt="" />irene
      </a>
      <nav aria-label="Pages">
        ${NAVIGATION.map(
          ([href, label]) => html`<a
            href=${href + (href === path ? window.location.search : along)}
            aria-current=${href === path ? "page" : undefined}
          >${label}</a>`,
        )}
      </nav>
      <div class="bar-end">
        <button type="button" class="quiet find" aria-haspopup="dialog" aria-label="Find a model or page" title="Find a model or page (Ctrl K)" onClick=${() => setFinding(true)}><span aria-hidden="true">⌕</span> <kbd>Ctrl K</kbd></button>
        <a href="/method" aria-current=${path === "/method" ? "page" : undefined}>Method</a>
        <a href="/help" aria-current=${path === "/help" ? "page" : undefined}>Help</a>
        <${ThemeToggle} />
        <button
          type="button" class="quiet square" aria-label="Keyboard help" title="Keyboard help (?)"
          aria-haspopup="dialog" onClick=${() => setHelp(true)}
        >?</button>
      </div>
    </header>
    <main id="main" tabindex="-1">
      ${dropped.busy && html`<${Busy} label=${`Opening ${dropped.name}`} />`}
      ${dropped.error && html`<${Problem} error=${dropped.error} /><p><a href="/open">What can be opened</a></p>`}
      ${children}
    </main>
    ${dropped.over && html`<div class="drop-over" aria-hidden="true"><p>Drop it: a config, a tree, a ledger or a model file</p></div>`}
    <${Palette} open=${finding} onClose=${() => setFinding(false)} />
    <${Later} load=${() => import("./KeyboardHelp.js").then((part) => part.KeyboardHelp)} wanted=${help} open=${help} onClose=${() => setHelp(false)} />
  `;
}

function ThemeToggle() {
  const [theme, setTheme] = useState(
    () => document.documentElement.dataset.theme ?? "auto",
  );
  useEffect(() => applyTheme(theme), [theme]);
  const next = /** @type {string} */ (THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  const symbol = { auto: "◐", light: "☀", dark: "☾" }[theme];
  return html`<button
    type="button" class="quiet square" data-theme-choice=${theme}
    aria-label=${`Theme: ${theme}. Change to ${next}`} title=${`Theme: ${theme}`}
    onClick=${() => setTheme(next)}
  ><span aria-hidden="true">${symbol}</span></button>`;
}

/** @param {string} theme */
function applyTheme(theme) {
  const root = document.documentElement;
  if (theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme;
  keep("localStorage", "irene.theme", theme === "auto" ? null : theme);
  window.dispatchEvent(new Event("irene:theme"));
}

/**
 * True while the page is dark, by choice or by the system.
 */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Hook: is the page dark; renders again when that changes. */
export function useDark() {
  const [dark, setDark] = useState(isDark);
  useEffect(() => {
    const look = () => setDark(isDark());
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", look);
    window.addEventListener("irene:theme", look);
    return () => {
      system.removeEventListener("change", look);
      window.removeEventListener("irene:theme", look);
    };
  }, []);
  return dark;
}

/**
 * Keys that work on every page: `?` for help, `/` to search, Ctrl K to find, `g` then a letter
 * to go.
 * @param {() => void} openHelp
 * @param {() => void} openPalette
 */
function watchKeys(openHelp, openPalette) {
  let going = false;
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      return openPalette();
    }
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const target = going && NAVIGATION.find(([, , key]) => key === event.key);
    going = event.key === "g";
    if (target) navigate(target[0] + carried(readQuery(window.location.search)));
    else if (event.key === "?") openHelp();
    else if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (!(search instanceof HTMLElement)) return;
      search.focus();
    } else return;
    event.preventDefault();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  const range = target instanceof HTMLInputElement && target.type === "range";
  return !range && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

// What is around every page: navigation, theme, keyboard help.

import { html, useEffect, useState } from "../vendor/preact.js";
import { navigate } from "../lib/state.js";
import { KeyboardHelp } from "./KeyboardHelp.js";

/** Path, label, and the key that follows `g`. */
export const NAVIGATION = [
  ["/", "Explore", "e"],
  ["/compare", "Compare", "c"],
  ["/trade-off", "Trade-off", "t"],
  ["/leaderboard", "Leaderboard", "l"],
  ["/suggest", "Suggest", "s"],
  ["/cost", "Cost", "k"],
  ["/what-if", "What if", "w"],
  ["/open", "Open", "o"],
];
const THEMES = ["auto", "light", "dark"];

/** @param {{path: string, children?: any}} props */
export function Chrome({ path, children }) {
  const [help, setHelp] = useState(false);
  useEffect(() => watchKeys(() => setHelp(true)), []);
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    <header class="bar">
      <a class="brand" href="/" aria-label="irene, start page">
        <img src="/static/icon.svg" width="22" height="22" alt="" />irene
      </a>
      <nav aria-label="Pages">
        ${NAVIGATION.map(
          ([href, label]) => html`<a
            href=${href}
            aria-current=${href === path ? "page" : undefined}
          >${label}</a>`,
        )}
      </nav>
      <div class="bar-end">
        <a href="/method" aria-current=${path === "/method" ? "page" : undefined}>Method</a>
        <a href="/help" aria-current=${path === "/help" ? "page" : undefined}>Help</a>
        <${ThemeToggle} />
        <button
          type="button" class="quiet square" aria-label="Keyboard help" title="Keyboard help (?)"
          aria-haspopup="dialog" onClick=${() => setHelp(true)}
        >?</button>
      </div>
    </header>
    <main id="main" tabindex="-1">${children}</main>
    <${KeyboardHelp} open=${help} onClose=${() => setHelp(false)} />
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
  try {
    if (theme === "auto") localStorage.removeItem("irene.theme");
    else localStorage.setItem("irene.theme", theme);
  } catch {
    // The choice then lasts as long as the page.
  }
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
 * Keys that work on every page: `?` for help, `/` to search, `g` then a letter to go.
 * @param {() => void} openHelp
 */
function watchKeys(openHelp) {
  let going = false;
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const target = going && NAVIGATION.find(([, , key]) => key === event.key);
    going = event.key === "g";
    if (target) navigate(/** @type {string} */ (target[0]));
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

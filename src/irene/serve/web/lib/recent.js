// What was brought and asked for in this browser, so that one finds it again.

import { keep, kept } from "./kept.js";

const KEY = "irene.recent";
const MOST = 12;

/** @typedef {{kind: string, name: string, href: string, when: number}} Recent */

/**
 * The list with one more in front; the same address is there once.
 * @param {readonly Recent[]} all
 * @param {Recent} one
 * @returns {Recent[]}
 */
export function withRecent(all, one) {
  return [one, ...all.filter((each) => each.href !== one.href)].slice(0, MOST);
}

/**
 * What storage holds, whatever it holds.
 * @param {string | null} text
 * @returns {Recent[]}
 */
export function parseRecent(text) {
  try {
    const all = JSON.parse(text ?? "[]");
    // Links of this dashboard alone: storage may have been written by anybody.
    const isGood = (/** @type {any} */ each) =>
      typeof each?.name === "string" && typeof each.kind === "string" && /^\/(?!\/)/.test(each.href) && Number.isFinite(each.when);
    return Array.isArray(all) ? all.filter(isGood).slice(0, MOST) : [];
  } catch {
    return [];
  }
}

/** @returns {Recent[]} */
export const recent = () => parseRecent(kept("localStorage", KEY));

/**
 * What people call a model; one that was brought, by its file.
 * @param {string} model
 */
export function calledName(model) {
  if (!model.startsWith("upload:")) return model;
  return recent().find((each) => each.href.includes(model.slice("upload:".length)))?.name ?? "your model";
}

/**
 * @param {string} kind
 * @param {string} name
 * @param {string} href
 */
export function remember(kind, name, href) {
  keep("localStorage", KEY, JSON.stringify(withRecent(recent(), { kind, name, href, when: Date.now() })));
}

/** Forgets all. */
export const forget = () => keep("localStorage", KEY, null);

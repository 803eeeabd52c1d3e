// What the browser keeps for us. One that keeps nothing is no reason to fail.

/** @typedef {"localStorage" | "sessionStorage"} Place for good, or for this tab */

/**
 * @param {Place} place
 * @param {string} key
 * @returns {string | null}
 */
export function kept(place, key) {
  try {
    return window[place].getItem(key);
  } catch {
    return null;
  }
}

/**
 * @param {Place} place
 * @param {string} key
 * @param {string | null} value null forgets it
 */
export function keep(place, key, value) {
  try {
    if (value === null) window[place].removeItem(key);
    else window[place].setItem(key, value);
  } catch {
    // It then lasts as long as the page.
  }
}

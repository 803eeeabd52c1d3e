// Drawings made for files alone, where the page shows tables: on light paper, with
// every name escaped.

import { inkOn, ramp, series } from "./colour.js";

/** @param {unknown} value */
export function escaped(value) {
  return String(value).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/**
 * @param {number} width
 * @param {number} height
 * @param {readonly string[]} parts
 */
function drawing(width, height, parts) {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="#1b1b22"><rect width="100%" height="100%" fill="#fff"/>${parts.join("")}</svg>`;
}

/**
 * Horizontal bars with names and values.
 * @param {string} title
 * @param {readonly {label: string, value: number, text: string}[]} items
 * @returns {string} SVG
 */
export function barsSvg(title, items) {
  const [row, left, wide] = [22, 240, 380];
  const most = items.reduce((all, { value }) => Math.max(all, value || 0), 0) || 1;
  const parts = [`<text x="10" y="22" font-size="14" font-weight="600">${escaped(title)}</text>`];
  items.forEach(({ label, value, text }, index) => {
    const top = 36 + index * row;
    const length = (Math.max(value || 0, 0) / most) * wide;
    const short = label.length > 36 ? `${label.slice(0, 35)}…` : label;
    parts.push(`<text x="${left - 8}" y="${top + 13}" text-anchor="end">${escaped(short)}</text>`);
    parts.push(`<rect x="${left}" y="${top + 2}" width="${length.toFixed(1)}" height="${row - 7}" rx="2" fill="${series(0, false)}"/>`);
    parts.push(`<text x="${(left + length + 6).toFixed(1)}" y="${top + 13}">${escaped(text)}</text>`);
  });
  return drawing(left + wide + 110, 36 + items.length * row + 12, parts);
}

/**
 * A table whose cells are coloured.
 * @param {string} title
 * @param {readonly unknown[]} rows
 * @param {readonly unknown[]} columns
 * @param {(row: any, column: any) => {level: number, text: string} | null} cell level 0 to 1
 * @returns {string} SVG
 */
export function mapSvg(title, rows, columns, cell) {
  const [wide, high, left, top] = [84, 28, 110, 62];
  const parts = [`<text x="10" y="22" font-size="14" font-weight="600">${escaped(title)}</text>`];
  columns.forEach((column, c) => {
    parts.push(`<text x="${left + (c + 0.5) * wide}" y="${top - 8}" text-anchor="middle">${escaped(column)}</text>`);
  });
  rows.forEach((row, r) => {
    parts.push(`<text x="${left - 8}" y="${top + r * high + 18}" text-anchor="end">${escaped(row)}</text>`);
    columns.forEach((column, c) => {
      const found = cell(row, column);
      if (!found) return;
      parts.push(`<rect x="${left + c * wide}" y="${top + r * high}" width="${wide - 1}" height="${high - 1}" rx="3" fill="${ramp(found.level, false)}"/>`);
      parts.push(`<text x="${left + (c + 0.5) * wide}" y="${top + r * high + 18}" text-anchor="middle" fill="${inkOn(found.level, false)}">${escaped(found.text)}</text>`);
    });
  });
  return drawing(Math.max(left + columns.length * wide + 10, 420), top + rows.length * high + 12, parts);
}

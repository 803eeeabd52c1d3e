// Taking things away: files made in the browser, nothing is sent anywhere.

/**
 * @param {string} name
 * @param {string} type
 * @param {BlobPart} content
 */
export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/**
 * A name that every file system takes.
 * @param {string} name
 */
export function fileName(name) {
  return name.replace(/[^\w.@+-]+/g, "_").replace(/^\.+/, "_").slice(0, 120) || "irene";
}

/**
 * Rows as CSV. Text that a spreadsheet would run as a formula gets a quote before it.
 * @param {(string | number | null | undefined)[][]} rows
 */
export function csvText(rows) {
  return rows.map((row) => row.map(csvCell).join(",") + "\r\n").join("");
}

/** @param {string | number | null | undefined} value */
function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const KEPT = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor",
];

/**
 * A drawing as a file of its own: styles that come from the page are written into it.
 * @param {SVGElement | string} drawing
 * @returns {string}
 */
export function svgText(drawing) {
  if (typeof drawing === "string") return drawing;
  const copy = /** @type {SVGElement} */ (drawing.cloneNode(true));
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  copies.forEach((element, i) => {
    const style = getComputedStyle(/** @type {Element} */ (originals[i]));
    for (const name of KEPT) {
      const value = style.getPropertyValue(name);
      if (value && value !== "normal") element.setAttribute(name, value);
    }
    for (const name of ["style", "class", "tabindex", "role"]) element.removeAttribute(name);
    for (const { name } of [...element.attributes]) if (name.startsWith("aria-")) element.removeAttribute(name);
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--panel").trim() || "#fff";
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  back.setAttribute("width", "100%");
  back.setAttribute("height", "100%");
  back.setAttribute("fill", ground);
  copy.insertBefore(back, copy.firstChild);
  return new XMLSerializer().serializeToString(copy);
}

/**
 * @param {string} text an SVG with width and height
 * @param {number} [scale] pixels per unit
 * @returns {Promise<Blob>}
 */
export async function svgToPng(text, scale = 2) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  const most = 16_000; // what browsers allow at least
  const factor = Math.min(scale, most / image.width, most / image.height);
  canvas.width = Math.ceil(image.width * factor);
  canvas.height = Math.ceil(image.height * factor);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large")))),
  );
}

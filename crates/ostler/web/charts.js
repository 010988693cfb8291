// Charts as SVG nodes, each beside a table with the same numbers.
import { h, svg } from "./dom.js";
import { count } from "./words.js";

/**
 * Lying bars, stacked.
 * @param {{label: string, parts: number[], note?: string}[]} rows @param {string[]} names
 */
export function bars(rows, names) {
  const most = Math.max(1, ...rows.map((row) => row.parts.reduce((sum, part) => sum + part, 0)));
  const line = 26, left = 150, width = 720;
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${rows.length * line + 4}`, role: "img", "aria-label": `${names.join(", ")}: the table below has the same numbers` });
  rows.forEach((row, at) => {
    const top = at * line + 4;
    let x = left;
    chart.append(svg("text", { x: left - 8, y: top + 13, "text-anchor": "end" }, row.label.length > 22 ? `${row.label.slice(0, 21)}…` : row.label));
    row.parts.forEach((part, kind) => {
      const wide = (part / most) * (width - left - 70);
      if (wide > 0) chart.append(svg("rect", { class: `c${kind}`, x, y: top, width: Math.max(1, wide), height: 16, rx: 2 }));
      x += wide;
    });
    chart.append(svg("text", { x: x + 6, y: top + 13 }, row.note ?? count(row.parts.reduce((sum, part) => sum + part, 0))));
  });
  return chart;
}

/** Standing bars over time, stacked. @param {{label: string, parts: number[]}[]} rows @param {string[]} names */
export function columns(rows, names) {
  const width = 1080, height = 240, bottom = 24, left = 48;
  const most = Math.max(1, ...rows.map((row) => row.parts.reduce((sum, part) => sum + part, 0)));
  const step = (width - left) / Math.max(1, rows.length);
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${names.join(", ")} over time: the table below has the same numbers` });
  for (const part of [0, 0.5, 1]) {
    const y = 8 + (height - bottom - 8) * (1 - part);
    chart.append(svg("line", { class: "axis", x1: left, x2: width, y1: y, y2: y }), svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, count(most * part)));
  }
  rows.forEach((row, at) => {
    let y = height - bottom;
    row.parts.forEach((part, kind) => {
      const tall = (part / most) * (height - bottom - 8);
      y -= tall;
      if (tall > 0) chart.append(svg("rect", { class: `c${kind}`, x: left + at * step + 1, y, width: Math.max(1, Math.min(48, step - 2)), height: tall }, svg("title", {}, `${row.label}: ${part.toLocaleString("en")} ${names[kind]}`)));
    });
    if (at % Math.ceil(rows.length / 10) === 0) chart.append(svg("text", { x: left + at * step, y: height - 6 }, row.label.slice(5)));
  });
  return chart;
}

/** @param {string[]} names */
export function legend(names) {
  return h("div", { class: "legend" }, names.map((name, kind) => h("span", {}, svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { class: `c${kind}`, width: 10, height: 10, rx: 2 })), name)));
}

/**
 * Squares whose areas are the values (squarified treemap).
 * @param {{value: number, item: any}[]} values @param {number} x @param {number} y @param {number} width @param {number} height
 * @returns {{x: number, y: number, width: number, height: number, item: any, value: number}[]}
 */
export function squarify(values, x, y, width, height) {
  const left = values.filter((one) => one.value > 0).sort((one, other) => other.value - one.value);
  const made = [];
  let sum = left.reduce((all, one) => all + one.value, 0);
  while (left.length && width > 0.5 && height > 0.5) {
    const isWide = width >= height;
    const side = isWide ? height : width;
    const scale = (width * height) / sum;
    let row = [left[0]], area = left[0].value * scale, worst = ratio(row, area, side, scale);
    for (let at = 1; at < left.length; at++) {
      const more = [...row, left[at]], moreArea = area + left[at].value * scale, next = ratio(more, moreArea, side, scale);
      if (next > worst) break;
      [row, area, worst] = [more, moreArea, next];
    }
    const thick = area / side;
    let along = 0;
    for (const one of row) {
      const long = (one.value * scale) / thick;
      made.push(isWide ? { ...one, x, y: y + along, width: thick, height: long } : { ...one, x: x + along, y, width: long, height: thick });
      along += long;
    }
    sum -= row.reduce((all, one) => all + one.value, 0);
    left.splice(0, row.length);
    if (isWide) { x += thick; width -= thick; } else { y += thick; height -= thick; }
  }
  return made;
}

/** @param {{value: number}[]} row @param {number} area @param {number} side @param {number} scale */
function ratio(row, area, side, scale) {
  const thick = area / side;
  return Math.max(...row.map((one) => { const long = (one.value * scale) / thick; return Math.max(long / thick, thick / long); }));
}

// Charts as SVG nodes in real pixels, each beside a table with the same numbers.
import { h, svg } from "./dom.js";
import { count } from "./words.js";

/** @typedef {{label: string, parts: number[], note?: string}} ChartRow */

/** @param {number[]} parts */
const sum = (parts) => parts.reduce((all, part) => all + part, 0);

/** Something that is drawn anew when its box gets another width: text keeps its size. @param {(width: number) => Node} draw */
export function sized(draw) {
  const box = h("div", {});
  let wide = 0;
  new ResizeObserver(() => {
    const now = Math.floor(box.clientWidth);
    if (!now || now === wide) return;
    wide = now;
    box.replaceChildren(draw(now));
  }).observe(box);
  return box;
}

/** Text that fits so many pixels. @param {string} text @param {number} room */
export function fitText(text, room) {
  const most = Math.floor(room / 7);
  return text.length <= most ? text : most < 2 ? "" : `${text.slice(0, most - 1)}…`;
}

/** Lying bars, stacked. @param {ChartRow[]} rows @param {string[]} names */
export function bars(rows, names) {
  const most = Math.max(1, ...rows.map((row) => sum(row.parts)));
  return sized((width) => {
    const line = 28, left = Math.min(190, width * 0.34);
    const chart = svg("svg", { class: "chart", width, height: rows.length * line + 4, role: "img", "aria-label": `${names.join(", ")}: the table below has the same numbers` });
    rows.forEach((row, at) => {
      const top = at * line + 4;
      let x = left;
      chart.append(svg("text", { x: left - 8, y: top + 14, "text-anchor": "end" }, fitText(row.label, left - 8)));
      row.parts.forEach((part, kind) => {
        const wide = (part / most) * (width - left - 70);
        if (wide > 0) chart.append(svg("rect", { class: `c${kind}`, "data-value": part, x, y: top, width: Math.max(1, wide), height: 18, rx: 2 }, svg("title", {}, `${row.label}: ${part.toLocaleString("en")} ${names[kind]}`)));
        x += wide;
      });
      chart.append(svg("text", { x: x + 6, y: top + 14 }, row.note ?? count(sum(row.parts))));
    });
    return chart;
  });
}

/**
 * Round steps of an axis from zero, the last not smaller than the largest value: few enough to be read, and
 * little room above it.
 * @param {number} most @param {number} steps
 */
export function axisSteps(most, steps) {
  const rough = Math.max(most, Number.MIN_VALUE) / steps;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((part) => part * unit >= rough * 0.999_999) ?? 10) * unit;
  return Array.from({ length: Math.ceil(most / step - 1e-6) + 1 }, (_, at) => at * step);
}

/** Standing bars over time, stacked. @param {ChartRow[]} rows @param {string[]} names */
export function columns(rows, names) {
  const axis = axisSteps(Math.max(1, ...rows.map((row) => sum(row.parts))), 5);
  const top = axis[axis.length - 1];
  return sized((width) => {
    const height = 260, bottom = 26, left = 48, room = height - bottom - 12;
    const step = (width - left) / Math.max(1, rows.length);
    const every = Math.max(1, Math.ceil(64 / step));
    const chart = svg("svg", { class: "chart", width, height, role: "img", "aria-label": `${names.join(", ")} over time: the table below has the same numbers` });
    for (const value of axis) chart.append(...axisLine(left, width, 12 + room * (1 - value / top), count(value)));
    rows.forEach((row, at) => {
      let y = height - bottom;
      const wide = Math.max(1, Math.min(40, step - Math.min(4, step / 4)));
      const x = left + at * step + (step - wide) / 2;
      row.parts.forEach((part, kind) => {
        const tall = (part / top) * room;
        y -= tall;
        if (tall > 0) chart.append(svg("rect", { class: `c${kind}`, "data-value": part, x, y, width: wide, height: tall }, svg("title", {}, `${row.label}: ${part.toLocaleString("en")} ${names[kind]}`)));
      });
      if (at % every === 0) chart.append(svg("text", { x: Math.max(left + 18, Math.min(width - 28, x + wide / 2)), y: height - 8, "text-anchor": "middle" }, row.note ?? row.label));
    });
    return chart;
  });
}

/** A line of an axis with its number. @param {number} left @param {number} width @param {number} y @param {string} label */
function axisLine(left, width, y, label) {
  return [svg("line", { class: "axis", x1: left, x2: width, y1: y, y2: y }), svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, label)];
}

/** A line over steps, from zero. @param {number[]} values @param {string} name @param {(value: number) => string} [label] */
export function curve(values, name, label = count) {
  const axis = axisSteps(Math.max(...values, 0) || 1, 3);
  const top = axis[axis.length - 1];
  return sized((width) => {
    const height = 120, left = 48, room = height - 24;
    const step = (width - left - 4) / Math.max(1, values.length - 1);
    const place = (/** @type {number} */ value, /** @type {number} */ at) => `${(left + at * step).toFixed(1)},${(12 + room * (1 - value / top)).toFixed(1)}`;
    const chart = svg("svg", { class: "chart", width, height, role: "img", "aria-label": `${name}: the table below has the same numbers` });
    for (const value of axis) chart.append(...axisLine(left, width, 12 + room * (1 - value / top), label(value)));
    chart.append(svg("polyline", { class: "curve", points: values.map(place).join(" ") }));
    if (values.length === 1) chart.append(svg("circle", { class: "c0", cx: left, cy: 12 + room * (1 - values[0] / top), r: 3 }));
    return chart;
  });
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

// Tokens and cost: a chart and a table with the same numbers, as CSV too.
import { get } from "./api.js";
import { bars, columns, legend } from "./charts.js";
import { failure, h, headRow, loading, newestOnly, tableBox } from "./dom.js";
import { costOf, count, oneLine, tokenSum } from "./words.js";

const KINDS = ["input", "output", "cache write", "cache read"];
/** @param {any} tokens */
const parts = (tokens) => [tokens.input, tokens.output, tokens.cacheWrite, tokens.cacheRead];
/** A day as its chart names it. @param {string} day */
const dayLabel = (day) => (/^\d{4}-\d\d-\d\d$/.test(day) ? new Date(`${day}T00:00:00`).toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : day);

/** @param {any} sum */
const hasPrice = (sum) => sum.statedMicroUsd !== undefined || sum.pricedMicroUsd !== undefined;
/** What it cost; where nothing has a price, that and not the tokens once more. @param {any} sum */
const priceOf = (sum) => (hasPrice(sum) || !sum.unpricedTokens ? costOf(sum) : "no price stated");

/** @returns {import("./app.js").Page} */
export function usagePage() {
  let by = "day", since = "30d";
  const body = h("div", {}, loading("Adding up …"));
  const choice = (/** @type {string} */ name, /** @type {string[][]} */ list, /** @type {() => string} */ now, /** @type {(value: string) => void} */ set) => {
    const seg = h("div", { class: "seg", role: "group", "aria-label": name }, list.map(([value, name]) => h("button", { type: "button", "data-value": value, "aria-pressed": String(value === now()), onclick: () => {
      set(value);
      for (const one of seg.children) one.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (one).dataset.value === now()));
      load(`by=${by}&since=${since}`);
    } }, name)));
    return seg;
  };
  const element = h("div", {}, h("h1", { class: "head" }, "Usage"), h("div", { class: "toolbar" },
    choice("Sums by", [["day", "Day"], ["agent", "Agent"], ["project", "Project"], ["model", "Model"]], () => by, (value) => { by = value; }),
    choice("Since", [["7d", "7 days"], ["30d", "30 days"], ["365d", "A year"], ["9999d", "All"]], () => since, (value) => { since = value; })), body);
  const load = newestOnly((question) => get(`/v1/usage?${question}`), draw, (error) => body.replaceChildren(failure(error)));

  /** @param {any} told */
  function draw(told) {
    if (!told.groups.length) return body.replaceChildren(h("div", { class: "empty" }, h("p", { class: "big" }, "No usage in this time.")));
    const label = (/** @type {string} */ key) => oneLine(by === "day" ? dayLabel(key) : by === "project" ? key.split("/").pop() || key : key);
    const rows = told.groups.map((/** @type {any} */ one) => ({ label: label(one.key), parts: parts(one.tokens) }));
    const chart = by === "day" ? columns(rows, KINDS) : bars(rows.slice(0, 20), KINDS);
    const line = (/** @type {any} */ sum, /** @type {string} */ name, /** @type {boolean} */ isTotal) => h("tr", { class: isTotal ? "verdict" : null }, h("th", { scope: "row" }, oneLine(name)), parts(sum.tokens).map((part) => h("td", { class: "right" }, part.toLocaleString("en"))),
      h("td", { class: "right" }, tokenSum(sum.tokens).toLocaleString("en")), h("td", { class: hasPrice(sum) ? "right" : "right muted" }, priceOf(sum)));
    body.replaceChildren(h("section", { class: "panel" }, h("h2", { class: "figure" }, `${count(tokenSum(told.total.tokens))} tokens`, h("span", { class: "muted" }, priceOf(told.total))), legend(KINDS), chart),
      h("div", { class: "toolbar" }, h("button", { type: "button", onclick: () => save(told) }, "Save as CSV")),
      tableBox("usage", headRow([[by], ...[...KINDS, "total"].map((kind) => /** @type {[string, string]} */ ([kind, "right"])), ["cost", "right"]]),
        h("tbody", {}, (by === "day" ? [...told.groups].reverse() : told.groups).map((/** @type {any} */ one) => line(one, one.key, false)), line(told.total, "total", true))));
  }

  /** @param {any} told */
  function save(told) {
    const quote = (/** @type {any} */ text) => `"${String(text).replace(/^[=+\-@]/, "'$&").replace(/"/g, '""')}"`;
    const lines = [[by, ...KINDS, "stated_usd"], ...told.groups.map((/** @type {any} */ one) => [one.key, ...parts(one.tokens), one.statedMicroUsd === undefined ? "" : one.statedMicroUsd / 1e6])];
    const url = URL.createObjectURL(new Blob([lines.map((line) => line.map(quote).join(",")).join("\n")], { type: "text/csv" }));
    const anchor = h("a", { href: url, download: "usage.csv" });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  load(`by=${by}&since=${since}`);
  return { element, title: "Usage" };
}

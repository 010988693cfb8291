// Tokens and cost: a chart and a table with the same numbers, as CSV too.
import { get } from "./api.js";
import { bars, columns, legend } from "./charts.js";
import { failure, h } from "./dom.js";
import { costOf, count, oneLine, tokenSum } from "./words.js";

const KINDS = ["input", "output", "cache write", "cache read"];
/** @param {any} tokens */
const parts = (tokens) => [tokens.input, tokens.output, tokens.cacheWrite, tokens.cacheRead];

/** @returns {import("./app.js").Page} */
export function usagePage() {
  let by = "day", since = "30d";
  const body = h("div", {});
  const choice = (/** @type {string[][]} */ list, /** @type {() => string} */ now, /** @type {(value: string) => void} */ set) => {
    const seg = h("div", { class: "seg", role: "group" }, list.map(([value, name]) => h("button", { type: "button", "data-value": value, "aria-pressed": String(value === now()), onclick: () => {
      set(value);
      for (const one of seg.children) one.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (one).dataset.value === now()));
      load();
    } }, name)));
    return seg;
  };
  const element = h("div", {}, h("h1", { class: "head" }, "Usage"), h("div", { class: "toolbar" },
    choice([["day", "Day"], ["agent", "Agent"], ["project", "Project"], ["model", "Model"]], () => by, (value) => { by = value; }),
    choice([["7d", "7 days"], ["30d", "30 days"], ["365d", "A year"], ["9999d", "All"]], () => since, (value) => { since = value; })), body);

  async function load() {
    try {
      const told = await get(`/v1/usage?by=${by}&since=${since}`);
      draw(told);
    } catch (error) {
      body.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  /** @param {any} told */
  function draw(told) {
    if (!told.groups.length) return body.replaceChildren(h("p", { class: "empty" }, "No usage in this time."));
    const rows = told.groups.map((/** @type {any} */ one) => ({ label: oneLine(by === "project" ? one.key.split("/").pop() || one.key : one.key), parts: parts(one.tokens) }));
    const chart = by === "day" ? columns(rows, KINDS) : bars(rows.slice(0, 20), KINDS);
    const line = (/** @type {any} */ sum, /** @type {string} */ name) => h("tr", {}, h("th", { scope: "row" }, oneLine(name)), parts(sum.tokens).map((part) => h("td", { class: "right" }, part.toLocaleString("en"))),
      h("td", { class: "right" }, tokenSum(sum.tokens).toLocaleString("en")), h("td", {}, costOf(sum)));
    body.replaceChildren(h("section", { class: "panel" }, h("h2", {}, `${count(tokenSum(told.total.tokens))} tokens · ${costOf(told.total)}`), legend(KINDS), chart),
      h("div", { class: "toolbar" }, h("button", { type: "button", class: "quiet", onclick: () => save(told) }, "Save as CSV")),
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "usage" }, h("table", { class: "plain" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, by), [...KINDS, "total"].map((kind) => h("th", { scope: "col", class: "right" }, kind)), h("th", { scope: "col" }, "cost"))),
        h("tbody", {}, told.groups.map((/** @type {any} */ one) => line(one, one.key)), line(told.total, "total")))));
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

  load();
  return { element, title: "Usage" };
}

// A conversation: what was said in blocks, tools folded into one line, live at its end.
import { get, sessionPath } from "./api.js";
import { failure, h } from "./dom.js";
import { clock, fullTime, oneLine, plain, plural } from "./words.js";

const PAGE = 100;
const LONG_LINES = 40;

/** @typedef {{number: number, at?: string, role: string, tool?: string, subagent?: string, blocks: any[], cut?: number}} Entry */

/** @param {any[]} spans */
function inline(spans) {
  return spans.map((span) => {
    let node = document.createTextNode(plain(span.text));
    /** @type {any} */
    let made = node;
    if (span.code) made = h("code", {}, made);
    if (span.bold) made = h("strong", {}, made);
    if (span.italic) made = h("em", {}, made);
    if (span.strike) made = h("s", {}, made);
    if (span.link && /^https?:\/\//i.test(span.link)) made = h("a", { href: span.link, rel: "noreferrer noopener", target: "_blank", title: plain(span.link) }, made);
    return made;
  });
}

/** Long texts are cut until somebody asks. @param {string} text @param {string} [language] */
function pre(text, language) {
  const lines = plain(text).split("\n");
  const node = h("pre", { tabindex: "0", "aria-label": language ? `${language} code` : "output" }, lines.slice(0, LONG_LINES).join("\n"));
  if (lines.length <= LONG_LINES) return node;
  const more = h("button", { type: "button", class: "quiet more", onclick: () => { node.textContent = lines.join("\n"); more.remove(); } }, `show all ${lines.length} lines`);
  return h("div", {}, node, more);
}

/** A heading of a conversation is none of the page's. @param {any} block @returns {any} */
function block(block) {
  switch (block.kind) {
    case "paragraph": return h("p", {}, inline(block.spans));
    case "heading": return h("p", {}, h("strong", {}, inline(block.spans)));
    case "code": return pre(block.text.replace(/\n$/, ""), block.language);
    case "list": return h(block.start === undefined ? "ul" : "ol", { start: block.start }, block.items.map((/** @type {any[]} */ item) => h("li", {}, item.map(blockOf))));
    case "quote": return h("blockquote", {}, block.blocks.map(blockOf));
    case "table": return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "table" }, h("table", {}, block.rows.map((/** @type {any[]} */ row, /** @type {number} */ at) =>
      h("tr", {}, row.map((cell) => h(at ? "td" : "th", {}, inline(cell)))))));
    case "rule": return h("hr", {});
    default: return pre(block.text);
  }
}
const blockOf = block;

const WHO = { user: "you", assistant: "agent", system: "notice" };

/** @param {Entry} entry */
function speech(entry) {
  const who = entry.subagent ? "sub-agent" : WHO[/** @type {"user"} */ (entry.role)] ?? entry.role;
  return h("div", { class: `entry ${entry.role}`, id: `e${entry.number}` },
    h("time", { datetime: entry.at, title: fullTime(entry.at) }, clock(entry.at)), h("span", { class: "who" }, who),
    h("div", { class: "body" }, entry.blocks.map(blockOf), entry.cut ? h("p", { class: "muted" }, `${plural(entry.cut, "character")} more in the transcript`) : null));
}

/** Consecutive tools as one line that says how many, which, how long. @param {Entry[]} entries @param {boolean} isOpen */
function tools(entries, isOpen) {
  /** @type {Map<string, number>} */
  const kinds = new Map();
  for (const entry of entries) if (entry.role === "tool") kinds.set(entry.tool ?? "tool", (kinds.get(entry.tool ?? "tool") ?? 0) + 1);
  const calls = entries.filter((entry) => entry.role === "tool").length;
  const names = [...kinds].map(([name, times]) => `${oneLine(name)}${times > 1 ? ` ×${times}` : ""}`).join("  ");
  const first = Date.parse(entries[0].at ?? ""), last = Date.parse(entries[entries.length - 1].at ?? "");
  const took = last - first >= 1000 ? ` · ${Math.round((last - first) / 1000)} s` : "";
  const details = h("details", { class: "tools", "data-first": entries[0].number },
    h("summary", {}, calls ? `${plural(calls, "tool call")} · ${names}${took}` : plural(entries.length, "record")));
  const fill = () => {
    if (details.children.length > 1) return;
    details.append(...entries.map((entry) => h("div", { class: "tool", id: `e${entry.number}` },
      h("span", { class: "mono" }, `${clock(entry.at)} ${entry.role === "tool" ? oneLine(entry.tool) : entry.role}`), entry.blocks.map(blockOf))));
  };
  details.addEventListener("toggle", () => { if (details.open) fill(); });
  if (isOpen) { details.open = true; fill(); }
  return details;
}

/** The conversation of a session. */
export class TalkView {
  /** @param {string} key */
  constructor(key) {
    this.key = key;
    /** @type {Entry[]} */
    this.entries = [];
    this.total = 0;
    this.earlier = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.loadEarlier() }, "Show earlier");
    this.list = h("div", { class: "talk" });
    this.fresh = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.toEnd() });
    this.element = h("div", {}, this.earlier, this.list, this.fresh);
    this.isBusy = false;
    this.missed = 0;
  }

  async load() {
    try {
      const told = await get(sessionPath(this.key, `/talk?last=${PAGE}`));
      this.entries = told.entries;
      this.total = told.total;
      this.draw();
      this.toEnd();
    } catch (error) {
      this.list.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  async loadEarlier() {
    const first = this.entries[0]?.number ?? 1;
    const from = Math.max(1, first - PAGE);
    const told = await get(sessionPath(this.key, `/talk?from=${from}&limit=${first - from}`));
    this.entries = [...told.entries, ...this.entries];
    const before = document.documentElement.scrollHeight;
    this.draw();
    scrollBy(0, document.documentElement.scrollHeight - before);
  }

  /** What was added since. */
  async loadMore() {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      const told = await get(sessionPath(this.key, `/talk?from=${this.total + 1}`));
      this.total = told.total;
      if (!told.entries.length) return;
      const atEnd = this.isAtEnd();
      this.entries = [...this.entries, ...told.entries];
      this.draw();
      if (atEnd) this.toEnd();
      else {
        this.missed += told.entries.length;
        this.fresh.hidden = false;
        this.fresh.textContent = `${this.missed} new ↓`;
      }
    } catch { /* the next change asks again */ } finally {
      this.isBusy = false;
    }
  }

  isAtEnd() {
    return innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
  }

  toEnd() {
    this.missed = 0;
    this.fresh.hidden = true;
    if (this.element.isConnected) scrollTo(0, document.documentElement.scrollHeight);
  }

  draw() {
    const open = new Set([...this.list.querySelectorAll("details[open]")].map((one) => /** @type {HTMLElement} */ (one).dataset.first));
    const parts = [];
    /** @type {Entry[]} */
    let run = [];
    const flush = () => {
      if (run.length) parts.push(tools(run, open.has(String(run[0].number))));
      run = [];
    };
    for (const entry of this.entries) {
      if (["tool", "result", "system"].includes(entry.role)) run.push(entry);
      else { flush(); parts.push(speech(entry)); }
    }
    flush();
    if (!parts.length) parts.push(h("p", { class: "empty" }, "Nothing was said yet."));
    this.list.replaceChildren(...parts);
    this.earlier.hidden = (this.entries[0]?.number ?? 1) <= 1;
  }
}

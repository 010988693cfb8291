// A conversation: what was said in blocks, tools folded into one line, live at its end.
import { call, get, may, sessionPath } from "./api.js";
import { failure, h, loading, lockIcon } from "./dom.js";
import { clock, fullTime, oneLine, plain, plural } from "./words.js";

const PAGE = 100;
/** How many entries are in the page at once; further ones are asked for. */
const WINDOW = 400;
const LONG_LINES = 40;

/** @typedef {{number: number, at?: string, role: string, tool?: string, subagent?: string, blocks: any[], cut?: number, masked?: number}} Entry */

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

/** @type {Record<string, string>} */
const WHO = { user: "you", assistant: "agent", system: "notice" };
/** Roles that are folded into one line. */
const FOLDED = ["tool", "result", "system"];

/** The time of an entry, which is its address too. @param {Entry} entry @param {string} address */
function anchor(entry, address) {
  return h("a", { class: "at num", href: `${address}#e${entry.number}`, title: `${fullTime(entry.at)} · entry ${entry.number}` }, h("time", { datetime: entry.at }, clock(entry.at) || `#${entry.number}`));
}

/** @param {Entry} entry @param {string} address @param {any} more what stands below its text */
function speech(entry, address, more) {
  return h("div", { class: `entry ${entry.role}`, id: `e${entry.number}` },
    anchor(entry, address), h("span", { class: "who" }, WHO[entry.role] ?? entry.role),
    h("div", { class: "body" }, entry.blocks.map(blockOf), entry.cut ? h("p", { class: "muted" }, `${plural(entry.cut, "character")} more in the transcript`) : null, more));
}

/** How long a stretch of entries took. @param {Entry[]} entries */
function took(entries) {
  const seconds = (Date.parse(entries[entries.length - 1].at ?? "") - Date.parse(entries[0].at ?? "")) / 1000;
  return seconds >= 1 ? ` · ${seconds >= 90 ? `${Math.floor(seconds / 60)}m ${Math.round(seconds % 60)}s` : `${Math.round(seconds)}s`}` : "";
}

/** Whether a tool's answer says that it failed. @param {Entry} entry */
const hasFailed = (entry) => entry.role === "result" && /^(error|<tool_use_error>|exit code [1-9])/i.test(entry.blocks[0]?.text ?? entry.blocks[0]?.spans?.[0]?.text ?? "");

/** Consecutive tools as one line that says how many, which, failures, how long. @param {Entry[]} entries */
function toolsLine(entries) {
  /** @type {Map<string, number>} */
  const kinds = new Map();
  for (const entry of entries) if (entry.role === "tool") kinds.set(entry.tool ?? "tool", (kinds.get(entry.tool ?? "tool") ?? 0) + 1);
  const calls = entries.filter((entry) => entry.role === "tool").length;
  if (!calls) return plural(entries.length, "record");
  const failed = entries.filter(hasFailed).length;
  const names = [...kinds].map(([name, times]) => `${oneLine(name)}${times > 1 ? ` ×${times}` : ""}`).join("  ");
  return `${plural(calls, "tool call")} · ${names}${failed ? ` · ${failed} failed` : ""}${took(entries)}`;
}

/** A folded stretch, filled when it is opened. @param {Entry[]} entries @param {string} summary @param {boolean} isOpen @param {() => any[]} make */
function fold(entries, summary, isOpen, make) {
  const details = h("details", { class: "tools", "data-first": entries[0].number, "data-last": entries[entries.length - 1].number }, h("summary", {}, summary));
  const fill = () => { if (details.children.length < 2) details.append(...make()); };
  details.addEventListener("toggle", () => { if (details.open) fill(); });
  if (isOpen) { details.open = true; fill(); }
  return details;
}

/** The conversation of a session. */
export class TalkView {
  /** @param {string} key @param {string} address the session's page */
  constructor(key, address) {
    this.key = key;
    this.address = address;
    /** @type {Entry[]} */
    this.entries = [];
    this.total = 0;
    this.allOpen = false;
    this.tools = h("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => { this.allOpen = !this.allOpen; this.tools.setAttribute("aria-pressed", String(this.allOpen)); this.draw(true); } }, "▸ all tools");
    this.newest = h("button", { type: "button", class: "quiet", onclick: () => this.load() }, "↓ newest");
    this.told = h("div", { class: "told" });
    this.place = h("span", { class: "muted num" });
    this.earlier = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.loadEarlier() }, "Show earlier");
    this.later = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.loadLater() }, "Show later");
    this.list = h("div", { class: "talk" });
    this.fresh = h("button", { type: "button", class: "more fresh", hidden: true, onclick: () => (this.lastNumber() < this.total ? this.load() : this.toEnd()) });
    this.element = h("div", {}, h("div", { class: "talkbar" }, this.place, this.tools, this.newest), this.told, this.earlier, this.list, this.later, this.fresh);
    this.turn = Promise.resolve();
    this.isAsked = false;
    /** How many entries there were when the reader was last at their end. */
    this.read = 0;
  }

  /** One question after another, so that no answer is put where another has been. What fails is said, and what was read stays. @param {() => Promise<void>} work */
  inTurn(work) {
    this.turn = this.turn.then(work).then(() => this.told.replaceChildren(), (error) => {
      if (!this.entries.length) this.list.replaceChildren();
      this.told.replaceChildren(failure(/** @type {any} */ (error)));
    });
    return this.turn;
  }

  lastNumber() {
    return this.entries[this.entries.length - 1]?.number ?? 0;
  }

  /** @param {string} query */
  async ask(query) {
    const told = await get(sessionPath(this.key, `/talk?${query}`));
    this.total = told.total;
    return told.entries;
  }

  /** The newest entries, or those round one of them. @param {number} [number] */
  load(number) {
    if (!this.entries.length) this.list.replaceChildren(loading("Reading the conversation …"));
    return this.inTurn(async () => {
      this.entries = await this.ask(number ? `from=${Math.max(1, number - PAGE / 2)}&limit=${PAGE}` : `last=${PAGE}`);
      this.draw();
      if (number) this.toEntry(number);
      else this.toEnd();
    });
  }

  loadEarlier() {
    return this.inTurn(async () => {
      const first = this.entries[0]?.number ?? 1;
      const from = Math.max(1, first - PAGE);
      if (from === first) return;
      const more = await this.ask(`from=${from}&limit=${first - from}`);
      this.entries = [...more, ...this.entries].slice(0, WINDOW);
      this.keepPlace(`e${first}`);
    });
  }

  loadLater() {
    return this.inTurn(async () => {
      const last = this.lastNumber();
      const more = await this.ask(`from=${last + 1}&limit=${PAGE}`);
      this.entries = [...this.entries, ...more].slice(-WINDOW);
      this.keepPlace(`e${last}`);
    });
  }

  /** Draws, and what was read stays where it was. @param {string} id */
  keepPlace(id) {
    const find = () => document.getElementById(id) ?? this.list.querySelector(`[data-first="${id.slice(1)}"], [data-last="${id.slice(1)}"]`);
    const before = find()?.getBoundingClientRect().top ?? 0;
    this.draw();
    const after = find()?.getBoundingClientRect().top;
    if (after !== undefined) scrollBy(0, after - before);
  }

  /** What was added since. A question that waits for its turn will see it, too. */
  loadMore() {
    if (this.isAsked) return this.turn;
    this.isAsked = true;
    return this.inTurn(() => {
      this.isAsked = false;
      return this.readOn();
    });
  }

  /** Whoever is at the end goes on to the end, however much came; whoever reads further up keeps a window and is told how much. */
  async readOn() {
    const before = this.total;
    const isBehind = this.lastNumber() < before;
    if (isBehind) await this.ask("last=1");
    while (!isBehind) {
      const last = this.lastNumber();
      const room = this.isAtEnd() ? PAGE : Math.min(PAGE, WINDOW - this.entries.length);
      const more = await this.ask(room > 0 ? `from=${last + 1}&limit=${room}` : "last=1");
      if (room <= 0 || !more.length) break;
      this.entries = [...this.entries, ...more];
      if (this.isAtEnd()) {
        if (this.total - this.lastNumber() > WINDOW) this.entries = await this.ask(`last=${PAGE}`);
        this.entries = this.entries.slice(-WINDOW);
      }
      if (this.lastNumber() >= this.total) break;
    }
    if (this.total === before) return;
    const follows = this.isAtEnd() && this.lastNumber() >= this.total;
    this.draw();
    if (follows) return this.toEnd();
    this.fresh.hidden = false;
    this.fresh.textContent = `${this.total - this.read} new ↓`;
  }

  isAtEnd() {
    return innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
  }

  toEnd() {
    this.read = this.total;
    this.fresh.hidden = true;
    if (this.element.isConnected) scrollTo(0, document.documentElement.scrollHeight);
  }

  /** What was masked is shown to who may manage; who asked is an event. @param {Entry} entry */
  unmask(entry) {
    if (!entry.masked) return null;
    const reveal = () => this.inTurn(async () => {
      const told = await call("POST", sessionPath(this.key, "/reveal"), { entry: entry.number });
      this.entries = this.entries.map((one) => told.entries.find((/** @type {Entry} */ shown) => shown.number === one.number) ?? one);
      this.keepPlace(`e${entry.number}`);
    });
    return h("button", { type: "button", class: "quiet more", onclick: () => (may("manage") ? reveal() : dispatchEvent(new CustomEvent("ostler-ask", { detail: "manage" }))) },
      may("manage") ? null : lockIcon(), `show ${plural(entry.masked, "masked secret")}`);
  }

  /** @param {number} number */
  toEntry(number) {
    const folded = [...this.list.querySelectorAll("details")].find((one) => Number(one.dataset.first) <= number && number <= Number(one.dataset.last));
    if (folded) folded.open = true;
    requestAnimationFrame(() => {
      const entry = document.getElementById(`e${number}`);
      entry?.scrollIntoView({ block: "center" });
      entry?.classList.add("found");
    });
  }

  /** What was opened stays open, also when its stretch grows. @param {boolean} [isAnew] */
  draw(isAnew = false) {
    const open = isAnew ? [] : [...this.list.querySelectorAll("details[open]")].map((/** @type {any} */ one) => [Number(one.dataset.first), Number(one.dataset.last)]);
    const parts = [];
    /** @type {Entry[]} */
    let run = [];
    const flush = () => {
      if (run.length) parts.push(this.stretch(run, this.allOpen || run.some((entry) => open.some(([from, to]) => from <= entry.number && entry.number <= to))));
      run = [];
    };
    for (const entry of this.entries) {
      if (run.length && run[0].subagent !== entry.subagent) flush();
      if (entry.subagent || FOLDED.includes(entry.role)) run.push(entry);
      else { flush(); parts.push(speech(entry, this.address, this.unmask(entry))); }
    }
    flush();
    if (!parts.length) parts.push(h("p", { class: "empty" }, "Nothing was said yet."));
    this.list.replaceChildren(...parts);
    const first = this.entries[0]?.number ?? 1, last = this.lastNumber();
    this.earlier.hidden = first <= 1;
    this.later.hidden = last >= this.total;
    this.place.textContent = this.total > this.entries.length ? `${first.toLocaleString("en")}–${last.toLocaleString("en")} of ${this.total.toLocaleString("en")}` : plural(this.total, "entry").replace("entrys", "entries");
  }

  /** Tools in a row, or everything that a sub-agent did. @param {Entry[]} entries @param {boolean} isOpen */
  stretch(entries, isOpen) {
    const tool = (/** @type {Entry} */ entry) => h("div", { class: `tool ${hasFailed(entry) ? "bad" : ""}`, id: `e${entry.number}` },
      h("div", { class: "toolhead" }, anchor(entry, this.address), h("b", {}, entry.role === "tool" ? oneLine(entry.tool) : entry.role)), entry.blocks.map(blockOf), this.unmask(entry));
    const name = entries[0].subagent;
    if (!name) return fold(entries, toolsLine(entries), isOpen, () => entries.map(tool));
    return fold(entries, `sub-agent ${oneLine(name)} · ${plural(entries.length, "record")}${took(entries)}`, isOpen, () => entries.map((entry) => (FOLDED.includes(entry.role) ? tool(entry) : speech(entry, this.address, this.unmask(entry)))));
  }
}

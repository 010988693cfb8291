// A terminal's screen in the page: changed rows become text in the DOM, so that selecting, finding, copying, zooming and
// reading aloud are the browser's own. The server has the emulator; this knows no escape sequence.
import { h } from "./dom.js";
import { subscribe } from "./socket.js";
import { plain } from "./words.js";

let sheets = 0;

/** What the terminal's font surely has; a glyph of another font has a width of its own, and is held to its columns. */
const FOREIGN = /[^\u0020-\u024f\u0370-\u04ff\u2010-\u205e\u2190-\u21ff\u2500-\u25ff]/;

/** Marks of agents that few fonts have: drawn, and still the same text. @type {Record<string, string>} */
const DRAWN = { "⎿": "corner", "⏺": "dot" };

/** Rows of runs, put on a page. Used by live terminals, thumbnails and recordings. */
export class ScreenView {
  /** @param {string} name */
  constructor(name) {
    this.screen = h("div", { class: "screen" });
    this.cursor = h("div", { class: "cursor", "aria-hidden": "true", hidden: true });
    this.element = h("div", { class: "term", role: "region", "aria-label": `Terminal ${name}`, tabindex: "0" }, this.screen);
    this.prefix = `t${++sheets}s`;
    this.sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.sheet];
    /** @type {HTMLElement[]} */
    this.rows = [];
    this.styles = 0;
    this.size = [0, 0];
    this.scaled = 1;
    this.tall = 0;
  }

  /** @param {any} frame */
  apply(frame) {
    if (frame.whole) this.forgetStyles();
    if (frame.size) this.clear(frame.size);
    for (const css of frame.styles ?? frame.css ?? []) {
      const at = this.styles++;
      if (css) this.sheet.insertRule(`.${this.prefix}${at}{${css}}`, this.sheet.cssRules.length);
    }
    for (const [at, runs] of frame.rows ?? []) this.rows[at]?.replaceChildren(...this.runs(runs));
    if (frame.cursor) {
      this.cursor.hidden = frame.cursor.length === 0;
      if (frame.cursor.length) {
        this.cursor.style.top = `${frame.cursor[0] * 17}px`;
        this.cursor.style.left = `${frame.cursor[1]}ch`;
      }
    }
  }

  forgetStyles() {
    this.styles = 0;
    this.sheet.replaceSync("");
  }

  /** @param {number[]} size */
  clear(size) {
    this.size = size;
    this.rows = Array.from({ length: size[1] }, () => h("div", { class: "row" }));
    this.screen.replaceChildren(...this.rows, this.cursor);
    this.screen.style.minWidth = `${size[0]}ch`;
  }

  /** @param {[string, number, number?][]} runs */
  runs(runs) {
    return runs.flatMap(([text, style, wide]) => {
      if (wide || !FOREIGN.test(text)) return [this.span(text, style, wide ? " wide" : "")];
      return text.split(/([⎿⏺])/).filter(Boolean).map((part) => {
        const span = this.span(part, style, DRAWN[part] ? ` held ${DRAWN[part]}` : " held");
        span.style.width = `${[...part.replace(/\p{M}/gu, "")].length}ch`;
        return span;
      });
    });
  }

  /** @param {string} text @param {number} style @param {string} more */
  span(text, style, more) {
    const span = document.createElement("span");
    span.className = `${this.prefix}${style}${more}`;
    span.textContent = text;
    return span;
  }

  /** Makes it as small as its box: smaller, never re-wrapped. @param {boolean} isOn @param {number} [least] @param {number} [room] */
  fitWidth(isOn, least = 0.4, room = this.element.clientWidth - 16) {
    const screen = this.screen;
    const scale = isOn && screen.offsetWidth > room && room > 0 ? Math.max(least, room / screen.offsetWidth) : 1;
    const tall = screen.offsetHeight;
    if (scale === this.scaled && tall === this.tall) return;
    this.scaled = scale;
    this.tall = tall;
    screen.style.transform = scale < 1 ? `scale(${scale})` : "";
    screen.style.marginBottom = scale < 1 ? `${(scale - 1) * tall}px` : "";
    screen.style.marginRight = scale < 1 ? `${(scale - 1) * screen.offsetWidth}px` : "";
  }

  text() {
    return this.rows.map((row) => row.textContent ?? "");
  }

  close() {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== this.sheet);
    this.element.remove();
  }
}

/** A small live picture of the last lines of a terminal. */
export class Thumbnail {
  /** @param {string} id @param {string} name */
  constructor(id, name) {
    this.view = new ScreenView(name);
    this.view.element.setAttribute("aria-label", `Live screen of ${name}`);
    this.channel = subscribe({ what: "terminal", id }, (frame) => {
      if (frame.error) this.view.element.replaceChildren(plain(frame.error.message));
      if (frame.gen === undefined) return;
      this.view.apply(frame);
      requestAnimationFrame(() => this.channel.send({ op: "seen", gen: frame.gen }));
      this.follow();
    });
    this.element = this.view.element;
  }

  /** Shows the end of what is written, not the empty rows below it. */
  follow() {
    const rows = this.view.text();
    let last = rows.length - 1;
    while (last > 0 && !rows[last].trim()) last--;
    const first = Math.max(0, last - 8);
    this.view.rows.forEach((row, at) => { row.hidden = at > last || at < first; });
    this.view.cursor.hidden = true;
    this.view.fitWidth(true, 0.75);
  }

  close() {
    this.channel.close();
    this.view.close();
  }
}

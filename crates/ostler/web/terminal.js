// A terminal in the page: changed rows become text in the DOM, so that selecting, finding, copying, zooming and reading
// aloud are the browser's own. The server has the emulator; this knows no escape sequence.
import { may } from "./api.js";
import { h, say } from "./dom.js";
import { subscribe } from "./socket.js";
import { plain } from "./words.js";

let sheets = 0;

/** Names of keys as `ostler send-keys` has them. @type {Record<string, string>} */
const KEYS = {
  ArrowUp: "Up", ArrowDown: "Down", ArrowLeft: "Left", ArrowRight: "Right", Enter: "Enter", Tab: "Tab", Escape: "Escape",
  Backspace: "Backspace", Delete: "Delete", Insert: "Insert", Home: "Home", End: "End", PageUp: "PageUp", PageDown: "PageDown",
};

/** The name of a key that is not text. @param {KeyboardEvent} event @returns {string | null} */
export function keyName(event) {
  const named = KEYS[event.key] ?? (/^F\d+$/.test(event.key) ? event.key : null);
  const mods = (event.ctrlKey ? "Ctrl+" : "") + (event.altKey ? "Alt+" : "");
  if (named) return mods + (event.shiftKey ? "Shift+" : "") + named;
  if (mods && [...event.key].length === 1 && !event.metaKey) return mods + (event.key === " " ? "Space" : event.key);
  return null;
}

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
    if (frame.whole || frame.size) this.clear(frame.size);
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

  /** @param {number[]} size */
  clear(size) {
    this.size = size;
    this.styles = 0;
    this.sheet.replaceSync("");
    this.rows = Array.from({ length: size[1] }, () => h("div", { class: "row" }));
    this.screen.replaceChildren(...this.rows, this.cursor);
    this.screen.style.minWidth = `${size[0]}ch`;
  }

  /** @param {[string, number, number?][]} runs */
  runs(runs) {
    return runs.map(([text, style, wide]) => {
      const span = document.createElement("span");
      span.className = `${this.prefix}${style}${wide ? " wide" : ""}`;
      span.textContent = text;
      return span;
    });
  }

  /** Makes it as small as its box: smaller, never re-wrapped. @param {boolean} isOn @param {number} [least] */
  fitWidth(isOn, least = 0.4) {
    const screen = this.screen;
    const room = this.element.clientWidth - 16;
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

  /** @param {string[]} keys */
  press(keys) {
    this.channel.send({ op: "take" });
    this.channel.send({ op: "keys", n: Date.now(), keys });
    setTimeout(() => this.channel.send({ op: "release" }), 300);
  }

  close() {
    this.channel.close();
    this.view.close();
  }
}

/** A terminal that can be watched and typed into. */
export class TerminalPane {
  /** @param {string} id @param {string} name */
  constructor(id, name) {
    this.id = id;
    this.name = name;
    this.view = new ScreenView(name);
    this.sent = Date.now() * 1000;
    this.isTyping = false;
    this.zoom = "fit";
    /** @type {Set<string>} */
    this.held = new Set();
    this.who = h("strong", {}, "watching");
    this.size = h("span", { class: "muted num" });
    this.take = h("button", { type: "button", onclick: () => (this.isTyping ? this.leave() : this.begin()) }, "Take the keyboard");
    this.fitButton = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.fit() }, "Fit to this window");
    this.zoomButton = h("button", { type: "button", class: "quiet", onclick: () => this.changeZoom() }, "1:1");
    this.said = h("span", { class: "failed", role: "alert" });
    this.input = h("textarea", {
      class: "keys-in", "aria-label": `Type into ${name}; Ctrl+] leaves`, autocapitalize: "off", autocomplete: "off", autocorrect: "off",
      spellcheck: "false", tabindex: "-1",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.keydown(event),
      oninput: (/** @type {InputEvent} */ event) => this.typed(event),
      oncompositionend: () => this.flush(),
      onpaste: (/** @type {ClipboardEvent} */ event) => { event.preventDefault(); this.paste(event.clipboardData?.getData("text/plain") ?? ""); },
      onblur: () => this.show(), onfocus: () => this.show(),
    });
    this.view.element.append(this.input);
    this.view.element.addEventListener("click", () => {
      if (this.isTyping && getSelection()?.isCollapsed) this.input.focus({ preventScroll: true });
    });
    this.view.element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.target === this.view.element && event.key === "i" && !this.isTyping) { event.preventDefault(); this.begin(); }
    });
    this.keybar = this.makeKeybar();
    this.element = h("div", {},
      h("div", { class: "termbar" }, this.who, this.size, this.take, this.fitButton, this.zoomButton, this.said), this.view.element, this.keybar);
    this.observer = new ResizeObserver(() => this.scale());
    this.observer.observe(this.view.element);
    this.channel = subscribe({ what: "terminal", id }, (frame) => this.receive(frame));
  }

  makeKeybar() {
    const key = (/** @type {string} */ label, /** @type {string} */ name) =>
      h("button", { type: "button", onclick: () => { this.press(name); this.input.focus({ preventScroll: true }); } }, label);
    const hold = (/** @type {string} */ name) => {
      const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
        if (!this.held.delete(name)) this.held.add(name);
        button.setAttribute("aria-pressed", String(this.held.has(name)));
        this.input.focus({ preventScroll: true });
      } }, name);
      return button;
    };
    this.holds = [hold("Ctrl"), hold("Alt")];
    return h("div", { class: "keybar", role: "toolbar", "aria-label": "Keys" }, key("Esc", "Escape"), key("Tab", "Tab"), this.holds,
      key("↑", "Up"), key("↓", "Down"), key("←", "Left"), key("→", "Right"),
      h("button", { type: "button", onclick: async () => this.paste(await navigator.clipboard.readText()) }, "Paste"), key("⏎", "Enter"));
  }

  /** @param {any} frame */
  receive(frame) {
    if (frame.error) return this.refuse(frame.error);
    if (frame.gen === undefined) return;
    this.view.apply(frame);
    requestAnimationFrame(() => this.channel.send({ op: "seen", gen: frame.gen }));
    if (frame.size) {
      this.size.textContent = `${frame.size[0]}×${frame.size[1]}`;
      this.scale();
    }
    if (frame.cursor?.length) {
      this.input.style.top = this.view.cursor.style.top;
      this.input.style.left = this.view.cursor.style.left;
    }
    if (frame.writer) this.setWriter(frame.writer);
    if (frame.over) {
      this.over = frame.over;
      this.isTyping = false;
      this.show();
    }
  }

  /** @param {string} writer */
  setWriter(writer) {
    const had = this.isTyping;
    this.writer = writer;
    this.isTyping = writer === "you";
    if (this.isTyping && !had) { this.input.focus({ preventScroll: true }); say(`You type into ${this.name}. Control right bracket leaves.`); }
    if (!this.isTyping && had) say(`You do not have the keyboard of ${this.name} any more.`);
    this.show();
  }

  show() {
    const words = this.over ? `over: ${this.over}` : this.isTyping ? "typing" : this.writer === "other" ? "watching · somebody else types" : "watching";
    this.who.textContent = words;
    this.take.textContent = this.isTyping ? "Leave (Ctrl+])" : may("type") ? "Take the keyboard" : "🔒 Take the keyboard";
    this.take.disabled = Boolean(this.over);
    this.fitButton.hidden = !this.isTyping;
    this.input.tabIndex = this.isTyping ? 0 : -1;
    this.view.element.classList.toggle("typing", this.isTyping && document.activeElement === this.input);
    this.keybar.classList.toggle("on", this.isTyping);
    document.documentElement.classList.toggle("typingnow", this.isTyping);
  }

  /** @param {{message: string, code?: string}} error */
  refuse(error) {
    this.said.textContent = plain(error.message);
    if (error.code === "FORBIDDEN") dispatchEvent(new CustomEvent("ostler-ask", { detail: "type" }));
  }

  begin() {
    this.said.textContent = "";
    if (!may("type")) return dispatchEvent(new CustomEvent("ostler-ask", { detail: "type" }));
    this.channel.send({ op: "take" });
  }

  leave() {
    this.channel.send({ op: "release" });
    this.input.blur();
    this.take.focus();
  }

  fit() {
    const box = this.view.element.getBoundingClientRect();
    const probe = h("span", {}, "0".repeat(100));
    this.view.screen.append(probe);
    const cell = probe.getBoundingClientRect().width / 100 / this.view.scaled;
    probe.remove();
    const rows = Math.max(5, Math.floor((innerHeight - box.top - 48) / 17));
    this.channel.send({ op: "fit", cols: Math.max(20, Math.floor((box.width - 18) / cell)), rows });
  }

  changeZoom() {
    this.zoom = this.zoom === "fit" ? "1:1" : "fit";
    this.zoomButton.textContent = this.zoom === "fit" ? "1:1" : "Fit width";
    this.scale();
  }

  /** A watcher sees the writer's size. */
  scale() {
    this.view.fitWidth(this.zoom === "fit");
  }

  /** @param {KeyboardEvent} event */
  keydown(event) {
    event.stopPropagation();
    if (event.ctrlKey && event.key === "]") { event.preventDefault(); return this.leave(); }
    if (event.isComposing || event.key === "Process" || event.key === "Dead") return;
    // Copying and pasting are the browser's.
    if (event.ctrlKey && event.shiftKey && ["C", "V"].includes(event.key)) return;
    if (event.ctrlKey && event.key === "v") return;
    const name = keyName(event);
    if (!name) return;
    event.preventDefault();
    this.press(name);
  }

  /** @param {InputEvent} event */
  typed(event) {
    if (!event.isComposing) this.flush();
  }

  flush() {
    const text = this.input.value;
    this.input.value = "";
    if (!text) return;
    if (this.held.size && [...text].length === 1) return this.press(text);
    this.send({ op: "text", text: text.replace(/\n/g, "\r") });
  }

  /** @param {string} name */
  press(name) {
    const mods = [...this.held].map((mod) => `${mod}+`).join("");
    this.held.clear();
    this.holds?.forEach((button) => button.setAttribute("aria-pressed", "false"));
    this.send({ op: "keys", keys: [mods + name] });
  }

  /** In parts that fit a message; the program is asked for the brackets by the server, so one part is best. @param {string} text */
  paste(text) {
    if (text) this.send({ op: "paste", text });
  }

  /** @param {any} message */
  send(message) {
    this.channel.send({ ...message, n: ++this.sent });
  }

  close() {
    this.channel.close();
    this.observer.disconnect();
    this.view.close();
    document.documentElement.classList.remove("typingnow");
  }
}

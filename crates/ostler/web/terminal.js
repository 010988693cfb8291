// A terminal that can be watched, read and typed into: keys, text, paste and the mouse by their names.
import { get, may } from "./api.js";
import { h, lockIcon, say } from "./dom.js";
import { ScreenView } from "./screen.js";
import { link, subscribe } from "./socket.js";
import { plain, plural } from "./words.js";

/** Names of keys as `ostler send-keys` has them. @type {Record<string, string>} */
const KEYS = {
  ArrowUp: "Up", ArrowDown: "Down", ArrowLeft: "Left", ArrowRight: "Right", Enter: "Enter", Tab: "Tab", Escape: "Escape",
  Backspace: "Backspace", Delete: "Delete", Insert: "Insert", Home: "Home", End: "End", PageUp: "PageUp", PageDown: "PageDown",
};

/** How many new lines are read out in a second. */
const LINES_A_SECOND = 5;
const MOST_READ_LINES = 200;
/** What a message of the socket has room for. */
const MOST_PASTED = 1_040_000;
/** An input that is not acknowledged within this time is told of. */
const LATE_MS = 2000;

/** The name of a key that is not text. @param {KeyboardEvent} event @returns {string | null} */
export function keyName(event) {
  const named = KEYS[event.key] ?? (/^F\d+$/.test(event.key) ? event.key : null);
  const mods = (event.ctrlKey ? "Ctrl+" : "") + (event.altKey ? "Alt+" : "");
  if (named) return mods + (event.shiftKey ? "Shift+" : "") + named;
  if (mods && [...event.key].length === 1 && !event.metaKey) return mods + (event.key === " " ? "Space" : event.key);
  return null;
}

/** New lines as a log that a screen reader reads, while the screen itself stands still. */
class ReadLog {
  constructor() {
    this.lines = h("div", { class: "readlog", role: "log", "aria-label": "New lines", tabindex: "0" });
    /** @type {string[]} */
    this.queue = [];
    /** @type {Set<string>} */
    this.seen = new Set();
    this.timer = 0;
  }

  /** @param {string[]} rows */
  begin(rows) {
    this.seen = new Set(rows.map((row) => row.trimEnd()));
    this.queue = [];
    this.lines.replaceChildren();
  }

  /** @param {string[]} rows */
  note(rows) {
    for (const row of rows.map((one) => one.trimEnd())) if (row && !this.seen.has(row)) this.queue.push(row);
    this.seen = new Set(rows.map((row) => row.trimEnd()));
    // What nobody could listen to is not kept: the newest lines are read.
    this.queue = this.queue.slice(-MOST_READ_LINES);
    if (!this.timer) this.timer = setTimeout(() => this.say(), 1000 / LINES_A_SECOND);
  }

  say() {
    this.timer = 0;
    const line = this.queue.shift();
    if (line === undefined) return;
    this.lines.append(h("div", {}, plain(line)));
    while (this.lines.children.length > MOST_READ_LINES) this.lines.firstElementChild?.remove();
    this.timer = setTimeout(() => this.say(), 1000 / LINES_A_SECOND);
  }

  end() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.queue = [];
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
    /** Inputs of which the server has not said yet that they were typed. @type {Set<number>} */
    this.pending = new Set();
    this.lost = 0;
    this.late = 0;
    this.isTyping = false;
    this.zoom = "fit";
    this.mouse = "off";
    this.pointedAt = "";
    this.rolled = 0;
    this.isReading = false;
    this.log = new ReadLog();
    /** @type {Set<string>} */
    this.held = new Set();
    this.who = h("strong", { class: "who" }, "watching");
    this.size = h("span", { class: "muted num" });
    this.take = h("button", { type: "button", onclick: () => (this.isTyping ? this.leave() : this.begin()) });
    this.fitButton = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.fit() }, "Fit to this window");
    this.zoomButton = h("button", { type: "button", class: "quiet", onclick: () => this.changeZoom() }, "1:1");
    this.readButton = h("button", { type: "button", class: "quiet", "aria-pressed": "false", title: "The screen stands still; new lines are read out", onclick: () => this.changeReading() }, "Read mode");
    this.earlier = h("button", { type: "button", class: "quiet", onclick: () => this.loadScrollback() }, "Earlier lines");
    this.said = h("span", { class: "failed", role: "alert" });
    this.frozen = h("div", { class: "term frozen", role: "region", "aria-label": `Terminal ${name}, standing still`, tabindex: "0", hidden: true });
    this.history = h("pre", { class: "history", tabindex: "0", "aria-label": "Lines that scrolled away", hidden: true });
    this.input = this.makeInput();
    this.view.element.append(this.input);
    this.listen();
    this.keybar = this.makeKeybar();
    this.element = h("div", {},
      h("div", { class: "termbar" }, this.who, this.size, this.take, this.fitButton, this.zoomButton, this.readButton, this.earlier, this.said),
      this.history, this.view.element, this.frozen, this.keybar);
    this.log.lines.hidden = true;
    this.element.append(this.log.lines);
    this.observer = new ResizeObserver(() => this.scale());
    this.observer.observe(this.element);
    this.follow = () => this.followCursor();
    this.isFollowing = false;
    // The keyboard of a phone takes half of the window when it comes.
    addEventListener("resize", this.follow);
    this.channel = subscribe({ what: "terminal", id }, (frame) => this.receive(frame));
    this.linkChanged = () => { if (!link.isUp) this.loseInput(); };
    link.listeners.add(this.linkChanged);
  }

  makeInput() {
    return h("textarea", {
      class: "keys-in", "aria-label": `Type into ${this.name}; Ctrl+] leaves`, autocapitalize: "off", autocomplete: "off", autocorrect: "off",
      spellcheck: "false", tabindex: "-1",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.keydown(event),
      oninput: (/** @type {InputEvent} */ event) => this.typed(event),
      oncompositionend: () => this.flush(),
      onpaste: (/** @type {ClipboardEvent} */ event) => { event.preventDefault(); this.paste(event.clipboardData?.getData("text/plain") ?? ""); },
      onblur: () => this.show(), onfocus: () => this.show(),
    });
  }

  listen() {
    const element = this.view.element;
    element.addEventListener("click", () => {
      if (this.isTyping && getSelection()?.isCollapsed) this.input.focus({ preventScroll: true });
    });
    element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.target === element && event.key === "i" && !this.isTyping) { event.preventDefault(); this.begin(); }
    });
    for (const name of ["pointerdown", "pointermove", "pointerup"]) element.addEventListener(name, (/** @type {PointerEvent} */ event) => this.pointed(event));
    element.addEventListener("wheel", (/** @type {WheelEvent} */ event) => this.wheeled(event), { passive: false });
    element.addEventListener("contextmenu", (/** @type {MouseEvent} */ event) => { if (this.wantsMouse(event)) { event.preventDefault(); this.point("RightClick", event); } });
  }

  makeKeybar() {
    const key = (/** @type {string} */ label, /** @type {string} */ name) =>
      h("button", { type: "button", "aria-label": name, onclick: () => { this.press(name); this.input.focus({ preventScroll: true }); } }, label);
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
      h("button", { type: "button", onclick: async () => this.paste(await navigator.clipboard.readText().catch(() => { this.said.textContent = "The browser does not give the clipboard away."; return ""; })) }, "Paste"), key("⏎", "Enter"));
  }

  /** @param {any} frame */
  receive(frame) {
    if (frame.n || frame.typed) this.acknowledge(frame.n ?? frame.typed);
    if (frame.error) return this.refuse(frame.error);
    if (frame.gen === undefined) return;
    this.view.apply(frame);
    requestAnimationFrame(() => this.channel.send({ op: "seen", gen: frame.gen }));
    if (this.isReading && frame.rows) this.log.note(this.view.text());
    if (frame.size) {
      this.size.textContent = `${frame.size[0]}×${frame.size[1]}`;
      this.scale();
    }
    if (frame.mouse) {
      this.mouse = frame.mouse;
      this.show();
    }
    if (frame.cursor?.length) {
      this.input.style.top = this.view.cursor.style.top;
      this.input.style.left = this.view.cursor.style.left;
      if (this.isFollowing) this.followCursor();
      this.isFollowing = false;
    }
    if (frame.writer) {
      this.writerName = plain(frame.writerName ?? "");
      this.setWriter(frame.writer);
    }
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
    if (this.isTyping && !had) { this.input.focus({ preventScroll: true }); requestAnimationFrame(this.follow); say(`You type into ${this.name}. Control right bracket leaves.`); }
    if (!this.isTyping && had) say(`You do not have the keyboard of ${this.name} any more.`);
    this.show();
  }

  show() {
    const words = this.over ? `over: ${this.over}` : this.isTyping ? "typing" : this.writer === "other" ? `watching · ${this.writerName || "somebody else"} types` : "watching";
    this.who.textContent = words;
    this.who.classList.toggle("on", this.isTyping);
    this.take.replaceChildren(...(this.isTyping ? ["Leave (Ctrl+])"] : may("type") ? ["Take the keyboard"] : [lockIcon(), "Take the keyboard"]));
    this.take.disabled = Boolean(this.over);
    this.fitButton.hidden = !this.isTyping;
    this.input.tabIndex = this.isTyping ? 0 : -1;
    this.view.element.classList.toggle("typing", this.isTyping && document.activeElement === this.input);
    this.view.element.classList.toggle("mouse", this.isTyping && this.mouse !== "off");
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
    if (this.isReading) this.changeReading();
    if (!may("type")) return dispatchEvent(new CustomEvent("ostler-ask", { detail: "type" }));
    this.channel.send({ op: "take" });
  }

  leave() {
    this.channel.send({ op: "release" });
    this.input.blur();
    this.take.focus();
  }

  fit() {
    const box = this.element.getBoundingClientRect();
    const top = this.view.element.getBoundingClientRect().top;
    const rows = Math.max(5, Math.floor((innerHeight - top - 48) / 17));
    this.channel.send({ op: "fit", cols: Math.max(20, Math.floor((box.width - 18) / this.cellWidth())), rows });
  }

  cellWidth() {
    const probe = h("span", {}, "0".repeat(100));
    this.view.screen.append(probe);
    const cell = probe.getBoundingClientRect().width / 100 / this.view.scaled;
    probe.remove();
    return cell;
  }

  changeZoom() {
    this.zoom = this.zoom === "fit" ? "1:1" : "fit";
    this.zoomButton.textContent = this.zoom === "fit" ? "1:1" : "Fit width";
    this.scale();
  }

  /** A watcher sees the writer's size. */
  scale() {
    this.view.fitWidth(this.zoom === "fit", 0.4, this.element.clientWidth - 18);
  }

  /** The screen stands still and new lines are read out, or everything is live again. */
  changeReading() {
    this.isReading = !this.isReading;
    this.readButton.setAttribute("aria-pressed", String(this.isReading));
    this.frozen.hidden = this.log.lines.hidden = !this.isReading;
    this.view.element.hidden = this.isReading;
    if (!this.isReading) return this.log.end();
    const copy = this.view.screen.cloneNode(true);
    this.frozen.replaceChildren(copy);
    this.log.begin(this.view.text());
    this.frozen.focus();
  }

  async loadScrollback() {
    this.history.hidden = false;
    try {
      const told = await get(`/v1/terminals/${encodeURIComponent(this.id)}/scrollback?limit=1`);
      const from = Math.max(0, told.total - 2000);
      const lines = told.total ? (await get(`/v1/terminals/${encodeURIComponent(this.id)}/scrollback?from=${from}&limit=2000`)).lines : [];
      const cut = from ? `… ${from.toLocaleString("en")} lines before: ostler scrollback ${this.id} …\n` : "";
      this.history.textContent = lines.length ? cut + lines.map((/** @type {any} */ line) => plain(line.text)).join("\n") : "Nothing has scrolled away.";
      this.history.scrollTop = this.history.scrollHeight;
      this.history.focus({ preventScroll: true });
    } catch (error) {
      this.history.textContent = plain(/** @type {any} */ (error).message);
    }
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

  /** With Shift the mouse is the browser's, as in other terminals. @param {MouseEvent} event */
  wantsMouse(event) {
    return this.isTyping && this.mouse !== "off" && !event.shiftKey;
  }

  /** The cell under the mouse. @param {MouseEvent} event */
  cellOf(event) {
    const box = this.view.screen.getBoundingClientRect();
    const [cols, rows] = this.view.size;
    const cell = { col: Math.floor(((event.clientX - box.left) / box.width) * cols), row: Math.floor((event.clientY - box.top) / (17 * this.view.scaled)) };
    return { col: Math.max(0, Math.min(cols - 1, cell.col)), row: Math.max(0, Math.min(rows - 1, cell.row)) };
  }

  /** @param {string} what @param {MouseEvent} event */
  point(what, event) {
    const { col, row } = this.cellOf(event);
    const name = `${event.ctrlKey ? "Ctrl+" : ""}${event.altKey ? "Alt+" : ""}${what}@${col},${row}`;
    if (name === this.pointedAt && (what === "Drag" || what === "Move")) return;
    this.pointedAt = name;
    this.send({ op: "keys", keys: [name] });
  }

  /** @param {PointerEvent} event */
  pointed(event) {
    if (!this.wantsMouse(event) || event.pointerType === "touch") return;
    if (event.type === "pointermove") {
      if (event.buttons & 1 && ["drag", "motion"].includes(this.mouse)) this.point("Drag", event);
      else if (!event.buttons && this.mouse === "motion") this.point("Move", event);
      return;
    }
    if (event.button > 1) return;
    event.preventDefault();
    if (event.button === 1) return event.type === "pointerdown" ? this.point("MiddleClick", event) : undefined;
    if (event.type === "pointerdown") {
      this.view.element.setPointerCapture(event.pointerId);
      this.input.focus({ preventScroll: true });
      this.point("Press", event);
    } else if (this.mouse !== "press") this.point("Release", event);
  }

  /** @param {WheelEvent} event */
  wheeled(event) {
    if (!this.wantsMouse(event) || !event.deltaY) return;
    event.preventDefault();
    // A wheel that tells pixels is a step for each row.
    this.rolled += (event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? event.deltaY / 34 : event.deltaY);
    const steps = Math.trunc(this.rolled);
    this.rolled -= steps;
    for (let step = 0; step < Math.min(8, Math.abs(steps)); step++) this.point(steps > 0 ? "WheelDown" : "WheelUp", event);
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

  /** In one part: the server asks the program for brackets, and puts them round the whole. @param {string} text */
  paste(text) {
    if (new Blob([JSON.stringify(text)]).size > MOST_PASTED) this.said.textContent = "More than a megabyte cannot be pasted at once; nothing was typed.";
    else if (text) this.send({ op: "paste", text });
  }

  /** Whoever types sees where: what came by itself moves nothing. */
  followCursor() {
    if (!this.isTyping || this.view.cursor.hidden) return;
    const [cursor, keys] = [this.view.cursor.getBoundingClientRect(), this.keybar.getBoundingClientRect()];
    const above = document.getElementById("bar")?.getBoundingClientRect().bottom ?? 0;
    const below = keys.height ? Math.min(keys.top, innerHeight) : innerHeight;
    if (cursor.bottom + 8 > below) scrollBy(0, cursor.bottom + 8 - below);
    else if (cursor.top - 8 < above) scrollBy(0, cursor.top - 8 - above);
    const box = this.view.element.getBoundingClientRect();
    if (cursor.right + 8 > box.right) this.view.element.scrollLeft += cursor.right + 8 - box.right;
    else if (cursor.left - 8 < box.left) this.view.element.scrollLeft += cursor.left - 8 - box.left;
  }

  /** @param {any} message */
  send(message) {
    this.isFollowing = true;
    if (!this.channel.send({ ...message, n: ++this.sent })) return this.sayLost("Not connected: nothing was typed.");
    this.pending.add(this.sent);
    this.lost = 0;
    this.said.textContent = "";
    if (!this.late) this.late = setTimeout(() => this.tellLate(), LATE_MS);
  }

  /** The server has typed it, or said why not. @param {number} n */
  acknowledge(n) {
    const wasLate = !this.late && this.pending.size > 0;
    for (const one of this.pending) if (one <= n) this.pending.delete(one);
    if (this.pending.size) return wasLate ? this.tellLate() : undefined;
    clearTimeout(this.late);
    this.late = 0;
    if (wasLate) this.said.textContent = "";
  }

  tellLate() {
    this.late = 0;
    if (this.pending.size) this.said.textContent = `${plural(this.pending.size, "input")} not confirmed yet.`;
  }

  /** What was under way when the connection was lost may have been typed or not, and is not typed again. */
  loseInput() {
    clearTimeout(this.late);
    this.late = 0;
    this.lost += this.pending.size;
    this.pending.clear();
    if (this.lost) this.sayLost("The connection was lost.");
  }

  /** @param {string} text */
  sayLost(text) {
    this.said.textContent = this.lost ? `${text} ${plural(this.lost, "input")} before that may not have arrived: look at the screen.` : text;
  }

  close() {
    clearTimeout(this.late);
    link.listeners.delete(this.linkChanged);
    this.channel.close();
    this.observer.disconnect();
    removeEventListener("resize", this.follow);
    this.log.end();
    this.view.close();
    document.documentElement.classList.remove("typingnow");
  }
}

// The overview: who needs you, in cards with live screens; everybody else in rows.
import { call, get, may } from "./api.js";
import { MOST_ROWS, go, live, waiting } from "./app.js";
import { failure, h, lockIcon, say } from "./dom.js";
import { Thumbnail } from "./screen.js";
import { GROUPS, STATES, age, costOf, count, doingOf, fullTime, groupOf, nameOf, oneLine, pathOf, plural, projectOf, terminalOf, tokenSum } from "./words.js";

/** @typedef {import("./words.js").Row} Row */

/** How many cards have a live screen; the others name their question. */
const MOST_SCREENS = 6;
/** How many rows of a list are in the page at once. */
const WINDOW = 80;
/** How many rows of a group are shown, and how many more when more are asked for. */
const GROUP_ROWS = 120;
/** Nothing moves within this time after a key or a click. */
const HAND_MS = 400;
const ANSWERS = ["1", "2", "3", "Enter", "Escape"];

/** State as glyph, word and colour. @param {string} group @param {boolean} [withWord] */
export function state(group, withWord = true) {
  const [glyph, word, colour] = STATES[group] ?? STATES.unknown;
  return h("span", { class: `state ${colour}` }, h("i", { "aria-hidden": withWord ? "true" : null, role: withWord ? null : "img", "aria-label": withWord ? null : word }, glyph), withWord ? word : null);
}

/** A row of a list of sessions. @param {Row} row */
export function sessionRow(row) {
  const tokens = tokenSum(row.tokens);
  return h("a", { class: "srow", href: pathOf(row), "data-key": row.key },
    state(row.group, false), h("span", { class: "name cut" }, nameOf(row), row.activityDerived ? h("span", { class: "muted", title: "derived, not proven" }, "~") : null),
    h("span", { class: "meta muted cut" }, [row.agent, projectOf(row)].filter(Boolean).join(" · ")),
    h("span", { class: `what cut ${row.stale ? "" : "muted"}`, title: oneLine(row.title) }, doingOf(row)),
    h("time", { class: "num right muted", datetime: row.lastActivityAt, title: fullTime(row.lastActivityAt) }, age(row.lastActivityAt)),
    h("span", { class: "tokens num right muted" }, tokens ? count(tokens) : ""));
}

/** When each session was last looked at: the surface's own, so that a turn which ended since is *done*. One that was never
 * looked at counts from when this browser first showed the page. */
export const looked = {
  key: "ostler.looked",
  begun: "",
  /** Whether its turn ended since. @param {Row} row @param {Record<string, string>} all */
  isDone(row, all) {
    if (!this.begun) localStorage.setItem("ostler.begun", this.begun = localStorage.getItem("ostler.begun") ?? new Date().toISOString());
    return row.group === "idle" && Date.parse(row.lastActivityAt ?? "") > Date.parse(all[row.key] ?? this.begun);
  },
  all() { try { return JSON.parse(localStorage.getItem(this.key) ?? "{}"); } catch { return {}; } },
  /** @param {string} key */
  note(key) { const all = this.all(); delete all[key]; all[key] = new Date().toISOString(); localStorage.setItem(this.key, JSON.stringify(Object.fromEntries(Object.entries(all).slice(-500)))); },
};

/** Presses an answer's key in a terminal, without taking anybody's keyboard. @param {string} terminal @param {string} key @param {(error: any) => void} fail */
function pressAnswer(terminal, key, fail) {
  if (!may("type")) return void dispatchEvent(new CustomEvent("ostler-ask", { detail: "type" }));
  call("POST", `/v1/terminals/${encodeURIComponent(terminal)}/keys`, { keys: [key] }).then(() => say(`Pressed ${key}.`), fail);
}

/** Buttons for the keys that answer what is on a screen. @param {string} terminal @param {string} name @param {(error: any) => void} fail */
export function answerKeys(terminal, name, fail) {
  return ANSWERS.map((key) => h("button", { type: "button", class: "key", "aria-label": `Press ${key} in ${name}`, onclick: () => pressAnswer(terminal, key, fail) },
    may("type") ? null : lockIcon(), key === "Escape" ? "Esc" : key));
}

/** A box whose text is typed into a terminal that asks. Enter is not: only a person who sees the text where it belongs presses it.
 * @param {string} terminal @param {string} name @param {(error: any) => void} fail */
function typeBox(terminal, name, fail) {
  const box = h("input", { class: "grow", placeholder: "type an answer", "aria-label": `Type an answer into ${name}`, autocomplete: "off" });
  const send = async () => {
    const text = box.value;
    if (!text) return;
    if (!may("type")) return dispatchEvent(new CustomEvent("ostler-ask", { detail: "type" }));
    box.value = "";
    await call("POST", `/v1/terminals/${encodeURIComponent(terminal)}/type`, { text }).then(() => say("Typed. Enter sends it."), (error) => { box.value ||= text; fail(error); });
  };
  return h("form", { class: "line", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); send(); } }, box, h("button", {}, may("type") ? null : lockIcon(), "Type"));
}

/** Rows by key: those that did not change stay as they are, with focus and selection. */
class RowList {
  constructor() {
    this.element = h("ul", { class: "rows" });
    /** @type {Map<string, {item: HTMLElement, row: Row, age: string}>} */
    this.kept = new Map();
  }

  /** @param {Row[]} rows */
  show(rows) {
    const keys = new Set(rows.map((row) => row.key));
    for (const [key, one] of this.kept) if (!keys.has(key)) { one.item.remove(); this.kept.delete(key); }
    let next = this.element.firstElementChild;
    for (const row of rows) {
      let one = this.kept.get(row.key);
      const now = age(row.lastActivityAt);
      if (!one) {
        one = { item: h("li", {}, sessionRow(row)), row, age: now };
        this.kept.set(row.key, one);
      } else if (one.row !== row || one.age !== now) this.renew(one, row, now);
      if (live.changed.has(row.key)) one.item.firstElementChild?.classList.add("changed");
      if (one.item === next) next = next.nextElementSibling;
      else this.element.insertBefore(one.item, next);
    }
  }

  /** @param {{item: HTMLElement, row: Row, age: string}} one @param {Row} row @param {string} now */
  renew(one, row, now) {
    const had = one.item.contains(document.activeElement);
    const made = sessionRow(row);
    one.item.replaceChildren(made);
    [one.row, one.age] = [row, now];
    if (had) made.focus({ preventScroll: true });
  }
}

/** Ended sessions: pages of the server, of which only those round the window are in the document. */
class EndedList {
  constructor() {
    this.list = new RowList();
    this.above = h("div", {});
    this.below = h("div", {});
    this.element = h("div", { class: "endless" }, this.above, this.list.element, this.below);
    /** @type {Row[]} */
    this.rows = [];
    /** @type {string | undefined} */
    this.after = undefined;
    this.total = 0;
    this.isBusy = false;
    this.place = () => requestAnimationFrame(() => this.draw());
  }

  /** @param {string} filter */
  async begin(filter) {
    this.filter = filter;
    this.rows = [];
    this.after = undefined;
    await this.more();
    addEventListener("scroll", this.place, { passive: true });
  }

  async more() {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      const parts = new URLSearchParams({ all: "true", group: "ended", limit: "200" });
      if (this.filter) parts.set("filter", this.filter);
      if (this.after) parts.set("after", this.after);
      const told = await get(`/v1/sessions?${parts}`);
      this.rows = [...this.rows, ...told.sessions.map((/** @type {any} */ one) => ({ ...one, key: `${one.agent}:${one.id}`, group: "ended" }))];
      this.after = told.after;
      this.total = told.groups?.find((/** @type {any} */ one) => one.group === "ended")?.count ?? this.rows.length;
    } finally {
      this.isBusy = false;
    }
    this.draw();
  }

  draw() {
    if (!this.element.isConnected) return;
    const tall = /** @type {HTMLElement | null} */ (this.list.element.firstElementChild)?.offsetHeight || 40;
    const top = this.above.getBoundingClientRect().top;
    const first = Math.max(0, Math.min(this.rows.length - WINDOW, Math.floor(-top / tall) - 20));
    this.list.show(this.rows.slice(first, first + WINDOW));
    this.above.style.height = `${first * tall}px`;
    this.below.style.height = `${Math.max(0, this.rows.length - first - WINDOW) * tall}px`;
    if (this.after && -top / tall + innerHeight / tall > this.rows.length - WINDOW) this.more();
  }

  close() {
    removeEventListener("scroll", this.place);
  }
}

/** The overview while it is shown. */
class Overview {
  constructor() {
    this.heading = h("h1", {}, "ostler");
    this.today = h("span", { class: "num muted" });
    this.cards = h("div", { class: "cards" });
    this.notices = h("div", {});
    this.groups = h("div", {});
    this.filter = h("input", { class: "filter", type: "search", placeholder: "filter: is:working agent:codex", "aria-label": "Filter sessions", value: live.filter, oninput: () => this.filterTyped() });
    this.wrong = h("p", { class: "failed wrong", role: "alert", hidden: true });
    this.element = h("div", {}, h("div", { class: "head" }, this.heading, this.today), this.notices, this.cards, this.filter, this.wrong, this.groups);
    this.folded = new Set(["idle", "unknown"]);
    /** @type {Map<string, {element: HTMLElement, row: Row, screen?: Thumbnail, ask: HTMLElement, when: HTMLElement, keys: HTMLElement, right: string}>} */
    this.shown = new Map();
    /** @type {Map<string, {section: HTMLElement, head: HTMLElement, list: RowList, more: HTMLButtonElement, most: number}>} */
    this.sections = new Map();
    this.folds = h("div", { class: "folds" });
    /** @type {EndedList | null} */
    this.ended = null;
    this.endedCount = -1;
    /** @type {Row[]} */
    this.newest = [];
    this.noticed = "";
    this.typing = 0;
    this.waits = 0;
    this.hand = 0;
    this.touched = (/** @type {Event} */ event) => { if (event.isTrusted) this.hand = performance.now(); };
    for (const name of ["keydown", "pointerdown"]) document.addEventListener(name, this.touched, { capture: true, passive: true });
    this.askAround();
  }

  /** What is not live: today's sum, and how many are over. */
  askAround() {
    get("/v1/usage?by=day&since=1d").then((usage) => {
      const last = usage.groups[usage.groups.length - 1];
      if (last) this.today.textContent = [`today ${last.statedMicroUsd === undefined ? "" : costOf({ statedMicroUsd: last.statedMicroUsd })}`.trim(), `${count(tokenSum(last.tokens))} tokens`].join(" · ");
    }, () => {});
    get("/v1/sessions?all=true&group=ended&limit=3").then((told) => {
      this.endedCount = told.groups?.find((/** @type {any} */ one) => one.group === "ended")?.count ?? 0;
      this.newest = told.sessions.map((/** @type {any} */ one) => ({ ...one, key: `${one.agent}:${one.id}`, group: groupOf(one) }));
      this.drawGroups();
    }, () => {});
    get("/v1/adapters").then((told) => { this.adapters = told.adapters; this.drawGroups(); }, () => {});
  }

  filterTyped() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => {
      live.setFilter(this.filter.value);
      this.ended?.begin(this.filter.value).then(() => this.drawGroups(), (error) => this.wrongFilter(error));
    }, 150);
  }

  /** The place under the filter says what is wrong with it, in the same words whoever was asked first. @param {any} error */
  wrongFilter(error) {
    this.wrong.hidden = false;
    this.wrong.textContent = live.error || error.message;
  }

  /** @param {Row} row */
  makeCard(row) {
    const terminal = terminalOf(row);
    const screens = [...this.shown.values()].filter((one) => one.screen).length;
    const screen = terminal && screens < MOST_SCREENS ? new Thumbnail(terminal, nameOf(row)) : undefined;
    const ask = h("p", { class: "ask" });
    const when = h("time", { class: "num muted", datetime: row.lastActivityAt, title: fullTime(row.lastActivityAt) });
    const keys = h("div", { class: "keys" });
    const card = h("article", { class: "card", "data-key": row.key, "aria-label": `${nameOf(row)} needs you` },
      h("div", { class: "top" }, state("needsYou", false), h("a", { class: "cut", href: pathOf(row) }, nameOf(row)),
        h("span", { class: "muted cut grow" }, [row.agent, projectOf(row)].filter(Boolean).join(" · ")), when), ask, screen?.element, keys);
    return { element: card, row, screen, ask, when, keys, right: "" };
  }

  /** @param {any} card */
  drawKeys(card) {
    const right = may("type") ? "type" : "watch";
    if (card.right === right) return;
    card.right = right;
    const terminal = card.screen && terminalOf(card.row);
    const fail = (/** @type {any} */ error) => card.ask.replaceChildren(failure(error));
    card.keys.replaceChildren(...(terminal ? [typeBox(terminal, nameOf(card.row), fail), ...answerKeys(terminal, nameOf(card.row), fail)] : []),
      h("span", { class: "links" }, h("a", { href: `${pathOf(card.row)}${terminal ? "#terminal" : ""}` }, "open"), h("a", { href: `${pathOf(card.row)}#facts` }, "why")));
  }

  drawCards() {
    const rows = waiting();
    const keep = new Set(rows.map((row) => row.key));
    for (const [key, card] of this.shown) {
      if (keep.has(key)) continue;
      card.screen?.close();
      card.element.remove();
      this.shown.delete(key);
    }
    rows.forEach((row, at) => {
      let card = this.shown.get(row.key);
      if (!card) {
        card = this.makeCard(row);
        this.shown.set(row.key, card);
      }
      if (card.row !== row || !card.ask.textContent) card.ask.textContent = row.status === "failed" ? "It failed." : doingOf(row);
      card.row = row;
      card.when.textContent = age(row.lastActivityAt);
      this.drawKeys(card);
      if (this.cards.children[at] !== card.element) this.cards.insertBefore(card.element, this.cards.children[at] ?? null);
    });
    this.cards.hidden = rows.length === 0;
    const [glyph] = STATES.needsYou;
    this.heading.replaceChildren(...(rows.length ? [h("span", { class: "needsYou", "aria-hidden": "true" }, `${glyph} `), `${rows.length} need${rows.length === 1 ? "s" : ""} you`] : ["Nobody needs you"]));
  }

  /** @returns {Record<string, Row[]>} */
  rowsByGroup() {
    const seen = looked.all();
    /** @type {Record<string, Row[]>} */
    const by = {};
    for (const key of live.fits ?? live.order) {
      const row = live.rows.get(key);
      if (!row || row.group === "needsYou") continue;
      (by[looked.isDone(row, seen) ? "done" : row.group] ??= []).push(row);
    }
    return by;
  }

  /** @param {string} group @param {number} number @param {string} more @param {boolean} isOpen */
  groupHead(group, number, more, isOpen) {
    const [glyph, word, colour] = STATES[group];
    return [h("span", { class: colour, "aria-hidden": "true" }, glyph), ` ${number < 0 ? "" : `${number.toLocaleString("en")} `}${word}${more} `, h("span", { "aria-hidden": "true" }, isOpen ? "▾" : "▸")];
  }

  drawGroups() {
    const by = this.rowsByGroup();
    const all = (live.fits ? live.aboutFits : live.about)?.groups ?? [];
    const folds = [];
    for (const group of GROUPS) {
      if (group === "needsYou") continue;
      const rows = by[group] ?? [];
      const isEnded = group === "ended";
      // Rows beyond those of the window are counted by the server.
      const told = all.find((/** @type {any} */ one) => one.group === group)?.count ?? 0;
      const number = isEnded ? (this.ended ? this.ended.total : this.endedCount) : group === "idle" ? Math.max(rows.length, told - (by.done?.length ?? 0)) : Math.max(rows.length, told);
      const isOpen = isEnded ? Boolean(this.ended) : !this.folded.has(group) && number > 0;
      if (!isOpen) {
        this.sections.get(group)?.section.remove();
        if (number > 0 || (isEnded && number < 0)) folds.push(this.foldButton(group, number, group === "unknown" && rows[0] ? `: ${oneLine(rows[0].liveness.reason)}` : "", false));
        continue;
      }
      this.drawSection(group, number, rows);
    }
    this.folds.replaceChildren(...folds);
    const empty = !(live.fits ?? live.order).length && live.about && !this.ended ? [this.empty()] : [];
    this.groups.querySelector(":scope > .empty")?.remove();
    this.groups.prepend(...empty);
    this.groups.append(this.folds);
    live.changed.clear();
  }

  /** @param {string} group @param {number} number @param {Row[]} rows */
  drawSection(group, number, rows) {
    let one = this.sections.get(group);
    if (!one) {
      const head = h("h2", { class: "grouphead" });
      const list = new RowList();
      const more = h("button", { type: "button", class: "quiet", onclick: () => this.showMore(group) });
      one = { head, list, more, most: GROUP_ROWS, section: h("section", { class: "group", "aria-label": STATES[group][1] }, head, group === "ended" ? this.ended?.element : [list.element, more]) };
      this.sections.set(group, one);
    }
    const text = `${number}`;
    if (one.head.dataset.shown !== text) {
      one.head.dataset.shown = text;
      const had = one.head.contains(document.activeElement);
      const button = this.foldButton(group, number, "", true);
      one.head.replaceChildren(button);
      if (had) button.focus({ preventScroll: true });
    }
    if (group === "ended") {
      const ended = this.ended;
      if (ended && ended.element.parentElement !== one.section) one.section.append(ended.element);
    } else {
      one.list.show(rows.slice(0, one.most));
      const left = number - Math.min(rows.length, one.most);
      one.more.hidden = left <= 0;
      one.more.disabled = rows.length <= one.most && live.window >= MOST_ROWS;
      one.more.textContent = one.more.disabled ? `${left.toLocaleString("en")} more: the filter finds them` : `Show more: ${left.toLocaleString("en")} are left`;
    }
    // Sections stand in the order of the groups.
    const before = GROUPS.slice(GROUPS.indexOf(group) + 1).map((other) => this.sections.get(other)?.section).find((other) => other?.isConnected);
    if (!one.section.isConnected) this.groups.insertBefore(one.section, before ?? (this.folds.isConnected ? this.folds : null));
    if (group === "ended") this.ended?.draw();
  }

  /** Further rows of a group: those that are here, then those that the server has. @param {string} group */
  showMore(group) {
    const one = this.sections.get(group);
    if (!one) return;
    one.most += GROUP_ROWS;
    if ((this.rowsByGroup()[group]?.length ?? 0) < Math.min(one.most, Number(one.head.dataset.shown))) live.more();
    this.drawGroups();
  }

  /** @param {string} group @param {number} number @param {string} more @param {boolean} isOpen */
  foldButton(group, number, more, isOpen) {
    return h("button", { type: "button", class: "quiet", "aria-expanded": String(isOpen), "data-key": `group ${group}`, onclick: () => this.toggle(group) }, this.groupHead(group, number, more, isOpen));
  }

  empty() {
    if (live.filter) return h("div", { class: "empty" }, h("p", { class: "big" }, "Nothing that runs fits the filter."));
    const found = this.adapters?.filter((/** @type {any} */ one) => one.found > 0).length;
    if (this.adapters && !found && !this.newest.length) {
      return h("div", { class: "empty" }, h("p", { class: "big" }, "No agent was found on this machine."), h("p", {}, "These places were looked at:"),
        h("ul", { class: "roots" }, this.adapters.flatMap((/** @type {any} */ one) => one.roots.map((/** @type {string} */ root) => h("li", {}, h("b", {}, oneLine(one.name)), " ", h("code", {}, oneLine(root)), h("span", { class: "muted" }, one.present ? " empty" : " not there"))))));
    }
    const command = "ostler create --agent claude-code";
    return h("div", { class: "empty" }, h("p", { class: "big" }, "All quiet. Nothing is running."), h("p", {}, h("code", {}, command), " ",
      h("button", { type: "button", class: "quiet", onclick: () => navigator.clipboard.writeText(command).then(() => say("Copied."), () => say("The browser does not allow copying.")) }, "copy")),
    this.newest.length ? h("ul", { class: "rows", "aria-label": "Newest that ended" }, this.newest.map((row) => h("li", {}, sessionRow(row)))) : null);
  }

  /** @param {string} group */
  async toggle(group) {
    if (group === "ended") {
      if (this.ended) {
        this.ended.close();
        this.ended.element.remove();
        this.ended = null;
        this.sections.delete("ended");
        this.groups.querySelector("section[aria-label=ended]")?.remove();
      } else {
        const ended = new EndedList();
        try {
          await ended.begin(live.filter);
          this.ended = ended;
        } catch (error) {
          this.notices.replaceChildren(failure(/** @type {any} */ (error)));
        }
      }
    } else if (!this.folded.delete(group)) this.folded.add(group);
    this.drawGroups();
    /** @type {HTMLElement | null} */ (this.groups.querySelector(`[data-key="group ${group}"]`))?.focus({ preventScroll: true });
  }

  drawNotices() {
    const incomplete = live.about?.incomplete ?? [];
    this.wrong.hidden = !live.error;
    this.wrong.textContent = live.error;
    const parts = [];
    if (incomplete.length) {
      parts.push(h("details", { class: "notice" }, h("summary", {}, `${plural(incomplete.length, "source")} could not be read`),
        h("ul", {}, incomplete.slice(0, 20).map((/** @type {any} */ one) => h("li", {}, `${one.source}: ${oneLine(one.path ?? "")} ${oneLine(one.reason)}`)))));
    }
    if (live.hooksMissing && localStorage.getItem("ostler.hooks-note") !== "seen") {
      parts.push(h("p", { class: "notice line" }, h("span", { class: "grow" }, "Turns are inferred. ", h("code", {}, "ostler hooks install"), " makes them exact."),
        h("button", { type: "button", class: "quiet", onclick: () => { localStorage.setItem("ostler.hooks-note", "seen"); this.drawNotices(); } }, "dismiss")));
    }
    const text = parts.map((part) => part.textContent).join();
    if (this.noticed === text) return;
    this.noticed = text;
    this.notices.replaceChildren(...parts);
  }

  /** @param {number} step */
  move(step) {
    const all = [.../** @type {NodeListOf<HTMLElement>} */ (this.element.querySelectorAll(".card[data-key] .top a, .srow"))];
    if (!all.length) return;
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    all[Math.max(0, Math.min(all.length - 1, at + step))].focus();
  }

  /** Draws what changed; what would move rows waits until the hand is still, and the focused row keeps its place. */
  update() {
    this.drawNotices();
    clearTimeout(this.waits);
    const rest = HAND_MS - (performance.now() - this.hand);
    if (rest > 0 && this.hand && this.groups.firstElementChild) this.waits = setTimeout(() => this.settle(), rest);
    else this.settle();
  }

  settle() {
    const held = document.activeElement?.closest(".srow, .card") ? document.activeElement : null;
    const key = /** @type {HTMLElement | null} */ (held?.closest("[data-key]"))?.dataset.key;
    const before = held?.getBoundingClientRect().top ?? 0;
    this.drawCards();
    this.drawGroups();
    const now = key ? this.element.querySelector(`[data-key="${CSS.escape(key)}"]`) : null;
    // What has the focus and is still there keeps it; else its row has.
    const after = held && now?.contains(held) ? held : now?.matches(".card") ? now.querySelector(".top a") : now;
    if (after && document.activeElement !== after) /** @type {HTMLElement} */ (after).focus({ preventScroll: true });
    if (after && held) scrollBy(0, after.getBoundingClientRect().top - before);
  }

  close() {
    clearTimeout(this.typing);
    clearTimeout(this.waits);
    if (live.filter) live.setFilter("");
    this.ended?.close();
    for (const name of ["keydown", "pointerdown"]) document.removeEventListener(name, this.touched, { capture: true });
    for (const card of this.shown.values()) card.screen?.close();
  }
}

/** @returns {import("./app.js").Page} */
export function overviewPage() {
  const page = new Overview();
  return {
    element: page.element,
    title: "ostler",
    update: () => page.update(),
    keydown(event) {
      if (event.key === "j" || event.key === "ArrowDown") { event.preventDefault(); page.move(1); }
      else if (event.key === "k" || event.key === "ArrowUp") { event.preventDefault(); page.move(-1); }
      else if (event.key === "w" && document.activeElement instanceof HTMLAnchorElement) go(`${document.activeElement.getAttribute("href")?.split("#")[0]}#facts`);
    },
    close: () => page.close(),
  };
}

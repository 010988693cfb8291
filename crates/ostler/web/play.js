// A recording: the live renderer fed from the log. Pauses are at most two seconds long.
import { get, getLines, sessionPath } from "./api.js";
import { live } from "./app.js";
import { failure, h } from "./dom.js";
import { ScreenView } from "./screen.js";
import { groupOf, nameOf, oneLine, pathOf, plain, plural, terminalOf } from "./words.js";

const LONGEST_PAUSE = 2000;
/** A copy of the rows is kept every so many frames, so that going back is quick. */
const KEPT_EVERY = 200;
/** What one page keeps of a recording. */
const MOST_FRAMES = 50_000;
const SPEEDS = [0.5, 1, 2, 4, 8];

/** @typedef {{t: number, size?: number[], css?: string[], rows?: [number, any][], cursor?: number[], mark?: string}} Frame */

/** What is on the screen after each frame, without drawing the ones between. */
class Film {
  constructor() {
    /** @type {Frame[]} */
    this.frames = [];
    /** @type {{size: number[], rows: any[], css: number}[]} */
    this.kept = [];
    /** @type {string[]} */
    this.css = [];
    this.state = { size: [80, 24], rows: /** @type {any[]} */ ([]), css: 0 };
  }

  /** @param {Frame} frame */
  add(frame) {
    this.css.push(...(frame.css ?? []));
    this.step(this.state, frame);
    if (this.frames.length % KEPT_EVERY === 0) this.kept.push({ ...this.state, rows: [...this.state.rows] });
    this.frames.push(frame);
  }

  /** @param {{size: number[], rows: any[], css: number}} state @param {Frame} frame */
  step(state, frame) {
    if (frame.size) { state.size = frame.size; state.rows = []; }
    for (const [at, runs] of frame.rows ?? []) state.rows[at] = runs;
    state.css += frame.css?.length ?? 0;
  }

  /** @param {number} index */
  at(index) {
    const from = Math.min(this.kept.length - 1, Math.floor(index / KEPT_EVERY));
    const state = { ...this.kept[from], rows: [...this.kept[from].rows] };
    for (let at = from * KEPT_EVERY + 1; at <= index; at++) this.step(state, this.frames[at]);
    return state;
  }

  end() {
    return this.frames[this.frames.length - 1]?.t ?? 0;
  }

  /** The last frame that is not after a moment. @param {number} t */
  indexAt(t) {
    let low = 0, high = this.frames.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.frames[middle].t <= t) low = middle; else high = middle - 1;
    }
    return low;
  }

  /** Moments at which some text came onto the screen. @param {string} text */
  find(text) {
    const wanted = text.toLowerCase();
    const found = [];
    for (const frame of this.frames) {
      const row = frame.rows?.find(([, runs]) => runs.map((/** @type {any} */ run) => run[0]).join("").toLowerCase().includes(wanted));
      if (row) found.push({ t: frame.t, text: row[1].map((/** @type {any} */ run) => run[0]).join("").trim() });
      if (found.length === 100) break;
    }
    return found;
  }
}

/** @param {number} t */
const stamp = (t) => `${Math.floor(t / 60_000)}:${String(Math.floor((t / 1000) % 60)).padStart(2, "0")}.${Math.floor((t % 1000) / 100)}`;

/** @param {string} key @returns {Promise<import("./app.js").Page>} */
export async function playPage(key) {
  const { session } = await get(sessionPath(key));
  const terminal = terminalOf(session);
  const row = live.rows.get(key) ?? { ...session, key, group: groupOf(session), terminalName: session.linked?.find((/** @type {any} */ one) => one.agent === "terminal")?.name };
  const name = nameOf(row);
  const film = new Film();
  const view = new ScreenView(name);
  view.element.setAttribute("aria-label", `Recording of ${name}`);
  const play = h("button", { type: "button", class: "primary", onclick: () => (timer ? stop() : start()) }, "Play");
  const seek = h("input", { type: "range", min: "0", max: "0", step: "1", value: "0", class: "seek", "aria-label": "Place in the recording", oninput: () => { stop(); show(film.indexAt(Number(seek.value))); } });
  const time = h("span", { class: "num muted" });
  const speed = h("select", { "aria-label": "Speed" }, SPEEDS.map((one) => h("option", { value: one, selected: one === 1 }, `${one}×`)));
  const marks = h("div", { class: "marks" });
  const told = h("p", { class: "muted told", role: "status" }, "Reading …");
  const found = h("div", {});
  const search = h("input", { type: "search", placeholder: "find in the output", "aria-label": "Find in the output", onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") find(); } });
  const element = h("div", {}, h("a", { class: "back", href: `${pathOf(row)}#terminal` }, `← ${name}`), h("h1", { class: "head" }, `Recording of ${name}`), told, view.element,
    h("div", { class: "player" }, play, seek, time, speed), marks, h("div", { class: "toolbar" }, search, h("button", { type: "button", onclick: find }, "Find"), h("span", { class: "muted" }, "Share it: "), h("code", {}, `ostler record export ${terminal ?? ""} --format html`)), found);
  let now = 0, styled = 0, timer = 0;
  const gone = new AbortController();
  const fit = () => view.fitWidth(true, 0.4, (element.clientWidth || innerWidth) - 18);
  const observer = new ResizeObserver(fit);
  observer.observe(element);

  /** @param {number} index */
  function show(index) {
    if (!film.frames.length) return;
    const frame = film.frames[index];
    const cursor = frame.cursor ?? [];
    if (index === now + 1 && !frame.size) {
      view.apply({ ...frame, css: film.css.slice(styled, styled += frame.css?.length ?? 0), cursor });
    } else {
      const state = film.at(index);
      view.forgetStyles();
      view.apply({ size: state.size, css: film.css.slice(0, state.css), rows: state.rows.map((runs, at) => [at, runs]).filter(([, runs]) => runs), cursor });
      styled = state.css;
    }
    now = index;
    seek.value = String(frame.t);
    time.textContent = `${stamp(frame.t)} / ${stamp(film.end())}`;
    fit();
  }

  function stop() {
    clearTimeout(timer);
    timer = 0;
    play.textContent = "Play";
  }

  function start() {
    if (now >= film.frames.length - 1) show(0);
    play.textContent = "Pause";
    next();
  }

  function next() {
    if (now + 1 >= film.frames.length) return stop();
    const wait = Math.min(film.frames[now + 1].t - film.frames[now].t, LONGEST_PAUSE) / Number(speed.value);
    timer = setTimeout(() => { show(now + 1); next(); }, wait);
  }

  function find() {
    if (!search.value) return found.replaceChildren();
    const hits = film.find(search.value);
    found.replaceChildren(h("p", { class: "muted", role: "status" }, hits.length === 100 ? "the first 100 places" : plural(hits.length, "place")),
      h("ul", { class: "plainlist" }, hits.map((hit) => h("li", {}, h("button", { type: "button", class: "linklike num", onclick: () => { stop(); show(film.indexAt(hit.t)); } }, stamp(hit.t)), " ", h("span", { class: "mono" }, plain(hit.text.slice(0, 160)))))));
  }

  async function load() {
    if (!terminal) { told.textContent = "It ran in no terminal of ostler's: there is no recording."; return; }
    try {
      await getLines(`/v1/terminals/${encodeURIComponent(terminal)}/recording`, (frame) => {
        if (frame.t === undefined || film.frames.length >= MOST_FRAMES) return;
        film.add(frame);
        if (frame.mark) marks.append(h("button", { type: "button", class: "quiet", onclick: () => { stop(); show(film.indexAt(frame.t)); } }, `${stamp(frame.t)} ${oneLine(frame.mark)}`));
        if (film.frames.length === 1) show(0);
      }, gone.signal);
      seek.max = String(film.end());
      told.textContent = film.frames.length >= MOST_FRAMES ? `The first ${plural(MOST_FRAMES, "frame")}, ${stamp(film.end())}; the rest is in the export.` : `${plural(film.frames.length, "frame")}, ${stamp(film.end())}; pauses are at most two seconds long`;
      time.textContent = `${stamp(film.frames[now]?.t ?? 0)} / ${stamp(film.end())}`;
    } catch (error) {
      if (!gone.signal.aborted) told.replaceWith(failure(/** @type {any} */ (error)));
    }
  }

  load();
  return {
    element,
    title: `Recording of ${name}`,
    keydown(event) {
      if (event.key === " " && !(event.target instanceof HTMLButtonElement)) { event.preventDefault(); play.click(); }
      else if (event.key === "ArrowRight" || event.key === "ArrowLeft") { stop(); show(Math.max(0, Math.min(film.frames.length - 1, now + (event.key === "ArrowRight" ? 1 : -1)))); }
    },
    close() {
      stop();
      gone.abort();
      observer.disconnect();
      view.close();
    },
  };
}

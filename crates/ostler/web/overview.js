// The overview: who needs you, in cards with live screens; everybody else in rows.
import { get, may } from "./api.js";
import { go, live, waiting } from "./app.js";
import { h } from "./dom.js";
import { Thumbnail } from "./terminal.js";
import { GROUPS, STATES, age, costOf, count, doingOf, fullTime, groupOf, nameOf, oneLine, pathOf, plural, projectOf, terminalOf, tokenSum } from "./words.js";

/** @typedef {import("./words.js").Row} Row */

/** How many cards have a live screen; the others name their question. */
const MOST_SCREENS = 6;

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
    h("span", { class: "what muted cut", title: oneLine(row.title) }, doingOf(row)),
    h("time", { class: "num right muted", datetime: row.lastActivityAt, title: fullTime(row.lastActivityAt) }, age(row.lastActivityAt)),
    h("span", { class: "tokens num right muted" }, tokens ? count(tokens) : ""));
}

/** When each session was last looked at: the surface's own, so that a turn which ended since is *done*. */
const looked = {
  key: "ostler.looked",
  all() { try { return JSON.parse(localStorage.getItem(this.key) ?? "{}"); } catch { return {}; } },
  /** @param {string} key */
  note(key) { const all = this.all(); all[key] = new Date().toISOString(); localStorage.setItem(this.key, JSON.stringify(Object.fromEntries(Object.entries(all).slice(-500)))); },
};
export { looked };

/** @returns {import("./app.js").Page} */
export function overviewPage() {
  const heading = h("h1", {}, "ostler");
  const today = h("span", { class: "num muted" });
  const cards = h("div", { class: "cards" });
  const notices = h("div", {});
  const groups = h("div", {});
  const filter = h("input", { class: "filter", type: "search", placeholder: "filter: is:working agent:codex", "aria-label": "Filter sessions", value: live.filter,
    oninput: () => { clearTimeout(typing); typing = setTimeout(() => live.setFilter(filter.value), 150); } });
  const wrong = h("p", { class: "failed", role: "alert", hidden: true });
  const element = h("div", {}, h("div", { class: "head" }, heading, today), notices, cards, h("div", { class: "toolbar filters" }, wrong, filter), groups);
  let typing = 0;
  const folded = new Set(["idle", "unknown"]);
  /** @type {Map<string, {element: HTMLElement, row: Row, screen?: Thumbnail, ask: HTMLElement, when: HTMLElement, keys: HTMLElement}>} */
  const shown = new Map();
  let selected = "";
  /** @type {Row[] | null} */
  let ended = null;
  get("/v1/usage?by=day&since=1d").then((usage) => {
    const last = usage.groups[usage.groups.length - 1];
    if (last) today.textContent = [`today ${last.statedMicroUsd === undefined ? "" : costOf({ statedMicroUsd: last.statedMicroUsd })}`.trim(), `${count(tokenSum(last.tokens))} tokens`].join(" · ");
  }, () => {});

  /** @param {Row} row */
  function makeCard(row) {
    const terminal = terminalOf(row);
    const screens = [...shown.values()].filter((one) => one.screen).length;
    const screen = terminal && screens < MOST_SCREENS ? new Thumbnail(terminal, nameOf(row)) : undefined;
    const ask = h("p", { class: "ask" });
    const when = h("time", { class: "num muted", datetime: row.lastActivityAt, title: fullTime(row.lastActivityAt) });
    const keys = h("div", { class: "keys" });
    const card = h("article", { class: "card", "data-key": row.key, "aria-label": `${nameOf(row)} needs you` },
      h("div", { class: "top" }, state("needsYou", false), h("a", { class: "cut", href: pathOf(row) }, nameOf(row)),
        h("span", { class: "muted cut grow" }, [row.agent, projectOf(row)].filter(Boolean).join(" · ")), when), ask, screen?.element, keys);
    return { element: card, row, screen, ask, when, keys };
  }

  /** Keys that are answers on the screen. @param {any} card */
  function drawKeys(card) {
    const links = [h("a", { href: pathOf(card.row) }, "open"), h("a", { href: `${pathOf(card.row)}#facts` }, "why")];
    const answers = card.screen ? ["1", "2", "3", "Enter", "Escape"].map((key) => h("button", {
      type: "button", "aria-label": `Press ${key} in ${nameOf(card.row)}`,
      onclick: () => (may("type") ? card.screen.press([key]) : dispatchEvent(new CustomEvent("ostler-ask", { detail: "type" }))),
    }, may("type") ? "" : "🔒 ", key === "Escape" ? "Esc" : key)) : [];
    card.keys.replaceChildren(...answers, ...links);
  }

  function drawCards() {
    const rows = waiting();
    const keep = new Set(rows.map((row) => row.key));
    for (const [key, card] of shown) {
      if (keep.has(key)) continue;
      card.screen?.close();
      card.element.remove();
      shown.delete(key);
    }
    rows.forEach((row, at) => {
      let card = shown.get(row.key);
      if (!card) {
        card = makeCard(row);
        shown.set(row.key, card);
      }
      card.row = row;
      card.ask.textContent = row.group === "needsYou" && row.status === "failed" ? "failed" : doingOf(row);
      card.when.textContent = age(row.lastActivityAt);
      drawKeys(card);
      if (cards.children[at] !== card.element) cards.insertBefore(card.element, cards.children[at] ?? null);
    });
    cards.hidden = rows.length === 0;
    const [glyph] = STATES.needsYou;
    heading.replaceChildren(...(rows.length ? [h("span", { class: "needsYou" }, `${glyph} `), `${rows.length} need${rows.length === 1 ? "s" : ""} you`] : ["Nobody needs you"]));
  }

  /** @returns {Record<string, Row[]>} */
  function rowsByGroup() {
    const seen = looked.all();
    /** @type {Record<string, Row[]>} */
    const by = {};
    for (const key of live.order) {
      const row = live.rows.get(key);
      if (!row || row.group === "needsYou") continue;
      const isDone = row.group === "idle" && seen[row.key] && (row.lastActivityAt ?? "") > seen[row.key];
      (by[isDone ? "done" : row.group] ??= []).push(row);
    }
    if (ended) by.ended = ended;
    return by;
  }

  function drawGroups() {
    const by = rowsByGroup();
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.key;
    const parts = [];
    for (const group of GROUPS) {
      const rows = by[group] ?? [];
      if (group === "needsYou" || (!rows.length && group !== "ended")) continue;
      const isFolded = group === "ended" ? !ended : folded.has(group);
      const [glyph, word] = STATES[group];
      const doubt = group === "unknown" ? `: ${rows[0]?.liveness.reason}` : "";
      const head = h("button", { type: "button", class: "quiet", "aria-expanded": String(!isFolded), "data-key": `group ${group}`, onclick: () => toggle(group) },
        `${glyph} ${group === "ended" && !ended ? "ended" : `${rows.length.toLocaleString("en")} ${word}`}${isFolded ? doubt : ""} ${isFolded ? "▸" : "▾"}`);
      parts.push(h("section", { class: "group", "aria-label": word }, h("div", { class: "grouphead" }, head),
        isFolded ? null : h("ul", { class: "rows" }, rows.slice(0, 120).map((row) => {
          const line = sessionRow(row);
          if (row.key === selected) line.setAttribute("aria-current", "true");
          if (live.changed.has(row.key)) line.classList.add("changed");
          return h("li", {}, line);
        }))));
    }
    if (!live.order.length && live.about) parts.unshift(empty());
    groups.replaceChildren(...parts);
    if (focused) /** @type {HTMLElement | null} */ (groups.querySelector(`[data-key="${CSS.escape(focused)}"]`))?.focus({ preventScroll: true });
    live.changed.clear();
  }

  function empty() {
    return live.filter ? h("div", { class: "empty" }, h("p", { class: "big" }, "Nothing fits the filter."))
      : h("div", { class: "empty" }, h("p", { class: "big" }, "All quiet. Nothing is running."), h("p", {}, h("code", {}, "ostler create --agent claude-code")));
  }

  /** @param {string} group */
  async function toggle(group) {
    if (group === "ended") {
      if (ended) ended = null;
      else {
        const told = await get("/v1/sessions?all=true&filter=is%3Aended&limit=120");
        ended = told.sessions.map((/** @type {any} */ one) => ({ ...one, key: `${one.agent}:${one.id}`, group: groupOf(one) }));
      }
    } else if (!folded.delete(group)) folded.add(group);
    drawGroups();
  }

  function drawNotices() {
    const incomplete = live.about?.incomplete ?? [];
    wrong.hidden = !live.error;
    wrong.textContent = live.error;
    notices.replaceChildren(...(incomplete.length ? [h("details", { class: "notice" }, h("summary", {}, `${plural(incomplete.length, "source")} could not be read`),
      h("ul", {}, incomplete.slice(0, 20).map((/** @type {any} */ one) => h("li", {}, `${one.source}: ${oneLine(one.path ?? "")} ${oneLine(one.reason)}`))))] : []));
  }

  /** @param {number} step */
  function move(step) {
    const all = [.../** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll(".card[data-key] .top a, .srow"))];
    if (!all.length) return;
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const next = all[Math.max(0, Math.min(all.length - 1, at + step))];
    selected = next.dataset.key ?? "";
    next.focus();
  }

  return {
    element,
    title: "ostler",
    update() { drawNotices(); drawCards(); drawGroups(); },
    keydown(event) {
      if (event.key === "j" || event.key === "ArrowDown") { event.preventDefault(); move(1); }
      else if (event.key === "k" || event.key === "ArrowUp") { event.preventDefault(); move(-1); }
      else if (event.key === "w" && document.activeElement instanceof HTMLAnchorElement) go(`${document.activeElement.getAttribute("href")}#facts`);
    },
    close() {
      clearTimeout(typing);
      for (const card of shown.values()) card.screen?.close();
    },
  };
}

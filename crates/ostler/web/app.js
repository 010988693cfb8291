// The frame of every page: sign-in, navigation, rights, theme, the connection, keys that work everywhere.
import { call, forgetToken, get, keepToken, lookAtTab, may, signIn, tab } from "./api.js";
import { dialog, failure, h, horseshoe, lockIcon, say } from "./dom.js";
import { link, startLink, subscribe } from "./socket.js";
import { nameOf, pathOf, plural } from "./words.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const bar = /** @type {HTMLElement} */ (document.getElementById("bar"));
const foot = /** @type {HTMLElement} */ (document.getElementById("foot"));

/** @typedef {import("./words.js").Row} Row */
/** @typedef {{element: HTMLElement, title: string, close?: () => void, update?: () => void, keydown?: (event: KeyboardEvent) => void}} Page */

/** Sessions that are live, as the server tells; every page may look. */
export const live = {
  /** @type {Map<string, Row>} */ rows: new Map(),
  /** @type {string[]} */ order: [],
  /** @type {any} */ about: null,
  filter: "",
  /** Keys of those that the filter fits, in their order. @type {string[] | null} */ fits: null,
  /** @type {Set<string>} */ changed: new Set(),
  /** @type {(filter: string) => void} */ setFilter: () => {},
  /** How many rows the server is asked for. */ window: 200,
  /** Asks for further rows. */ more: () => {},
  /** What the server says of those that the filter fits. @type {any} */ aboutFits: null,
  /** @type {string} */ error: "",
  /** What `doctor` says of hooks and the daemon. */ hooks: "", daemon: "", hooksMissing: false,
};

/** More rows than these are for a filter. */
export const MOST_ROWS = 2000;
/** For so long no other tab tells the same. */
const NOTIFIED_MS = 10_000;
const PAGES = [["/", "Overview"], ["/search", "Search"], ["/usage", "Usage"], ["/disk", "Disk"], ["/clean", "Clean up"], ["/access", "Access"]];

/** @type {Page | null} */
let page = null;
/** Where the page was when it was left, by address. @type {Map<string, number>} */
const scrolled = new Map();
let shownPath = "";

/** Which module draws an address. @param {string} path @returns {Promise<Page>} */
async function pageOf(path) {
  const played = path.match(/^\/s\/([^/]+)\/play$/);
  if (played) return (await import("./play.js")).playPage(decodeURIComponent(played[1]));
  const session = path.match(/^\/s\/([^/]+)$/);
  if (session) return (await import("./session.js")).sessionPage(decodeURIComponent(session[1]));
  if (path === "/search") return (await import("./search.js")).searchPage();
  if (path === "/usage") return (await import("./usage.js")).usagePage();
  if (path === "/disk") return (await import("./disk.js")).diskPage();
  if (path === "/clean") return (await import("./clean.js")).cleanPage();
  if (path === "/access") return (await import("./access.js")).accessPage();
  return (await import("./overview.js")).overviewPage();
}

/** Goes to a page. @param {string} path */
export function go(path) {
  history.pushState(null, "", path);
  return draw(true);
}

/** @param {boolean} moved */
async function draw(moved) {
  if (shownPath) scrolled.set(shownPath, scrollY);
  const path = location.pathname;
  shownPath = path;
  /** @type {Page} */
  let made;
  try {
    made = await pageOf(path);
  } catch (error) {
    const title = /** @type {any} */ (error).status === 404 ? "Not found" : "ostler";
    made = { element: h("div", {}, h("a", { class: "back", href: "/" }, "← overview"), h("div", { class: "head" }, h("h1", {}, title)), failure(/** @type {any} */ (error))), title };
  }
  if (path !== location.pathname) return made.close?.();
  page?.close?.();
  page = made;
  main.replaceChildren(page.element);
  for (const one of document.querySelectorAll("nav a")) {
    if (one.getAttribute("href") === path) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  setTitle();
  page.update?.();
  scrollTo(0, moved ? 0 : scrolled.get(path) ?? 0);
  if (moved) main.focus({ preventScroll: true });
}

/** @returns {Row[]} */
export function waiting() {
  return live.order.map((key) => live.rows.get(key)).filter((row) => row?.group === "needsYou").map((row) => /** @type {Row} */ (row));
}

let titleCount = 0;
function setTitle() {
  titleCount = waiting().length;
  document.title = `${titleCount ? `(${titleCount}) ` : ""}${page && page.title !== "ostler" ? `${page.title} · ` : ""}ostler`;
}

/** The next session that needs a person, from wherever one is. @param {number} step */
function goToWaiting(step) {
  const rows = waiting();
  if (!rows.length) return say("Nobody needs you.");
  const here = rows.findIndex((row) => pathOf(row) === location.pathname);
  const next = here < 0 ? (step > 0 ? 0 : rows.length - 1) : (here + step + rows.length) % rows.length;
  go(pathOf(rows[next]));
}

/** @param {any} frame */
function takeSessions(frame) {
  if (frame.error) return;
  const before = new Set(waiting().map((row) => row.key));
  const isFirst = frame.rev === 1;
  // A connection that came back tells everything anew: what was known stays what it was.
  const known = new Set(live.rows.keys());
  const hadAny = Boolean(live.about);
  for (const row of frame.put) {
    const old = live.rows.get(row.key);
    if (old && old.group !== row.group) live.changed.add(row.key);
    live.rows.set(row.key, row);
    known.delete(row.key);
  }
  for (const key of isFirst ? known : frame.gone) live.rows.delete(key);
  if (frame.order) live.order = frame.order;
  if (frame.about) live.about = frame.about;
  const fresh = waiting().filter((row) => !before.has(row.key));
  if (hadAny && fresh.length) announce(fresh);
  setTitle();
  drawFoot();
  page?.update?.();
}

/** Those that the filter fits. @param {any} frame */
function takeFitting(frame) {
  live.error = frame.error?.message ?? "";
  if (frame.error) live.fits = null;
  else {
    for (const row of frame.put) live.rows.set(row.key, row);
    if (frame.order) live.fits = frame.order;
    if (frame.about) live.aboutFits = frame.about;
  }
  page?.update?.();
}

/** A filter is a subscription of its own: who needs you is told whatever the filter says. */
function subscribeToSessions() {
  const ask = (/** @type {string} */ filter) => ({ what: "sessions", filter, window: live.window });
  const all = subscribe(ask(""), takeSessions);
  /** @type {ReturnType<typeof subscribe> | null} */
  let channel = null;
  live.setFilter = (filter) => {
    live.filter = filter.trim();
    channel?.close();
    channel = null;
    live.fits = live.aboutFits = null;
    live.error = "";
    if (live.filter) channel = subscribe(ask(live.filter), takeFitting);
    else page?.update?.();
  };
  live.more = () => {
    live.window = Math.min(live.window + 200, MOST_ROWS);
    all.change(ask(""));
    channel?.change(ask(live.filter));
  };
}

/** Once for each that newly needs a person. @param {Row[]} rows */
function announce(rows) {
  for (const row of rows) {
    say(`${nameOf(row)} needs you${row.waitingFor ? `: ${row.waitingFor}` : ""}`);
    notify(row);
  }
}

/** While a tab is in sight it holds this lock, so that the others know. */
const IN_SIGHT = "ostler.in-sight";
let outOfSight = () => {};

function noteSight() {
  outOfSight();
  if (document.visibilityState !== "visible") return;
  const left = new AbortController();
  outOfSight = () => left.abort();
  navigator.locks?.request(IN_SIGHT, { mode: "shared", signal: left.signal }, () => new Promise((resolve) => { outOfSight = () => resolve(null); })).catch(() => {});
}

/** One notification by one of the tabs, if none of them is in sight. @param {Row} row */
async function notify(row) {
  if (document.visibilityState === "visible" || !("Notification" in window) || Notification.permission !== "granted") return;
  const show = () => void new Notification(`${nameOf(row)} needs you`, { body: row.waitingFor ?? "", tag: row.key });
  if (!navigator.locks) return show();
  const { held } = await navigator.locks.query();
  if (held?.some((lock) => lock.name === IN_SIGHT)) return;
  // The other tabs hear of it within a moment.
  await navigator.locks.request(`ostler.notify ${row.key}`, { ifAvailable: true }, async (lock) => {
    if (!lock) return;
    show();
    await new Promise((resolve) => setTimeout(resolve, NOTIFIED_MS));
  });
}

function drawBar() {
  const search = h("input", { type: "search", name: "q", placeholder: "Search everything", "aria-label": "Search everything", autocomplete: "off" });
  const right = h("button", { type: "button", class: "quiet", onclick: askForNext });
  const showRight = () => {
    right.replaceChildren(...(tab.right === "manage" ? ["may manage"] : [lockIcon(), tab.right === "type" ? "manage" : "type"]));
    right.title = tab.right === "manage" ? "This tab may do everything" : `This tab may ${tab.right}; ask for more`;
    right.disabled = tab.right === "manage";
  };
  tab.listeners.add(() => { showRight(); page?.update?.(); });
  showRight();
  const links = (/** @type {string[][]} */ list) => list.map(([path, name]) => h("a", { href: path }, name));
  bar.replaceChildren(h("div", { class: "bar" },
    h("a", { class: "brand", href: "/", "aria-label": "ostler, overview" }, horseshoe(), "ostler"),
    h("nav", { class: "wide", "aria-label": "Pages" }, links(PAGES)),
    h("form", { role: "search", "aria-label": "Search everything", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); go(`/search?q=${encodeURIComponent(search.value)}`); } }, search),
    h("span", { class: "right" }, right, h("button", { type: "button", class: "quiet icon", "aria-label": "Light or dark", title: "Light or dark", onclick: changeTheme }, "◐"),
      h("button", { type: "button", class: "quiet icon", "aria-label": "This browser", title: "This browser", onclick: showBrowser }, "⋯"))));
  document.querySelector("nav.phone")?.remove();
  foot.after(h("nav", { class: "phone", "aria-label": "Pages of a phone" }, links([["/", "Overview"], ["/search", "Find"], ["/clean", "Clean up"]]), h("button", { type: "button", onclick: showMore }, "More")));
}

/** What a phone's bar has no room for. */
function showMore() {
  const box = dialog("More", h("div", { class: "menu" }, PAGES.map(([path, name]) => h("a", { href: path, onclick: () => box.close() }, name)), h("button", { type: "button", onclick: () => { box.close(); showBrowser(); } }, "This browser"), h("button", { type: "button", onclick: () => { box.close(); showKeys(); } }, "Keys")));
}

/** What this browser keeps and is told: signed in, notified, signed out. */
function showBrowser() {
  const told = h("p", { class: "muted", role: "status" }, tab.keptUntil ? `Kept signed in until ${new Date(tab.keptUntil).toLocaleDateString("en-GB")}.` : "Signed in until the tab is closed or the server ends.");
  const keep = h("button", { type: "button", onclick: async () => {
    try {
      keepToken(await call("POST", "/v1/tab/keep"));
      told.textContent = "Kept signed in for thirty days.";
      keep.remove();
    } catch (error) { told.replaceChildren(failure(/** @type {any} */ (error))); }
  } }, "Keep this browser signed in");
  const asks = "Notification" in window && Notification.permission === "default";
  const notify = h("button", { type: "button", onclick: async () => { told.textContent = await Notification.requestPermission() === "granted" ? "You are notified when somebody needs you and no tab is in sight." : "The browser does not allow it."; notify.remove(); } }, "Notify me");
  const box = dialog("This browser", h("p", {}, `Tab ${tab.name}, may ${tab.right}.`), told, h("div", { class: "menu" }, tab.keptUntil ? null : keep, asks ? notify : null,
    tab.right === "manage" ? null : h("button", { type: "button", onclick: () => { box.close(); askForNext(); } }, lockIcon(), `Ask for the right to ${may("type") ? "manage" : "type"}`),
    h("button", { type: "button", onclick: async () => { box.close(); await call("DELETE", "/v1/tab").catch(() => {}); forgetToken(); showSignIn(); } }, "Sign out")));
}

function changeTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("ostler.theme", root.dataset.theme);
}

function drawFoot() {
  const incomplete = live.about?.incomplete ?? [];
  const parts = [
    link.isOtherVersion ? "the server is of another version: reload this page" : link.isUp ? "updated by events" : link.lostAt ? `last heard ${Math.max(0, Math.round((Date.now() - link.heardAt()) / 1000))} s ago; trying again` : "connecting",
    incomplete.length ? h("a", { href: "/", title: incomplete.map((/** @type {any} */ one) => `${one.source}: ${one.reason}`).join("\n") }, `${plural(incomplete.length, "source")} could not be read`) : "incomplete: none",
    live.hooks, live.daemon, live.about?.asks,
  ];
  const text = parts.map((part) => (part instanceof Node ? part.textContent : part)).join();
  document.documentElement.classList.toggle("lost", !link.isUp && link.lostAt > 0);
  if (foot.dataset.shown === text) return;
  foot.dataset.shown = text;
  foot.replaceChildren(h("div", { class: "line" }, parts.filter(Boolean).map((part) => h("span", {}, part)), h("button", { type: "button", class: "quiet", onclick: showKeys }, "keys: ?")));
}

/** How the machine is set up, once: whether turns are exact, whether ends are known at once. */
async function askDoctor() {
  try {
    const { findings } = await get("/v1/doctor");
    const hooks = findings.filter((/** @type {any} */ one) => one.check.startsWith("hooks of "));
    const good = hooks.filter((/** @type {any} */ one) => one.grade === "ok").length;
    live.hooks = hooks.length ? `hooks: ${good} of ${plural(hooks.length, "agent")}` : "";
    live.hooksMissing = hooks.length > 0 && good === 0;
    const daemon = findings.find((/** @type {any} */ one) => one.check === "daemon");
    live.daemon = daemon ? `daemon: ${daemon.grade === "ok" ? "on" : "off"}` : "";
    drawFoot();
    page?.update?.();
  } catch { /* the page does without */ }
}

/** Asks a person for a right: a code, confirmed in a terminal. @param {string} right */
export async function askRight(right) {
  if (may(right)) return;
  /** @type {any} */
  let asked;
  try {
    asked = await call("POST", "/v1/tab/ask", { right });
  } catch (error) {
    return void dialog(`The right to ${right}`, failure(/** @type {any} */ (error)));
  }
  const box = dialog(`The right to ${right}`, h("p", {}, "Confirm this code in a terminal on the machine that ostler runs on:"),
    h("p", { class: "code" }, asked.command), h("p", { class: "muted" }, "The code is good for ten minutes. This closes by itself when it is confirmed."));
  const close = () => { if (may(right)) box.close(); };
  tab.listeners.add(close);
  box.addEventListener("close", () => tab.listeners.delete(close));
}

function askForNext() {
  askRight(may("type") ? "manage" : "type");
}

const KEYS = [["j k", "move"], ["Enter", "open"], ["Esc", "back"], ["n N", "next, previous that needs you"], ["/", "search everything"],
  ["1–6", "tabs of a session"], ["r", "reply"], ["w", "why"], [".", "all actions"], ["i", "type into the terminal"], ["Ctrl+]", "out of a terminal"], ["?", "these keys"]];

function showKeys() {
  dialog("Keys", h("table", { class: "plain" }, h("tbody", {}, KEYS.map(([key, does]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, does))))));
}

/** @param {KeyboardEvent} event */
function keydown(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (target.matches("input, textarea, select")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (event.key === "n") goToWaiting(1);
  else if (event.key === "N") goToWaiting(-1);
  else if (event.key === "?") showKeys();
  else if (event.key === "/") {
    const search = /** @type {HTMLElement | null} */ (bar.querySelector("input[type=search]"));
    if (search?.offsetParent) search.focus(); else go("/search");
  } else if (event.key === "Escape" && location.pathname !== "/") go("/");
  else return page?.keydown?.(event);
  event.preventDefault();
}

/** @param {MouseEvent} event */
function click(event) {
  const anchor = /** @type {HTMLElement} */ (event.target).closest?.("a[href^='/']");
  if (!anchor || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(anchor.getAttribute("href") ?? "/");
}

function showSignIn() {
  page?.close?.();
  page = null;
  foot.replaceChildren();
  delete foot.dataset.shown;
  bar.replaceChildren();
  document.querySelector("nav.phone")?.remove();
  document.title = "Sign in · ostler";
  main.replaceChildren(h("div", { class: "signin" }, horseshoe(), h("h1", {}, "Sign in"),
    h("p", {}, "This tab is not signed in, or was signed out."),
    h("p", {}, "Press Enter in the terminal where ", h("code", {}, "ostler web"), " runs, and open the link that it prints."),
    h("p", { class: "muted" }, "A link is good once, for ten minutes.")));
}

async function start() {
  document.documentElement.dataset.theme = localStorage.getItem("ostler.theme") ?? "";
  if (!document.documentElement.dataset.theme) delete document.documentElement.dataset.theme;
  let isIn = false;
  try {
    isIn = await signIn();
  } catch (error) {
    main.replaceChildren(h("h1", {}, "ostler"), failure(/** @type {any} */ (error)));
    return;
  }
  if (!isIn) return showSignIn();
  addEventListener("ostler-signed-out", () => { forgetToken(); showSignIn(); });
  addEventListener("ostler-ask", (event) => askRight(/** @type {CustomEvent} */ (event).detail));
  addEventListener("popstate", () => draw(false));
  document.addEventListener("keydown", keydown);
  document.addEventListener("click", click);
  link.listeners.add(drawFoot);
  drawBar();
  drawFoot();
  noteSight();
  document.addEventListener("visibilitychange", noteSight);
  subscribeToSessions();
  // Who needs you is asked for at once; what this tab may do comes beside it.
  startLink();
  lookAtTab().catch(() => {});
  // The only clock: ages on screen, once a minute, while somebody looks.
  setInterval(() => { if (document.visibilityState === "visible") page?.update?.(); }, 60_000);
  await draw(false);
  askDoctor();
}

start();

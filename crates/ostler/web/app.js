// The frame of every page: sign-in, navigation, rights, theme, the connection, keys that work everywhere.
import { call, forgetToken, may, signIn, tab } from "./api.js";
import { confirm, failure, h, say } from "./dom.js";
import { link, startLink, subscribe } from "./socket.js";
import { nameOf, pathOf, plural } from "./words.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const bar = /** @type {HTMLElement} */ (document.getElementById("bar"));
const foot = /** @type {HTMLElement} */ (document.getElementById("foot"));
const ICON = document.querySelector("link[rel=icon]")?.getAttribute("href") ?? "";

/** @typedef {import("./words.js").Row} Row */
/** @typedef {{element: HTMLElement, title: string, close?: () => void, update?: () => void, keydown?: (event: KeyboardEvent) => void}} Page */

/** Sessions that are live, as the server tells; every page may look. */
export const live = {
  /** @type {Map<string, Row>} */ rows: new Map(),
  /** @type {string[]} */ order: [],
  /** @type {any} */ about: null,
  filter: "",
  /** @type {Set<string>} */ changed: new Set(),
  /** @type {(filter: string) => void} */ setFilter: () => {},
  /** @type {string} */ error: "",
};

const PAGES = [["/", "Overview"], ["/search", "Search"], ["/usage", "Usage"], ["/disk", "Disk"], ["/clean", "Clean up"], ["/access", "Access"]];

/** @type {Page | null} */
let page = null;
/** Where the page was when it was left, by address. @type {Map<string, number>} */
const scrolled = new Map();
let shownPath = "";

/** Which module draws an address. @param {string} path @returns {Promise<Page>} */
async function pageOf(path) {
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
    made = { element: h("div", {}, h("h1", {}, "ostler"), failure(/** @type {any} */ (error))), title: "ostler" };
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
  if (frame.error) {
    live.error = frame.error.message;
    return page?.update?.();
  }
  live.error = "";
  const before = new Set(waiting().map((row) => row.key));
  if (frame.rev === 1) live.rows.clear();
  const isFirst = frame.rev === 1;
  live.changed = new Set();
  for (const row of frame.put) {
    if (!isFirst && live.rows.get(row.key)?.group !== row.group) live.changed.add(row.key);
    live.rows.set(row.key, row);
  }
  for (const key of frame.gone) live.rows.delete(key);
  if (frame.order) live.order = frame.order;
  if (frame.about) live.about = frame.about;
  const fresh = waiting().filter((row) => !before.has(row.key));
  if (!isFirst && fresh.length) announce(fresh);
  setTitle();
  drawFoot();
  page?.update?.();
}

/** Once for each that newly needs a person. @param {Row[]} rows */
function announce(rows) {
  for (const row of rows) {
    say(`${nameOf(row)} needs you${row.waitingFor ? `: ${row.waitingFor}` : ""}`);
    if (document.visibilityState !== "visible" && "Notification" in window && Notification.permission === "granted") {
      new Notification(`${nameOf(row)} needs you`, { body: row.waitingFor ?? "", tag: row.key });
    }
  }
}

function drawBar() {
  const search = h("input", { type: "search", name: "q", placeholder: "Search everything", "aria-label": "Search everything", autocomplete: "off" });
  const right = h("button", { type: "button", class: "quiet", onclick: askForNext });
  const showRight = () => { right.textContent = tab.right === "manage" ? "may manage" : tab.right === "type" ? "manage: 🔒" : "type: 🔒"; right.disabled = tab.right === "manage"; };
  tab.listeners.add(() => { showRight(); page?.update?.(); });
  showRight();
  const links = (/** @type {string[][]} */ list) => list.map(([path, name]) => h("a", { href: path }, name));
  bar.replaceChildren(h("div", { class: "bar" },
    h("a", { class: "brand", href: "/", "aria-label": "ostler, overview" }, h("img", { src: ICON, alt: "" }), "ostler"),
    h("nav", { class: "wide", "aria-label": "Pages" }, links(PAGES)),
    h("form", { role: "search", "aria-label": "Search everything", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); go(`/search?q=${encodeURIComponent(search.value)}`); } }, search),
    h("span", { class: "right" },
      right, h("button", { type: "button", class: "quiet", "aria-label": "Light or dark", title: "Light or dark", onclick: changeTheme }, "◐"))));
  document.body.append(h("nav", { class: "phone", "aria-label": "Pages of a phone" },
    links([["/", "Overview"], ["/search", "Find"], ["/clean", "Clean up"], ["/usage", "Usage"]])));
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
    link.isUp ? "updated by events" : link.lostAt ? `last heard ${Math.round((Date.now() - link.lostAt) / 1000)} s ago; trying again` : "connecting",
    incomplete.length ? h("a", { href: "/", title: incomplete.map((/** @type {any} */ one) => `${one.source}: ${one.reason}`).join("\n") }, `${plural(incomplete.length, "source")} could not be read`) : "everything could be read",
    live.about?.asks ? live.about.asks : null,
    h("button", { type: "button", class: "quiet", onclick: showKeys }, "keys: ?"),
  ];
  foot.replaceChildren(h("div", { class: "line" }, parts.filter(Boolean).map((part) => h("span", {}, part))));
  document.documentElement.classList.toggle("lost", !link.isUp && link.lostAt > 0);
}

/** Asks a person for a right: a code, confirmed in a terminal. @param {string} right */
export async function askRight(right) {
  if (may(right)) return;
  const asked = await call("POST", "/v1/tab/ask", { right });
  const close = () => { tab.listeners.delete(close); box.close(); };
  const box = h("dialog", { "aria-labelledby": "asked" }, h("h2", { id: "asked" }, `The right to ${right}`),
    h("p", {}, "Confirm this code in a terminal on the machine that ostler runs on:"),
    h("p", { class: "code" }, asked.command),
    h("p", { class: "muted" }, "The code is good for ten minutes. This closes by itself when it is confirmed."),
    h("div", { class: "buttons" }, h("button", { type: "button", autofocus: true, onclick: () => box.close() }, "Close")));
  box.addEventListener("close", () => box.remove());
  tab.listeners.add(close);
  document.body.append(box);
  box.showModal();
}

function askForNext() {
  askRight(may("type") ? "manage" : "type");
}

const KEYS = [["j k", "move"], ["Enter", "open"], ["Esc", "back"], ["n N", "next, previous that needs you"], ["/", "search everything"],
  ["1–6", "tabs of a session"], ["r", "reply"], ["w", "why"], ["i", "type into the terminal"], ["Ctrl+]", "out of a terminal"], ["?", "these keys"]];

function showKeys() {
  const box = h("dialog", { "aria-labelledby": "keys" }, h("h2", { id: "keys" }, "Keys"),
    h("table", { class: "plain" }, h("tbody", {}, KEYS.map(([key, does]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, does))))),
    h("div", { class: "buttons" }, h("button", { type: "button", autofocus: true, onclick: () => box.close() }, "Close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
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
  bar.replaceChildren();
  document.querySelector(".phone")?.remove();
  document.title = "Sign in · ostler";
  main.replaceChildren(h("div", { class: "signin" }, h("img", { src: ICON, alt: "" }), h("h1", {}, "Sign in"),
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
  const channel = subscribe({ what: "sessions", filter: "" }, takeSessions);
  live.setFilter = (filter) => { live.filter = filter; channel.change({ what: "sessions", filter }); };
  startLink();
  // The only clock: ages on screen, once a minute, while somebody looks.
  setInterval(() => { if (document.visibilityState === "visible") page?.update?.(); }, 60_000);
  await draw(false);
}

start();
export { confirm };

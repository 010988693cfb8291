// DOM nodes without HTML: what others wrote is only ever text here.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Makes an element. Properties that begin with `on` are listeners, `class` and the rest are attributes;
 * false, null and undefined are left out.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  put(node, props, children);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} tag @param {Record<string, any>} [props] @param {...(Child | Child[])} children @returns {any} */
export function svg(tag, props, ...children) {
  const node = document.createElementNS(SVG, tag);
  put(node, props, children);
  return node;
}

/** @param {Element} node @param {Record<string, any> | undefined} props @param {(Child | Child[])[]} children */
function put(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") /** @type {any} */ (node).value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

/** A closed lock, drawn: no font is sure to have one. */
export function lockIcon() {
  return svg("svg", { class: "lock", viewBox: "0 0 12 14", role: "img", "aria-label": "locked" },
    svg("path", { d: "M3 6V4a3 3 0 0 1 6 0v2", fill: "none", stroke: "currentColor", "stroke-width": 1.5 }), svg("rect", { x: 1, y: 6, width: 10, height: 7, rx: 1.5, fill: "currentColor" }));
}

/** The brand, as in icon.svg. */
export function horseshoe() {
  return svg("svg", { class: "horseshoe", viewBox: "0 0 32 32", "aria-hidden": "true" }, svg("path", { d: "M8 5v11a8 8 0 0 0 16 0V5", fill: "none", stroke: "#B87A2A", "stroke-width": 4.5, "stroke-linecap": "round" }),
    [[8.3, 12], [23.7, 12], [11, 19.6], [21, 19.6]].map(([cx, cy]) => svg("circle", { cx, cy, r: 1, fill: "#FAF8F4" })));
}

/** What stands in place of an answer that takes its time; it is seen only if that takes longer than a blink. @param {string} text */
export function loading(text) {
  return h("p", { class: "loading muted" }, text);
}

/**
 * Only the answer to the newest question counts, however late an older one comes.
 * @template T @param {(question: any) => Promise<T>} ask @param {(answer: T) => void} take @param {(error: any) => void} fail
 */
export function newestOnly(ask, take, fail) {
  let asked = 0;
  return async (/** @type {any} */ question) => {
    const mine = ++asked;
    try {
      const answer = await ask(question);
      if (mine === asked) take(answer);
    } catch (error) {
      if (mine === asked) fail(error);
    }
  };
}

/** A table that scrolls in its own box. @param {string} name @param {...any} rows */
export function tableBox(name, ...rows) {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name }, h("table", { class: rows[0]?.querySelectorAll?.("th").length >= 5 ? "plain manycols" : "plain" }, rows));
}

/** @param {[string, string?][]} cells */
export function headRow(cells) {
  return h("thead", {}, h("tr", {}, cells.map(([cell, kind]) => h("th", { scope: "col", class: kind }, cell))));
}

/** A dialog that is gone when it is closed. @param {string} title @param {...any} body @returns {HTMLDialogElement} */
export function dialog(title, ...body) {
  const box = h("dialog", { "aria-labelledby": "asked" }, h("h2", { id: "asked" }, title), body,
    h("div", { class: "buttons" }, h("button", { type: "button", autofocus: true, onclick: () => box.close() }, "Close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}

/** How long what was said can still be read aloud. */
const SAID_MS = 15_000;

/** Says something politely to those who listen. What was said just before is not taken back by it. @param {string} text */
export function say(text) {
  const line = h("p", {}, text);
  document.getElementById("said")?.append(line);
  setTimeout(() => line.remove(), SAID_MS);
}

/**
 * Asks before something is done: shows exactly what, answered by a button that did not open it.
 * @param {string} title @param {Child[]} body @param {string} yes
 * @returns {Promise<boolean>}
 */
export function confirm(title, body, yes) {
  return new Promise((resolve) => {
    const no = h("button", { type: "button", autofocus: true, onclick: () => box.close("no") }, "Cancel");
    const box = h("dialog", { "aria-labelledby": "asked" },
      h("h2", { id: "asked" }, title), body,
      h("div", { class: "buttons" }, no,
        h("button", { type: "button", class: "primary", onclick: () => box.close("yes") }, yes)));
    box.addEventListener("close", () => { box.remove(); resolve(box.returnValue === "yes"); });
    box.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "y") box.close("yes");
    });
    document.body.append(box);
    box.showModal();
  });
}

/** Words with their commands and names, which stand between backticks. @param {string} text */
const withCode = (text) => text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

/** A notice with its reason and remedy. @param {{message: string, hint?: string, code?: string}} error */
export function failure(error) {
  const may = error.code === "MAY_HAVE_APPLIED" ? "It may have been applied: look before trying again. " : "";
  return h("p", { class: "notice bad", role: "alert" }, may, withCode(error.message),
    error.hint ? h("span", { class: "muted" }, " ", withCode(error.hint)) : null);
}

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

/** Says something politely to those who listen. @param {string} text */
export function say(text) {
  const said = document.getElementById("said");
  if (said) said.textContent = text;
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

/** A notice with its reason and remedy. @param {{message: string, hint?: string, code?: string}} error */
export function failure(error) {
  const may = error.code === "MAY_HAVE_APPLIED" ? "It may have been applied: look before trying again. " : "";
  return h("p", { class: "notice bad", role: "alert" }, may, error.message,
    error.hint ? h("span", { class: "muted" }, ` ${error.hint}`) : null);
}

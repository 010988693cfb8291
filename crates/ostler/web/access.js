// Lent credentials: to whom, until when, and ending them.
import { call, get, may } from "./api.js";
import { confirm, failure, h, loading, lockIcon } from "./dom.js";
import { age, fullTime, oneLine } from "./words.js";

/** @returns {import("./app.js").Page} */
export function accessPage() {
  const body = h("div", {}, loading("Looking …")), said = h("div", {});
  const element = h("div", {}, h("h1", { class: "head" }, "Access"), said, body);

  async function load() {
    try {
      const told = await get("/v1/access");
      const list = told.sessions ?? [];
      if (!list.length) return body.replaceChildren(h("div", { class: "empty" }, h("p", { class: "big" }, "Nothing is lent."), h("p", {}, h("code", {}, "ostler access open"))));
      body.replaceChildren(h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "lent access" }, h("table", { class: "plain" },
        h("thead", {}, h("tr", {}, ["name", "to", "since", "until", "state", ""].map((cell) => h("th", { scope: "col" }, cell)))),
        h("tbody", {}, list.map((/** @type {any} */ one) => h("tr", {},
          h("td", {}, oneLine(one.name ?? one.id)), h("td", {}, oneLine(one.lentTo ?? one.purpose ?? one.scope ?? "")),
          h("td", { title: fullTime(one.openedAt ?? one.createdAt) }, age(one.openedAt ?? one.createdAt)), h("td", {}, fullTime(one.expiresAt)), h("td", {}, oneLine(one.state ?? one.presence ?? "")),
          h("td", { class: "right" }, h("button", { type: "button", onclick: () => stop(one) }, may("manage") ? null : lockIcon(), "Stop"))))))));
    } catch (error) {
      body.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  /** @param {any} one */
  async function stop(one) {
    if (!may("manage")) return dispatchEvent(new CustomEvent("ostler-ask", { detail: "manage" }));
    if (!await confirm(`End ${oneLine(one.name ?? one.id)}?`, [h("p", {}, "Its ssh-agent is asked to end; whoever uses it loses it.")], "End it")) return;
    try {
      await call("POST", `/v1/access/${encodeURIComponent(one.id)}/stop`);
    } catch (error) {
      said.replaceChildren(failure(/** @type {any} */ (error)));
    }
    load();
  }

  load();
  let right = may("manage");
  return { element, title: "Access", update() { if (may("manage") !== right) { right = may("manage"); load(); } } };
}

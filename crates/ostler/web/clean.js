// Clean up: the plan with every reason, applied as it was shown, and undone.
import { call, get, may } from "./api.js";
import { confirm, failure, h, headRow, loading, lockIcon, newestOnly, say, tableBox } from "./dom.js";
import { REMOVABLE, age, clock, fullTime, oneLine, plural, size } from "./words.js";

/** @returns {import("./app.js").Page} */
export function cleanPage() {
  const include = new Set(), keep = new Set();
  let olderThan = "";
  /** @type {any} */
  let plan = null;
  const body = h("div", {}, loading("Planning; nothing is changed …")), receipts = h("div", {}), said = h("div", {});
  const kinds = ["transcripts", "temps", "worktrees"].map((kind) => h("label", {}, h("input", { type: "checkbox", onchange: (/** @type {any} */ event) => { if (event.target.checked) include.add(kind); else include.delete(kind); load(); } }), ` ${kind}`));
  const older = h("select", { "aria-label": "Left alone for longer than", onchange: () => { olderThan = older.value; load(); } }, [["", "as configured"], ["0s", "any age"], ["1d", "a day"], ["7d", "a week"], ["30d", "30 days"], ["90d", "90 days"]].map(([value, name]) => h("option", { value }, name)));
  const element = h("div", {}, h("h1", { class: "head" }, "Clean up"), said,
    h("div", { class: "toolbar" }, h("span", { class: "muted" }, "Also look at"), kinds, h("span", { class: "muted" }, "older than"), older), body, h("h2", { class: "head" }, "Receipts"), receipts);

  const ask = newestOnly((question) => get(`/v1/gc?${question}`), (told) => { plan = told; draw(); }, (error) => { plan = null; body.replaceChildren(failure(error)); });

  function load() {
    const parts = new URLSearchParams();
    if (include.size) parts.set("include", [...include].join(","));
    if (olderThan) parts.set("olderThan", olderThan);
    for (const path of keep) parts.append("keep", path);
    return ask(parts);
  }

  function draw() {
    /** @type {Map<string, any[]>} */
    const goes = new Map(), stays = new Map();
    for (const item of plan.items) {
      const to = item.action === "stays" ? stays : goes;
      const name = item.action === "stays" ? (item.refused?.reason ?? "stays").replaceAll("-", " ") : REMOVABLE[item.kind] ?? item.kind;
      to.set(name, [...(to.get(name) ?? []), item]);
    }
    const lock = may("manage") ? null : lockIcon();
    const stay = plan.items.length - plan.count;
    body.replaceChildren(h("section", { class: "panel" },
      h("h2", { class: "figure" }, `${plural(plan.count, "thing")}, ${size(plan.bytes)} may go`, h("span", { class: "muted" }, `${stay.toLocaleString("en")} stay · plan ${plan.plan.slice(0, 8)} · ${clock(new Date().toISOString())}`)),
      [...goes].map(([kind, items]) => group(kind, items, true)),
      plan.count ? h("p", { class: "toolbar apply" }, h("button", { type: "button", class: "primary", onclick: apply }, lock, `Move ${plural(plan.count, "thing")} to the trash`), h("span", { class: "muted" }, "undo brings everything back"))
        : h("p", { class: "empty" }, "Nothing to collect."),
      keep.size ? h("p", { class: "toolbar" }, h("span", { class: "muted" }, `${plural(keep.size, "thing")} left out by you`), h("button", { type: "button", onclick: () => { keep.clear(); load(); } }, "Look at all again")) : ""),
    stays.size ? h("section", { class: "panel" }, h("h2", {}, "Stays"), [...stays].map(([reason, items]) => group(reason, items, false))) : "");
  }

  /** @param {string} name @param {any[]} items @param {boolean} goes */
  function group(name, items, goes) {
    const bytes = items.reduce((sum, item) => sum + item.bytes, 0);
    const reason = goes ? items[0].why : items[0].refused?.remedy;
    const details = h("details", { class: "planline" }, h("summary", {}, h("span", { class: goes ? "goes" : "" }, oneLine(name)), h("span", { class: "num right" }, items.length.toLocaleString("en")), h("span", { class: "num right" }, size(bytes)), h("span", { class: "muted cut" }, oneLine(reason ?? ""))));
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      details.append(tableBox(oneLine(name), headRow(goes ? [["path"], ["size", "right"], ["age", "right"], ["reason"], ["", "right"]] : [["path"], ["size", "right"], ["age", "right"], ["reason"]]), h("tbody", {}, items.slice(0, 500).map((item) => h("tr", {},
        h("td", { class: "mono" }, oneLine(item.path)), h("td", { class: "right" }, size(item.bytes)), h("td", { class: "right" }, item.ageMs === undefined ? "" : age(new Date(Date.now() - item.ageMs).toISOString())),
        h("td", {}, oneLine(item.refused ? `${item.refused.reason}; ${item.refused.remedy}` : item.why)),
        goes ? h("td", { class: "right" }, h("button", { type: "button", "aria-label": `Leave out ${oneLine(item.path)}`, onclick: () => { keep.add(item.path); load(); } }, "Leave out")) : null)))));
    });
    return details;
  }

  async function apply() {
    if (!may("manage")) return dispatchEvent(new CustomEvent("ostler-ask", { detail: "manage" }));
    const shown = plan;
    const isSure = await confirm(`Move ${plural(shown.count, "thing")} to the trash?`, [h("p", {}, `${size(shown.bytes)}, exactly what plan ${shown.plan} lists. If anything changed meanwhile, nothing is done.`)], "Move to the trash");
    if (!isSure) return;
    /** @type {any} */
    const body = { planHash: shown.plan };
    if (include.size) body.include = [...include];
    if (olderThan) body.olderThan = olderThan;
    if (keep.size) body.keep = [...keep];
    try {
      const done = await call("POST", "/v1/gc", body);
      said.replaceChildren(h("p", { class: "notice", role: "status" }, `${plural(done.count, "thing")}, ${size(done.bytes)}, moved to the trash. Receipt ${done.receipt ?? ""}`));
      say(`${plural(done.count, "thing")} moved to the trash`);
    } catch (error) {
      said.replaceChildren(failure(/** @type {any} */ (error)));
    }
    load();
    loadReceipts();
  }

  async function loadReceipts() {
    try {
      const told = await get("/v1/receipts");
      const list = told.receipts ?? [];
      receipts.replaceChildren(list.length ? tableBox("receipts", headRow([["receipt"], ["when"], ["by"], ["things", "right"], ["bytes", "right"], ["", "right"]]), h("tbody", {}, list.map((/** @type {any} */ one) => h("tr", {},
        h("td", { class: "mono" }, oneLine(one.id ?? one.receipt)), h("td", { title: fullTime(one.at) }, age(one.at)), h("td", {}, oneLine(one.command ?? "")),
        h("td", { class: "right" }, plural(one.count ?? one.items?.length ?? 0, "thing")), h("td", { class: "right" }, size(one.bytes ?? 0)),
        h("td", { class: "right" }, one.undone ? h("span", { class: "muted" }, "undone") : h("button", { type: "button", onclick: () => undo(one.id ?? one.receipt) }, may("manage") ? null : lockIcon(), "Undo")))))) : h("p", { class: "muted" }, "Nothing was removed."));
    } catch (error) {
      receipts.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  /** @param {string} id */
  async function undo(id) {
    if (!may("manage")) return dispatchEvent(new CustomEvent("ostler-ask", { detail: "manage" }));
    try {
      const done = await call("POST", `/v1/receipts/${encodeURIComponent(id)}/undo`);
      said.replaceChildren(h("p", { class: "notice", role: "status" }, `${plural(done.items?.length ?? done.count ?? 0, "thing")} brought back.`));
      say("Brought back.");
    } catch (error) {
      said.replaceChildren(failure(/** @type {any} */ (error)));
    }
    load();
    loadReceipts();
  }

  load();
  loadReceipts();
  let right = may("manage");
  return { element, title: "Clean up", update() { if (may("manage") !== right) { right = may("manage"); if (plan) draw(); loadReceipts(); } } };
}

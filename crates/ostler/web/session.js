// One session: talk, terminal, facts, timeline, usage, files; and what can be done with it.
import { call, get, getBlob, may, sessionPath } from "./api.js";
import { live } from "./app.js";
import { confirm, dialog, failure, h, loading, lockIcon } from "./dom.js";
import { answerKeys, looked } from "./overview.js";
import { replyBox } from "./reply.js";
import { TalkView } from "./talk.js";
import { TerminalPane } from "./terminal.js";
import { facts, files, timeline, usage } from "./views.js";
import { STATES, age, clock, count, fullTime, groupOf, lasted, money, nameOf, oneLine, pathOf, plural, projectOf, terminalOf, tokenSum } from "./words.js";

const TABS = [["talk", "Talk"], ["terminal", "Terminal"], ["facts", "Facts"], ["timeline", "Timeline"], ["usage", "Usage"], ["files", "Files"]];

/** @param {string} key @returns {Promise<import("./app.js").Page>} */
export async function sessionPage(key) {
  let { session } = await get(sessionPath(key));
  looked.note(key);
  const row = () => live.rows.get(key) ?? { ...session, key, group: groupOf(session), terminalName: session.linked?.find((/** @type {any} */ one) => one.agent === "terminal")?.name };
  const terminal = terminalOf(session);
  const head = h("div", { class: "sessionhead" });
  const banner = h("div", {});
  const panel = h("div", { id: "panel", role: "tabpanel" });
  const wanted = location.hash.slice(1);
  let entry = Number(wanted.match(/^e(\d+)$/)?.[1] ?? 0);
  let chosen = TABS.some(([id]) => id === wanted) ? wanted : session.kind === "hosted" ? "terminal" : "talk";
  /** @type {TalkView | null} */
  let talk = null;
  /** @type {TerminalPane | null} */
  let pane = null;
  const reply = replyBox(key, "the agent");
  const strip = h("p", { class: "strip num" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the session", onkeydown: tabKey }, TABS.map(([id, name], at) =>
    h("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "panel", title: `key ${at + 1}`, onclick: () => choose(id) }, name)));
  const element = h("div", {}, h("a", { class: "back", href: "/" }, "← overview"), head, banner, tabs, panel, strip, reply.element);

  /** @param {string} id */
  function choose(id) {
    chosen = id;
    entry = 0;
    history.replaceState(null, "", `${location.pathname}#${id}`);
    draw();
  }

  /** @param {KeyboardEvent} event */
  function tabKey(event) {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const at = TABS.findIndex(([id]) => id === chosen);
    choose(TABS[(at + step + TABS.length) % TABS.length][0]);
    /** @type {HTMLElement | null} */ (tabs.querySelector(`#tab-${chosen}`))?.focus();
  }

  function drawHead() {
    const now = row();
    const [glyph, word, colour] = STATES[now.group] ?? STATES.unknown;
    const fact = (/** @type {string} */ name, /** @type {any} */ value) => (value ? h("span", {}, `${name} `, h("b", {}, value)) : null);
    const text = JSON.stringify([now.group, nameOf(now), now.branch, now.model, age(now.lastActivityAt), now.tokens, now.costMicroUsd, now.owner, now.pinned, now.liveness, may("manage")]);
    drawBanner(now);
    drawStrip(now);
    drawReply(now);
    if (head.dataset.shown === text) return;
    head.dataset.shown = text;
    const focused = head.contains(document.activeElement) ? document.activeElement?.textContent : null;
    head.replaceChildren(
      h("div", { class: "titleline" },
        h("button", { type: "button", class: `chip ${colour}`, title: "why", onclick: () => choose("facts") }, `${glyph} ${word}${now.liveness.certainty === "derived" ? " ~" : ""}`),
        h("h1", {}, nameOf(now)),
        h("div", { class: "actions" }, actions().map(([name, right, run]) => action(name, right, run)),
          h("button", { type: "button", class: "icon", "aria-label": "All actions", title: "all actions (.)", onclick: showActions }, "⋯"))),
      h("div", { class: "facts num" }, fact("agent", now.agent), fact("project", projectOf(now)), fact("branch", oneLine(now.branch)), fact("model", oneLine(now.model)),
        h("span", { title: fullTime(now.lastActivityAt) }, fact("active", age(now.lastActivityAt))), fact("tokens", now.tokens ? count(tokenSum(now.tokens)) : ""), fact("cost", now.costMicroUsd ? money(now.costMicroUsd) : ""),
        fact("pid", now.owner ? String(now.owner.pid) : "")));
    if (focused) [...head.querySelectorAll("button")].find((one) => one.textContent === focused)?.focus({ preventScroll: true });
  }

  /** What the conversation came to so far, below its end. @param {any} now */
  function drawStrip(now) {
    const long = Date.parse(now.endedAt ?? now.lastActivityAt ?? "") - Date.parse(now.startedAt ?? "");
    const parts = [long >= 60_000 ? lasted(long) : "", now.turns ? plural(now.turns, "turn") : "", now.tokens ? `${count(tokenSum(now.tokens))} tokens` : "", now.costMicroUsd ? money(now.costMicroUsd) : ""];
    strip.textContent = parts.filter(Boolean).join(" · ");
    strip.hidden = chosen !== "talk" || !strip.textContent;
  }

  /** What it asks, with the keys that answer; or how it ended. @param {any} now */
  function drawBanner(now) {
    const isOver = ["exited", "failed", "destroyed"].includes(now.status);
    const asks = now.group === "needsYou" && now.waitingFor;
    const text = `${asks ? now.waitingFor : ""}${isOver ? `${now.status} ${now.endedAt}` : ""}${may("type")}`;
    if (banner.dataset.shown === text) return;
    banner.dataset.shown = text;
    const fail = (/** @type {any} */ error) => banner.append(failure(error));
    const ended = now.endedAt ?? now.lastActivityAt;
    banner.replaceChildren(...(asks ? [h("div", { class: "notice asks" }, h("span", { class: "state needsYou" }, h("i", { "aria-hidden": "true" }, STATES.needsYou[0]), "asks"), h("span", { class: "grow" }, oneLine(now.waitingFor)),
      terminal ? h("span", { class: "keys" }, answerKeys(terminal, nameOf(now), fail), h("a", { href: "#terminal", onclick: (/** @type {Event} */ event) => { event.preventDefault(); choose("terminal"); } }, "open terminal")) : null)] : []),
    ...(isOver ? [h("p", { class: "notice over" }, h("span", { title: fullTime(ended) }, `Ended ${ended && Date.now() - Date.parse(ended) > 86_400_000 ? fullTime(ended) : clock(ended)}`), ` (${oneLine(now.liveness.reason)}, ${now.liveness.certainty})`)] : []));
  }

  /** What can be done with it: name, right, how. @returns {[string, string, () => void][]} */
  function actions() {
    const now = row();
    const isOver = ["exited", "failed", "destroyed"].includes(now.status);
    return [...(now.owner && !isOver ? [/** @type {[string, string, () => void]} */ (["Stop", "manage", stop])] : []), [now.pinned ? "Unpin" : "Pin", "manage", pin]];
  }

  /** @param {string} name @param {string} right @param {() => void} run */
  function action(name, right, run) {
    return h("button", { type: "button", onclick: () => (may(right) ? run() : dispatchEvent(new CustomEvent("ostler-ask", { detail: right }))) }, may(right) ? null : lockIcon(), name);
  }

  /** Everything that can be done with it, in one place. */
  function showActions() {
    const close = () => box.close();
    const go = (/** @type {string} */ tab) => { close(); choose(tab); };
    const box = dialog(nameOf(row()), h("div", { class: "menu" }, [...actions(), ...(row().kind === "hosted" ? [] : [/** @type {[string, string, () => void]} */ (["Finalize", "manage", finalize])])].map(([name, right, run]) => action(name, right, () => { close(); run(); })),
      TABS.map(([id, name]) => h("button", { type: "button", onclick: () => go(id) }, name)), terminal ? h("a", { href: `${pathOf(row())}/play`, onclick: close }, "Recording") : null));
  }

  async function stop() {
    const owner = row().owner;
    if (!owner) return;
    const identity = `${owner.pid}:${owner.start}`;
    try {
      const plan = await call("POST", sessionPath(key, "/stop"), { identity, dryRun: true });
      const lines = plan.stopped.flatMap((/** @type {any} */ one) => one.processes.map((/** @type {any} */ told) => h("li", { class: "mono" }, `${told.process.pid} ${oneLine(told.process.comm ?? "")}`)));
      const isSure = await confirm(`Stop ${nameOf(row())}?`, [h("p", {}, "These processes would be asked to end, then made to:"), h("ul", {}, lines), h("p", { class: "muted" }, "Nothing is deleted.")], "Stop it");
      if (isSure) await call("POST", sessionPath(key, "/stop"), { identity });
    } catch (error) {
      banner.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  /** Ends what is over: first what would be done, with the reason why a session stays. */
  async function finalize() {
    try {
      const plan = await call("POST", sessionPath(key, "/finalize"), { dryRun: true }).catch((error) => {
        if (error.status === 404) return null;
        throw error;
      });
      const kept = plan?.kept.find((/** @type {any} */ one) => one.session === session.id);
      if (!plan?.ended.length) return void dialog("Nothing to finalize", h("p", {}, kept ? `It is left alone: ${oneLine(kept.reason)}.` : plan ? "Its agent is not proven to be gone." : "No hook told of it, or it is finalized already."));
      const lines = plan.ended.map((/** @type {any} */ one) => h("li", {}, `${oneLine(one.session)}: ${oneLine(one.reason)}`));
      const isSure = await confirm(`Finalize ${nameOf(row())}?`, [h("p", {}, "It would be ended, with a summary and a copy of its conversation:"), h("ul", {}, lines), h("p", { class: "muted" }, "Nothing is deleted.")], "Finalize it");
      if (!isSure) return;
      const identity = plan.ended.find((/** @type {any} */ one) => one.session === session.id)?.identity;
      await call("POST", sessionPath(key, "/finalize"), { identity });
      await look();
    } catch (error) {
      banner.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  async function pin() {
    try {
      await call(row().pinned ? "DELETE" : "PUT", sessionPath(key, "/pin"));
      await look();
    } catch (error) {
      banner.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  /** @param {any} now */
  function drawReply(now) {
    const asks = now.group === "needsYou" && now.status !== "failed";
    const isOver = ["exited", "failed", "destroyed"].includes(now.status);
    const reason = !terminal ? "It runs in no terminal of ostler's: a reply cannot be typed." : asks ? "It asks a question: answer it in its terminal." : null;
    reply.update(reason, now.kind !== "hosted" && !(isOver && reason));
  }

  function draw() {
    for (const one of tabs.children) {
      const isChosen = one.id === `tab-${chosen}`;
      one.setAttribute("aria-selected", String(isChosen));
      /** @type {HTMLElement} */ (one).tabIndex = isChosen ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", `tab-${chosen}`);
    // On a narrow page the tabs are wider than it: the chosen one is in sight.
    requestAnimationFrame(() => {
      const tab = /** @type {HTMLElement | null} */ (tabs.querySelector("[aria-selected=true]"));
      if (tab) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
    });
    pane?.close();
    pane = null;
    reply.element.hidden = chosen !== "talk";
    drawStrip(row());
    if (chosen === "talk") {
      talk ??= new TalkView(key, pathOf({ ...session, key }));
      panel.replaceChildren(talk.element);
      if (!talk.entries.length || entry) talk.load(entry || undefined);
    } else if (chosen === "terminal") drawTerminal();
    else drawOther(chosen);
  }

  function drawTerminal() {
    if (!terminal) {
      panel.replaceChildren(h("div", { class: "empty" }, h("p", { class: "big" }, "It runs in no terminal of ostler's."), h("p", {}, "One that does is started by ", h("code", {}, `ostler create --agent ${session.agent}`), ".")));
    } else if (["exited", "failed", "destroyed"].includes(row().status)) {
      panel.replaceChildren(h("p", { class: "muted" }, "It is over; this is its last screen."));
      get(`/v1/terminals/${encodeURIComponent(terminal)}/snapshot`).then((told) => {
        const rows = told.visibleLines.map((/** @type {any} */ line) => line.text ?? line).join("\n").trimEnd();
        panel.append(h("pre", { class: "pre", tabindex: "0", "aria-label": "last screen" }, rows));
      }, (error) => panel.append(failure(error)));
    } else {
      pane = new TerminalPane(terminal, nameOf(row()));
      panel.replaceChildren(pane.element);
      pane.show();
    }
    if (terminal) panel.append(h("p", { class: "toolbar" }, h("a", { href: `${pathOf({ ...session, key })}/play` }, "Recording"), h("button", { type: "button", class: "quiet", onclick: screenshot }, "Screenshot")));
  }

  async function screenshot() {
    const blob = await getBlob(`/v1/terminals/${encodeURIComponent(terminal ?? "")}/screenshot.png`);
    const url = URL.createObjectURL(blob);
    panel.append(h("p", {}, h("a", { href: url, download: `${nameOf(row())}.png` }, "Save the picture"), " ", h("img", { src: url, alt: "The screen as a picture", width: "320" })));
  }

  /** @param {string} id */
  async function drawOther(id) {
    panel.replaceChildren(loading("Looking …"));
    try {
      const made = id === "facts" ? await facts(key) : id === "timeline" ? await timeline(key) : id === "usage" ? await usage(key, session) : await files(key, session, terminal);
      if (chosen === id) panel.replaceChildren(made);
    } catch (error) {
      panel.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  let active = row().lastActivityAt;
  let wasLive = live.rows.has(key);
  /** It is over, or was over and began anew: everything stays, and its end is told. */
  async function look() {
    try {
      session = (await get(sessionPath(key))).session;
      drawHead();
    } catch (error) {
      banner.dataset.shown = "";
      banner.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }
  const anchored = () => {
    const number = Number(location.hash.match(/^#e(\d+)$/)?.[1] ?? 0);
    if (number && chosen === "talk") talk?.load(number);
  };
  addEventListener("hashchange", anchored);
  draw();
  return {
    element,
    title: nameOf(row()),
    update() {
      if (wasLive !== live.rows.has(key)) {
        wasLive = !wasLive;
        if (!wasLive) look();
      }
      drawHead();
      pane?.show();
      if (row().lastActivityAt !== active) {
        active = row().lastActivityAt;
        talk?.loadMore();
        if (document.visibilityState === "visible") looked.note(key);
      }
    },
    keydown(event) {
      const at = "123456".indexOf(event.key);
      if (at >= 0 && event.key) choose(TABS[at][0]);
      else if (event.key === "w") choose("facts");
      else if (event.key === ".") showActions();
      else if (event.key === "r") { event.preventDefault(); choose("talk"); reply.focus(); }
      else if (event.key === "i" && pane) { event.preventDefault(); pane.begin(); }
    },
    close() {
      removeEventListener("hashchange", anchored);
      pane?.close();
    },
  };
}

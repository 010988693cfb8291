// One session: talk, terminal, facts, timeline, usage, files; and what can be done with it.
import { call, get, getBlob, getLines, may, sessionPath } from "./api.js";
import { live } from "./app.js";
import { bars } from "./charts.js";
import { confirm, failure, h, svg } from "./dom.js";
import { looked, state } from "./overview.js";
import { TalkView } from "./talk.js";
import { TerminalPane } from "./terminal.js";
import { STATES, age, clock, count, fullTime, groupOf, money, nameOf, oneLine, projectOf, size, terminalOf, tokenSum } from "./words.js";

const TABS = [["talk", "Talk"], ["terminal", "Terminal"], ["facts", "Facts"], ["timeline", "Timeline"], ["usage", "Usage"], ["files", "Files"]];

/** @param {string} key @returns {Promise<import("./app.js").Page>} */
export async function sessionPage(key) {
  let { session } = await get(sessionPath(key));
  looked.note(key);
  const row = () => live.rows.get(key) ?? { ...session, key, group: groupOf(session) };
  const terminal = terminalOf(session);
  const head = h("div", { class: "sessionhead" });
  const banner = h("div", {});
  const panel = h("div", { id: "panel", role: "tabpanel" });
  const wanted = location.hash.slice(1);
  let chosen = TABS.some(([id]) => id === wanted) ? wanted : session.kind === "hosted" ? "terminal" : "talk";
  /** @type {TalkView | null} */
  let talk = null;
  /** @type {TerminalPane | null} */
  let pane = null;
  const draft = makeReply();
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the session", onkeydown: tabKey }, TABS.map(([id, name], at) =>
    h("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "panel", title: `key ${at + 1}`, onclick: () => choose(id) }, name)));
  const element = h("div", {}, h("a", { class: "back", href: "/" }, "← overview"), banner, head, tabs, panel, draft.element);

  /** @param {string} id */
  function choose(id) {
    chosen = id;
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
    head.replaceChildren(
      h("h1", {}, nameOf(now)),
      h("button", { type: "button", class: `chip ${colour}`, title: "why", onclick: () => choose("facts") }, `${glyph} ${word}${now.liveness.certainty === "derived" ? " ~" : ""}`),
      h("div", { class: "facts num" }, fact("agent", now.agent), fact("project", projectOf(now)), fact("branch", oneLine(now.branch)), fact("model", oneLine(now.model)),
        fact("active", age(now.lastActivityAt)), fact("tokens", now.tokens ? count(tokenSum(now.tokens)) : ""), fact("cost", now.costMicroUsd ? money(now.costMicroUsd) : ""),
        fact("pid", now.owner ? String(now.owner.pid) : "")),
      h("div", { class: "actions" }, action("Stop", "manage", stop, Boolean(now.owner)), action(now.pinned ? "Unpin" : "Pin", "manage", pin, true)));
    const isOver = ["exited", "failed", "destroyed"].includes(now.status);
    const asks = now.group === "needsYou" && now.waitingFor;
    banner.replaceChildren(...(asks ? [h("p", { class: "notice" }, state("needsYou"), ` ${oneLine(now.waitingFor)} `, terminal ? h("a", { href: "#terminal", onclick: (/** @type {Event} */ event) => { event.preventDefault(); choose("terminal"); } }, "open terminal") : null)] : []),
      ...(isOver ? [h("p", { class: "notice" }, `Ended ${fullTime(now.endedAt ?? now.lastActivityAt)} (${oneLine(now.liveness.reason)}, ${now.liveness.certainty})`)] : []));
    draft.update(now);
  }

  /** @param {string} name @param {string} right @param {() => void} run @param {boolean} isThere */
  function action(name, right, run, isThere) {
    if (!isThere) return null;
    return h("button", { type: "button", onclick: () => (may(right) ? run() : dispatchEvent(new CustomEvent("ostler-ask", { detail: right }))) }, may(right) ? name : `🔒 ${name}`);
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

  async function pin() {
    try {
      await call(row().pinned ? "DELETE" : "PUT", sessionPath(key, "/pin"));
      session = (await get(sessionPath(key))).session;
      drawHead();
    } catch (error) {
      banner.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  /** The reply box: a draft belongs to the session that it was begun for. */
  function makeReply() {
    const kept = `ostler.draft.${key}`;
    const box = h("textarea", { placeholder: "Reply", "aria-label": "Reply to the agent", rows: "1", value: sessionStorage.getItem(kept) ?? "",
      oninput: () => { sessionStorage.setItem(kept, box.value); box.style.height = "auto"; box.style.height = `${Math.min(200, box.scrollHeight + 2)}px`; },
      onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" && !event.shiftKey && !event.altKey) { event.preventDefault(); send(); } } });
    const button = h("button", { type: "button", class: "primary", onclick: send }, "Send");
    const receipt = h("div", { class: "receipt", role: "status" });
    const line = h("div", { class: "line" }, box, button);
    const closed = h("p", { class: "muted", hidden: true });
    async function send() {
      if (!box.value.trim() || button.disabled) return;
      if (!may("type")) return dispatchEvent(new CustomEvent("ostler-ask", { detail: "type" }));
      button.disabled = true;
      receipt.replaceChildren("sending …");
      try {
        const done = await call("POST", sessionPath(key, "/prompt"), { text: box.value });
        box.value = "";
        sessionStorage.removeItem(kept);
        receipt.replaceChildren(h("span", { class: "doneState" }, `✓ ${done.state}`), done.acceptedMs ? ` after ${done.acceptedMs} ms` : "");
      } catch (error) {
        receipt.replaceChildren(failure(/** @type {any} */ (error)));
      } finally {
        button.disabled = false;
      }
    }
    return {
      element: h("div", { class: "reply" }, closed, line, receipt),
      focus: () => box.focus(),
      /** @param {any} now */
      update(now) {
        const asks = now.group === "needsYou" && now.status !== "failed";
        const reason = now.kind === "hosted" ? null : !terminal ? "It runs in no terminal of ostler's: a reply cannot be typed." : asks ? "It asks a question: answer it in its terminal." : null;
        line.hidden = Boolean(reason) || now.kind === "hosted";
        closed.hidden = !reason || ["exited", "failed", "destroyed"].includes(now.status);
        closed.textContent = reason ?? "";
        button.textContent = may("type") ? "Send" : "🔒 Send";
      },
    };
  }

  function draw() {
    for (const one of tabs.children) {
      const isChosen = one.id === `tab-${chosen}`;
      one.setAttribute("aria-selected", String(isChosen));
      /** @type {HTMLElement} */ (one).tabIndex = isChosen ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", `tab-${chosen}`);
    pane?.close();
    pane = null;
    draft.element.hidden = chosen !== "talk";
    if (chosen === "talk") {
      talk ??= new TalkView(key);
      panel.replaceChildren(talk.element);
      if (!talk.entries.length) talk.load();
    } else if (chosen === "terminal") drawTerminal();
    else drawOther(chosen);
  }

  function drawTerminal() {
    if (!terminal) {
      panel.replaceChildren(h("p", { class: "empty" }, "It runs in no terminal of ostler's."));
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
    if (terminal) panel.append(h("p", { class: "toolbar" }, h("button", { type: "button", class: "quiet", onclick: screenshot }, "Screenshot")));
  }

  async function screenshot() {
    const blob = await getBlob(`/v1/terminals/${encodeURIComponent(terminal ?? "")}/screenshot.png`);
    const url = URL.createObjectURL(blob);
    panel.append(h("p", {}, h("a", { href: url, download: `${nameOf(row())}.png` }, "Save the picture"), " ", h("img", { src: url, alt: "The screen as a picture", width: "320" })));
  }

  /** @param {string} id */
  async function drawOther(id) {
    panel.replaceChildren();
    try {
      const made = id === "facts" ? await facts(key) : id === "timeline" ? await timeline(key) : id === "usage" ? usage(session) : await files(key, session);
      if (chosen === id) panel.replaceChildren(made);
    } catch (error) {
      panel.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  let active = row().lastActivityAt;
  draw();
  return {
    element,
    title: nameOf(row()),
    update() {
      drawHead();
      pane?.show();
      if (row().lastActivityAt !== active) {
        active = row().lastActivityAt;
        talk?.loadMore();
        looked.note(key);
      }
    },
    keydown(event) {
      const at = "123456".indexOf(event.key);
      if (at >= 0 && event.key) choose(TABS[at][0]);
      else if (event.key === "w") choose("facts");
      else if (event.key === "r") { event.preventDefault(); choose("talk"); draft.focus(); }
      else if (event.key === "i" && pane) { event.preventDefault(); pane.begin(); }
    },
    close() {
      pane?.close();
    },
  };
}

/** The evidence of `why`, the line that decided marked. @param {string} key */
async function facts(key) {
  const why = await get(sessionPath(key, "/why"));
  const decided = why.verdict.decidedBy;
  const cells = ["fact", "value", "source", "effect", "age"];
  return h("div", {}, h("p", { class: "notice" }, `${why.verdict.status}: ${why.verdict.liveness} (${oneLine(why.verdict.reason)})`),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "evidence" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, cells.map((cell) => h("th", { scope: "col" }, cell)))),
      h("tbody", {}, why.evidence.map((/** @type {any} */ one, /** @type {number} */ at) => h("tr", { class: at === decided ? "verdict" : null },
        h("td", {}, oneLine(one.fact)), h("td", { class: "mono" }, oneLine(String(one.value ?? ""))), h("td", {}, oneLine(one.source)), h("td", {}, oneLine(one.effect ?? "")),
        h("td", { class: "num", title: fullTime(one.observedAt) }, one.ageMs === undefined ? "" : one.ageMs < 1000 ? "now" : `${Math.round(one.ageMs / 1000)} s`)))))),
    h("p", { class: "muted" }, `May it be collected? ${why.collect.allowed ? "Yes" : "No"}: ${oneLine(why.collect.reason)}${why.collect.remedy ? `; ${oneLine(why.collect.remedy)}` : ""}`));
}

/** Turns and tools on one axis; long pauses are pressed together and marked. @param {string} key */
async function timeline(key) {
  const [talk, events] = [await get(sessionPath(key, "/talk?last=400")), /** @type {any[]} */ ([])];
  const id = talk.id;
  await getLines(`/v1/sessions/${encodeURIComponent(id)}/timeline`, (line) => events.push(line)).catch(() => {});
  const marks = [...talk.entries.filter((/** @type {any} */ one) => one.at).map((/** @type {any} */ one) => ({ at: one.at, what: one.role === "tool" ? oneLine(one.tool) : one.role === "user" ? "you" : one.role, kind: one.role })),
    ...events.map((one) => ({ at: one.at, what: one.type ?? one.kind, kind: "event" }))].sort((one, other) => (one.at < other.at ? -1 : 1));
  if (!marks.length) return h("p", { class: "empty" }, "Nothing has a time.");
  const rows = [];
  let before = Date.parse(marks[0].at);
  for (const mark of marks) {
    const gap = (Date.parse(mark.at) - before) / 1000;
    if (gap > 300) rows.push(h("tr", {}, h("td", { colspan: "3", class: "muted" }, `… ${gap > 3600 ? `${Math.round(gap / 3600)} h` : `${Math.round(gap / 60)} min`} without anything …`)));
    rows.push(h("tr", {}, h("td", { class: "num", title: fullTime(mark.at) }, clock(mark.at)), h("td", { class: mark.kind === "user" ? "needsYou" : mark.kind === "event" ? "working" : "" }, mark.what), h("td", { class: "muted num right" }, gap >= 1 ? `+${Math.round(gap)} s` : "")));
    before = Date.parse(mark.at);
  }
  return h("div", {}, strip(marks), h("p", { class: "muted" }, `${marks.length} entries, newest last; pauses over five minutes are pressed together`),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "timeline" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["time", "what", "after"].map((cell) => h("th", { scope: "col" }, cell)))), h("tbody", {}, rows))));
}

/** All of it on one axis. @param {{at: string, what: string, kind: string}[]} marks */
function strip(marks) {
  let at = 0, before = Date.parse(marks[0].at);
  const places = marks.map((mark) => {
    at += Math.min(300, (Date.parse(mark.at) - before) / 1000) + 1;
    before = Date.parse(mark.at);
    return at;
  });
  const scale = 996 / Math.max(1, at);
  return svg("svg", { class: "strip", viewBox: "0 0 1000 32", preserveAspectRatio: "none", role: "img", "aria-label": "The session on one axis; the table below has the same entries" },
    marks.map((mark, one) => svg("rect", { class: mark.kind, x: places[one] * scale, y: mark.kind === "user" ? 0 : 8, width: 3, height: mark.kind === "user" ? 32 : 16 })));
}

/** @param {any} session */
function usage(session) {
  const tokens = session.tokens;
  if (!tokens) return h("p", { class: "empty" }, "The agent states no usage.");
  const kinds = [["input", tokens.input], ["output", tokens.output], ["cache read", tokens.cacheRead], ["cache write", tokens.cacheWrite]];
  return h("div", { class: "grid2" }, h("section", { class: "panel" }, h("h2", {}, "Tokens by kind"), bars(kinds.map(([label, value]) => ({ label, parts: [value] })), ["tokens"]),
    h("table", { class: "plain" }, h("tbody", {}, kinds.map(([label, value]) => h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "right" }, value.toLocaleString("en")))),
      session.costMicroUsd ? h("tr", {}, h("th", { scope: "row" }, "cost, stated"), h("td", { class: "right" }, money(session.costMicroUsd))) : null,
      session.turns ? h("tr", {}, h("th", { scope: "row" }, "turns"), h("td", { class: "right" }, session.turns)) : null))));
}

/** @param {string} key @param {any} session */
async function files(key, session) {
  const talk = await get(sessionPath(key, "/talk?last=1000"));
  /** @type {Map<string, number>} */
  const touched = new Map();
  for (const entry of talk.entries) {
    if (entry.role !== "tool") continue;
    const found = JSON.stringify(entry.blocks).match(/\\"(?:file_path|path|filePath)\\":\s*\\"(.*?)\\"/g) ?? [];
    for (const one of found) {
      const path = one.replace(/^.*?:\s*\\"/, "").replace(/\\"$/, "");
      touched.set(path, (touched.get(path) ?? 0) + 1);
    }
  }
  const line = (/** @type {string} */ name, /** @type {string} */ path, /** @type {string} */ more) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "mono" }, oneLine(path)), h("td", { class: "right" }, more));
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "files" }, h("table", { class: "plain" }, h("tbody", {},
    session.cwd ? line("directory", session.cwd, "") : null,
    session.transcript ? line("transcript", session.transcript.path, size(session.transcript.bytes)) : null,
    [...touched].sort((one, other) => other[1] - one[1]).slice(0, 200).map(([path, times]) => line("touched", path, `×${times}`)))));
}

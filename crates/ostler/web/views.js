// The tabs of a session beside talk and terminal: facts, timeline, usage, files.
import { get, getLines, newestTalk, sessionPath } from "./api.js";
import { columns, curve, legend, sized } from "./charts.js";
import { h, headRow, svg, tableBox } from "./dom.js";
import { state } from "./overview.js";
import { age, clock, count, fullTime, groupOf, money, oneLine, plural, size, tokenSum } from "./words.js";

/** A pause longer than this is pressed together. */
const LONG_PAUSE = 300;
const KINDS = ["input", "output", "cache write", "cache read"];
/** Steps that have a row in the table and a bar in the chart. */
const MOST_STEPS = 400;
/** Entries of a conversation that its timeline and its files are read from. */
const MOST_ENTRIES = 400;

/** The evidence of `why`, the line that decided marked. @param {string} key */
export async function facts(key) {
  const why = await get(sessionPath(key, "/why"));
  const aged = (/** @type {any} */ one) => (one.ageMs === undefined ? "" : one.ageMs < 1000 ? "now" : one.ageMs < 60_000 ? `${Math.round(one.ageMs / 1000)}s` : age(one.observedAt));
  return h("div", {}, h("p", { class: "verdictline" }, state(groupOf(why.session)), h("span", {}, `${why.verdict.status}, ${why.verdict.liveness}: ${oneLine(why.verdict.reason)}`)),
    tableBox("evidence", headRow([["fact"], ["value"], ["effect"], ["source"], ["age", "right"]]),
      h("tbody", {}, why.evidence.map((/** @type {any} */ one) => h("tr", { class: /^decides/.test(one.effect ?? "") ? "verdict" : null },
        h("td", {}, oneLine(one.fact)), h("td", { class: "mono" }, oneLine(String(one.value ?? ""))), h("td", {}, oneLine(one.effect ?? "")), h("td", { class: "source" }, oneLine(one.source)),
        h("td", { class: "right", title: fullTime(one.observedAt) }, aged(one)))))),
    h("p", { class: "verdictline" }, h("b", {}, `May it be collected? ${why.collect.allowed ? "Yes." : "No."}`), h("span", { class: "muted" }, `${oneLine(why.collect.reason)}${why.collect.remedy ? `; ${oneLine(why.collect.remedy)}` : ""}`)));
}

const LANES = [["you", "you"], ["agent", "agent"], ["tool", "tools"], ["event", "events"]];

/** Which lane an entry of the conversation is in. @param {string} role */
const laneOf = (role) => (role === "user" ? "you" : role === "assistant" ? "agent" : "tool");

/** Turns, tools, waits and ends on one axis; long pauses are pressed together and marked. @param {string} key */
export async function timeline(key) {
  const talk = await newestTalk(key, MOST_ENTRIES);
  const events = /** @type {any[]} */ ([]);
  // An agent without hooks has no events: its conversation is its timeline.
  await getLines(`/v1/sessions/${encodeURIComponent(talk.id)}/timeline`, (line) => events.push(line)).catch(() => {});
  const marks = [...talk.entries.filter((/** @type {any} */ one) => one.at && one.role !== "result").map((/** @type {any} */ one) => ({ at: one.at, what: one.role === "tool" ? oneLine(one.tool) : one.role === "user" ? "you" : one.role === "assistant" ? "agent" : one.role, lane: laneOf(one.role) })),
    ...events.filter((one) => one.at).map((one) => ({ at: one.at, what: oneLine(one.type ?? one.kind), lane: "event" }))].sort((one, other) => (one.at < other.at ? -1 : 1));
  if (!marks.length) return h("p", { class: "empty" }, "Nothing has a time.");
  const rows = [];
  let before = Date.parse(marks[0].at);
  for (const mark of marks) {
    const gap = (Date.parse(mark.at) - before) / 1000;
    if (gap > LONG_PAUSE) rows.push(h("tr", {}, h("td", { colspan: "3", class: "muted" }, `… ${pause(gap)} without anything …`)));
    rows.push(h("tr", {}, h("td", { class: "num", title: fullTime(mark.at) }, clock(mark.at)), h("td", {}, h("span", { class: `lane ${mark.lane}` }), mark.what), h("td", { class: "muted num right" }, gap >= 1 ? `+${pause(gap)}` : "")));
    before = Date.parse(mark.at);
  }
  return h("div", { class: "timeline" }, h("section", { class: "panel" }, h("h2", {}, `${clock(marks[0].at)} to ${clock(marks[marks.length - 1].at)} · ${marks.length.toLocaleString("en")} marks`), sized((width) => axis(marks, width))),
    tableBox("timeline", headRow([["time"], ["what"], ["after", "right"]]), h("tbody", {}, rows)));
}

/** @param {number} seconds */
const pause = (seconds) => (seconds >= 5400 ? `${Math.round(seconds / 3600)} h` : seconds >= 60 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds)} s`);

/** @param {{at: string, what: string, lane: string}[]} marks @param {number} width */
function axis(marks, width) {
  const left = 56, tall = 26, height = LANES.length * tall + 22;
  let at = 0, before = Date.parse(marks[0].at);
  const places = marks.map((mark) => {
    const gap = (Date.parse(mark.at) - before) / 1000;
    at += Math.min(LONG_PAUSE, gap);
    before = Date.parse(mark.at);
    return { at, isPressed: gap > LONG_PAUSE };
  });
  const scale = (width - left - 8) / Math.max(1, at);
  const chart = svg("svg", { class: "chart", width, height, role: "img", "aria-label": "The session on one axis; the table below has the same entries" });
  LANES.forEach(([, name], lane) => {
    const y = lane * tall + tall / 2;
    chart.append(svg("text", { x: 0, y: y + 4 }, name), svg("line", { class: "axis", x1: left, x2: width, y1: y, y2: y }));
  });
  marks.forEach((mark, one) => {
    const x = left + places[one].at * scale;
    if (places[one].isPressed) chart.append(svg("line", { class: "pressed", x1: x - 4, x2: x - 4, y1: 0, y2: LANES.length * tall }));
    const lane = LANES.findIndex(([id]) => id === mark.lane);
    chart.append(svg("rect", { class: `lane ${mark.lane}`, x, y: lane * tall + 6, width: 4, height: tall - 12, rx: 2 }, svg("title", {}, `${clock(mark.at)} ${mark.what}`)));
  });
  let last = -100;
  marks.forEach((mark, one) => {
    const x = left + places[one].at * scale;
    if (x - last < 64 || x > width - 36) return;
    last = x;
    chart.append(svg("text", { x, y: height - 4 }, clock(mark.at)));
  });
  return chart;
}

/** Tokens by kind and answer, how full the context was, cost where it is stated. @param {string} key @param {any} session */
export async function usage(key, session) {
  if (!session.tokens) return h("div", { class: "empty" }, h("p", { class: "big" }, "The agent states no usage."));
  const { steps } = await get(sessionPath(key, "/usage"));
  const shown = steps.slice(-MOST_STEPS);
  const parts = (/** @type {any} */ tokens) => [tokens.input, tokens.output, tokens.cacheWrite, tokens.cacheRead];
  let spent = 0;
  const costs = shown.map((/** @type {any} */ one) => (spent += one.costMicroUsd ?? 0));
  const hasCost = spent > 0;
  const sum = h("p", { class: "verdictline" }, h("b", {}, `${count(tokenSum(session.tokens))} tokens`), h("span", { class: "muted" }, [session.turns ? plural(session.turns, "turn") : "", session.costMicroUsd ? `${money(session.costMicroUsd)} stated` : "no cost stated"].filter(Boolean).join(" · ")));
  return h("div", {}, sum, h("section", { class: "panel" }, h("h2", {}, "Tokens by answer"), legend(KINDS), columns(shown.map((/** @type {any} */ one, /** @type {number} */ at) => ({ label: `answer ${at + 1}, ${clock(one.at)}`, note: String(at + 1), parts: parts(one.tokens) })), KINDS)),
    h("div", { class: "grid2" }, h("section", { class: "panel" }, h("h2", {}, "Context"), curve(shown.map((/** @type {any} */ one) => one.context), "Tokens that the model was given")),
      hasCost ? h("section", { class: "panel" }, h("h2", {}, "Cost so far, stated"), curve(costs, "Dollars so far", money)) : null),
    tableBox("usage by answer", headRow([["answer"], ["time"], ["model"], ...[...KINDS, "context"].map((kind) => /** @type {[string, string]} */ ([kind, "right"])), ...(hasCost ? [/** @type {[string, string]} */ (["cost so far", "right"])] : [])]),
      h("tbody", {}, shown.map((/** @type {any} */ one, /** @type {number} */ at) => h("tr", {}, h("th", { scope: "row" }, String(at + 1 + steps.length - shown.length)), h("td", { title: fullTime(one.at) }, clock(one.at)), h("td", {}, oneLine(one.model ?? "")),
        parts(one.tokens).map((part) => h("td", { class: "right" }, part.toLocaleString("en"))), h("td", { class: "right" }, one.context.toLocaleString("en")), hasCost ? h("td", { class: "right" }, money(costs[at])) : null)))));
}

/** Paths that tools touched, and where the session itself is kept. @param {string} key @param {any} session @param {string | undefined} terminal */
export async function files(key, session, terminal) {
  const talk = session.kind === "hosted" ? { entries: [] } : await newestTalk(key, MOST_ENTRIES);
  /** @type {Map<string, number>} */
  const touched = new Map();
  for (const entry of talk.entries) {
    if (entry.role !== "tool") continue;
    for (const found of JSON.stringify(entry.blocks).matchAll(/\\"(?:file_path|path|filePath|notebook_path)\\":\s*\\"(.*?)\\"/g)) touched.set(found[1], (touched.get(found[1]) ?? 0) + 1);
  }
  const line = (/** @type {string} */ name, /** @type {string} */ path, /** @type {string} */ more) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "mono" }, oneLine(path)), h("td", { class: "right" }, more));
  const kept = [session.cwd ? line("directory", session.cwd, "") : null, session.transcript ? line("transcript", session.transcript.path, size(session.transcript.bytes)) : null];
  if (terminal) {
    const told = await get(`/v1/terminals/${encodeURIComponent(terminal)}`).catch(() => null);
    const made = told?.artifacts;
    if (made?.total) kept.push(line("artifacts", Object.entries(made.byKind).map(([kind, number]) => `${kind} ×${number}`).join(", "), oneLine(made.health)));
  }
  const paths = [...touched].sort((one, other) => other[1] - one[1]).slice(0, 200);
  return h("div", { class: "files" }, tableBox("kept files", h("tbody", {}, kept)),
    paths.length ? [h("h2", { class: "head" }, `Touched by tools, newest ${MOST_ENTRIES} entries`), tableBox("touched files", h("tbody", {}, paths.map(([path, times]) => line("touched", path, `×${times}`))))] : h("p", { class: "muted" }, "No tool named a file."));
}

// States, ages and numbers as people read them: one place for the words of every page.

/** @typedef {{key: string, id: string, agent: string, kind: string, status: string, group: string, activity?: string,
 *   waitingFor?: string, stale?: boolean, activityDerived?: boolean, pinned?: boolean, title?: string, name?: string,
 *   cwd?: string, branch?: string, model?: string, lastActivityAt?: string, startedAt?: string, endedAt?: string,
 *   tokens?: {input: number, output: number, cacheRead: number, cacheWrite: number}, costMicroUsd?: number,
 *   turns?: number, owner?: {pid: number, start: number, comm: string}, linked?: {agent: string, id: string, name?: string}[],
 *   terminalName?: string, liveness: {state: string, reason: string, certainty: string}, transcript?: {path: string, bytes: number}}} Row */

/** Glyph, word and colour class of each group. @type {Record<string, [string, string, string]>} */
export const STATES = {
  needsYou: ["▲", "needs you", "needsYou"],
  done: ["✓", "done", "doneState"],
  working: ["●", "working", "working"],
  idle: ["○", "idle", "idle"],
  unknown: ["?", "unknown", "unknown"],
  ended: ["·", "ended", "ended"],
  failed: ["✗", "failed", "failed"],
};

/** What may be removed, as people call it. @type {Record<string, string>} */
export const REMOVABLE = {
  hostedSession: "terminals", launchRecord: "launch records", spill: "spilled payloads", vaultCopy: "vault copies", socket: "dead sockets",
  temporary: "temporary files", archive: "archives", transcript: "transcripts", worktree: "git worktrees", accessSession: "access sessions", accessLog: "access logs",
};

/** The order in which groups are shown. */
export const GROUPS = ["needsYou", "done", "working", "idle", "unknown", "ended"];

// Controls, and marks that change the direction of what follows them.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]/g;

/** Foreign text with what would act on it made visible. @param {string} text */
export function plain(text) {
  return text.replace(HIDDEN, (sign) => `\\u{${sign.charCodeAt(0).toString(16)}}`);
}

/** @param {string | undefined} text */
export function oneLine(text) {
  return plain((text ?? "").replace(/\s+/g, " ").trim());
}

/** The group of what `show` and `ls` say, where no group is given. @param {any} session */
export function groupOf(session) {
  if (session.group) return session.group;
  if (session.status === "unknown") return "unknown";
  if (session.status === "failed") return "failed";
  if (["exited", "destroyed"].includes(session.status)) return "ended";
  if (session.activity === "waiting") return "needsYou";
  if (session.activity === "working") return "working";
  if (session.activity === "idle") return "idle";
  return session.kind === "hosted" ? "working" : "unknown";
}

/** @param {Row} row */
export function nameOf(row) {
  return oneLine(row.name || row.terminalName || row.title || row.id);
}

/** @param {Row} row */
export function projectOf(row) {
  return oneLine((row.cwd ?? "").split("/").filter(Boolean).pop() ?? "");
}

/** What a session is doing, in a few words. @param {Row} row */
export function doingOf(row) {
  if (row.group === "needsYou") return oneLine(row.waitingFor || "waits for you");
  if (row.stale) return `stale: no sign for ${age(row.lastActivityAt)}`;
  // A program is called by its name: where it lies says less than what it is given.
  return oneLine(row.kind === "hosted" ? (row.title ?? "").replace(/^\/\S*\/(?=\S)/, "") : row.title ?? "");
}

/** The terminal that a session runs in. @param {any} row @returns {string | undefined} */
export function terminalOf(row) {
  if (row.kind === "hosted") return row.id;
  return row.linked?.find((/** @type {any} */ one) => one.agent === "terminal")?.id;
}

/** @param {string | undefined} at @param {number} [now] */
export function age(at, now = Date.now()) {
  if (!at) return "";
  const seconds = Math.max(0, (now - Date.parse(at)) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** How long something took. @param {number} ms */
export function lasted(ms) {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

/** @param {string | undefined} at */
export function clock(at) {
  return at ? new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : "";
}

/** @param {string | undefined} at */
export function fullTime(at) {
  return at ? new Date(at).toLocaleString("en-GB") : "";
}

/** @param {number} count */
export function count(count) {
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)}G`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(1)}M`;
  if (count >= 1e3) return `${Math.round(count / 1e3)}k`;
  return String(count);
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  for (; bytes >= 1000 && at < units.length - 1; at++) bytes /= 1000;
  return `${bytes < 10 && at > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`;
}

/** @param {number} micro */
export function money(micro) {
  return `$${(micro / 1e6).toFixed(2)}`;
}

/** @param {any} tokens */
export function tokenSum(tokens) {
  return tokens ? tokens.input + tokens.output + tokens.cacheRead + tokens.cacheWrite : 0;
}

/** What a sum cost, and what of it has no price. @param {any} sum */
export function costOf(sum) {
  const parts = [];
  if (sum.statedMicroUsd !== undefined) parts.push(`${money(sum.statedMicroUsd)} stated`);
  if (sum.pricedMicroUsd !== undefined) parts.push(`${money(sum.pricedMicroUsd)} by your prices`);
  if (sum.unpricedTokens > 0) parts.push(`${count(sum.unpricedTokens)} tokens without a price`);
  return parts.join(" · ");
}

/** @param {number} number @param {string} word */
export function plural(number, word) {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

/** The address of a session's page. @param {{key?: string, agent: string, id: string}} row */
export function pathOf(row) {
  return `/s/${encodeURIComponent(row.key ?? `${row.agent}:${row.id}`)}`;
}

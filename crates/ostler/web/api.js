// The public API: a token that lives in this tab, the envelope of the command line, errors with remedies.

/** An error as the API tells it. */
export class ApiError extends Error {
  /** @param {number} status @param {{code: string, message: string, hint?: string}} body */
  constructor(status, body) {
    super(body.message);
    this.status = status;
    this.code = body.code;
    this.hint = body.hint;
  }
}

const KEY = "ostler.token";
export const VERSION = document.querySelector("meta[name=ostler-version]")?.getAttribute("content") ?? "";

/** What this tab may do; listeners are told when that changes. */
export const tab = { right: "", name: "", keptUntil: "", listeners: /** @type {Set<() => void>} */ (new Set()) };

const RIGHTS = ["watch", "type", "manage"];

/** @param {string} right */
export function may(right) {
  return RIGHTS.indexOf(tab.right) >= RIGHTS.indexOf(right);
}

/** @param {string} right */
export function setRight(right) {
  if (tab.right === right) return;
  tab.right = right;
  for (const tell of tab.listeners) tell();
}

// A browser that is kept signed in has its token for every tab; any other has it in one.
const token = () => sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? "";

export function forgetToken() {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
}

/** This browser stays signed in. @param {any} told the tab, as the server keeps it */
export function keepToken(told) {
  localStorage.setItem(KEY, token());
  tab.keptUntil = told.keptUntil ?? "";
}

/** The connection ended before an answer came: what only reads can be asked again, anything else may have been done. @param {string} method */
function lostAnswer(method) {
  const isRead = method === "GET";
  return new ApiError(0, { code: isRead ? "UNREACHABLE" : "MAY_HAVE_APPLIED", message: "The connection ended before the answer came.",
    hint: isRead ? "It is tried again when the server is back." : "The receipts and `ostler events` tell what was done." });
}

/**
 * @param {string} method @param {string} path @param {any} [body] @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
async function ask(method, path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = { Authorization: `Bearer ${token()}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, {
    method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store",
  }).catch((error) => { throw signal?.aborted ? error : lostAnswer(method); });
  if (response.ok) return response;
  let told = { code: "UNREADABLE", message: `the server answered ${response.status}` };
  try { told = (await response.json()).error ?? told; } catch { /* it has no envelope */ }
  if (response.status === 401 && path !== "/v1/tab") dispatchEvent(new Event("ostler-signed-out"));
  throw new ApiError(response.status, told);
}

/** A call; what it answers. @param {string} method @param {string} path @param {any} [body] @param {AbortSignal} [signal] */
export async function call(method, path, body, signal) {
  return (await (await ask(method, path, body, signal)).json()).result;
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => call("GET", path, undefined, signal);

/** A file of the API. @param {string} path */
export async function getBlob(path) {
  return (await ask("GET", path)).blob();
}

/** A line that says why the stream ends is no answer. @param {any} line */
function whole(line) {
  if (line.ok !== false || !line.error) return line;
  if (line.error.code === "UNAUTHORIZED") dispatchEvent(new Event("ostler-signed-out"));
  throw new ApiError(0, line.error);
}

/**
 * Lines of JSON, as they come.
 * @param {string} path @param {(line: any) => void} take @param {AbortSignal} [signal]
 */
export async function getLines(path, take, signal) {
  const response = await ask("GET", path, undefined, signal);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (reader) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop() ?? "";
    for (const line of lines) if (line.trim()) take(whole(JSON.parse(line)));
    if (done) return;
  }
}

/** The path of a session's route. @param {string} key @param {string} [rest] */
export function sessionPath(key, rest = "") {
  return `/v1/sessions/${encodeURIComponent(key)}${rest}`;
}

/** The newest entries of a conversation: the server gives 200 at once. @param {string} key @param {number} most */
export async function newestTalk(key, most) {
  const talk = await get(sessionPath(key, "/talk?last=200"));
  while (talk.entries.length < most && talk.entries[0]?.number > 1) {
    const first = talk.entries[0].number, from = Math.max(1, first - 200);
    const { entries } = await get(sessionPath(key, `/talk?from=${from}&limit=${first - from}`));
    if (!entries.length) break;
    talk.entries = [...entries, ...talk.entries];
  }
  return talk;
}

/** Signs this tab in by the key in the fragment, or by the token that it has; whether it has one now. @returns {Promise<boolean>} */
export async function signIn() {
  const key = new URLSearchParams(location.hash.slice(1)).get("k");
  if (!key) return Boolean(token());
  // The key is of no use to anybody who sees the address later.
  history.replaceState(null, "", location.pathname + location.search);
  try {
    const made = await call("POST", "/v1/tab", { key });
    sessionStorage.setItem(KEY, made.token);
    takeTab(made.tab ?? made);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    return Boolean(token());
  }
}

/** @param {any} told */
function takeTab(told) {
  tab.name = told.name ?? tab.name;
  tab.keptUntil = told.keptUntil ?? "";
  if (told.right) setRight(told.right);
}

/** What this tab may do, and whether its token is any good: one that is not signs it out. */
export async function lookAtTab() {
  takeTab(await get("/v1/tab"));
}

// One WebSocket for everything that is pushed to this tab: subscriptions that survive a lost connection.
import { VERSION, call, setRight } from "./api.js";

/** @typedef {{ask: any, take: (frame: any) => void, isTerminal: boolean, paused: boolean}} Channel */

const SILENCE = 30_000;
const HIDDEN_FOR = 10_000;

/** @type {Map<number, Channel>} */
const channels = new Map();
let next = 1;
/** @type {WebSocket | null} */
let socket = null;
let wait = 500;
let heard = 0;
let isEnded = false;
let timer = 0;
let pause = 0;
let silence = 0;

/** Whether the connection lives; listeners are told when that changes. */
export const link = { isUp: false, isOtherVersion: false, lostAt: 0, heardAt: () => heard, listeners: /** @type {Set<() => void>} */ (new Set()) };

/** @param {boolean} isUp */
function setUp(isUp) {
  if (link.isUp === isUp) return;
  link.isUp = isUp;
  if (!isUp) link.lostAt = Date.now();
  for (const tell of link.listeners) tell();
}

/** Whether it was handed to the connection. @param {any} message */
function send(message) {
  if (socket?.readyState !== WebSocket.OPEN) return false;
  socket.send(JSON.stringify(message));
  return true;
}

/** @param {number} ch @param {Channel} channel */
function begin(ch, channel) {
  if (!channel.paused) send({ op: "sub", ch, ...channel.ask });
}

async function connect() {
  clearTimeout(timer);
  if (isEnded || socket) return;
  try {
    const { ticket } = await call("POST", "/v1/tickets");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const made = new WebSocket(`${scheme}://${location.host}/v1/stream`, ["ostler.v1", `ticket.${ticket}`]);
    socket = made;
    made.onopen = () => {
      wait = 500;
      heard = Date.now();
      watchSilence();
      send({ op: "hello", version: VERSION });
      for (const [ch, channel] of channels) begin(ch, channel);
      setUp(true);
    };
    made.onmessage = (event) => take(JSON.parse(event.data));
    made.onclose = (event) => {
      if (socket !== made) return;
      socket = null;
      setUp(false);
      if (event.code === 4001) return reloadOnce();
      if (event.code === 4003) {
        isEnded = true;
        dispatchEvent(new Event("ostler-signed-out"));
        return;
      }
      retry();
    };
  } catch (error) {
    socket = null;
    setUp(false);
    if (/** @type {any} */ (error).status === 401) isEnded = true;
    else retry();
  }
}

function retry() {
  clearTimeout(timer);
  timer = setTimeout(connect, wait);
  wait = Math.min(wait * 2, 10_000);
}

/** A page of another version is loaded anew, once; if that changes nothing, a person is told. */
function reloadOnce() {
  if (sessionStorage.getItem("ostler.reloaded") === VERSION) {
    link.isOtherVersion = true;
    for (const tell of link.listeners) tell();
    return;
  }
  sessionStorage.setItem("ostler.reloaded", VERSION);
  location.reload();
}

/** @param {any} frame */
function take(frame) {
  heard = Date.now();
  if (frame.ping) send({ op: "pong" });
  else if (frame.right) setRight(frame.right);
  else channels.get(frame.ch)?.take(frame);
}

/** A connection that froze without an end says nothing, not even a ping: then it counts as lost, and another is made. */
function watchSilence() {
  clearTimeout(silence);
  silence = setTimeout(() => {
    if (!socket) return;
    if (Date.now() - heard <= SILENCE) watchSilence();
    else lookAgain();
  }, Math.max(0, heard + SILENCE - Date.now()) + 50);
}

/** A socket that was frozen with its machine looks alive: it is asked about when the page is. */
function lookAgain() {
  if (isEnded) return;
  if (socket && Date.now() - heard > SILENCE) {
    const old = socket;
    socket = null;
    old.close();
    setUp(false);
  }
  if (!socket) {
    wait = 500;
    connect();
  }
}

/** A page that nobody sees watches no terminal. */
function visibilityChanged() {
  clearTimeout(pause);
  if (document.visibilityState === "visible") {
    lookAgain();
    for (const [ch, channel] of channels) {
      if (channel.paused) {
        channel.paused = false;
        begin(ch, channel);
      }
    }
    return;
  }
  pause = setTimeout(() => {
    for (const [ch, channel] of channels) {
      if (channel.isTerminal && !channel.paused) {
        channel.paused = true;
        send({ op: "unsub", ch });
      }
    }
  }, HIDDEN_FOR);
}

/** Begins; the connection is kept from now on. */
export function startLink() {
  addEventListener("online", lookAgain);
  addEventListener("focus", lookAgain);
  document.addEventListener("visibilitychange", visibilityChanged);
  isEnded = false;
  connect();
}

/**
 * Subscribes to something.
 * @param {any} what @param {(frame: any) => void} take
 * @returns {{send: (message: any) => boolean, change: (what: any) => void, close: () => void}}
 */
export function subscribe(what, take) {
  const ch = next++;
  const channel = { ask: what, take, isTerminal: what.what === "terminal", paused: false };
  channels.set(ch, channel);
  begin(ch, channel);
  return {
    send: (message) => send({ ...message, ch }),
    change: (ask) => { channel.ask = ask; begin(ch, channel); },
    close: () => { channels.delete(ch); send({ op: "unsub", ch }); },
  };
}

/** Closes the connection as a lost one: for tests of what follows. */
export function dropLink() {
  socket?.close();
}

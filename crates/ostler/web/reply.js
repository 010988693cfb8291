// The reply box of a session: a draft that belongs to it, and that arrives once however often it is sent.
import { call, may, sessionPath } from "./api.js";
import { failure, h, lockIcon } from "./dom.js";

/** Whether it may have been done although no answer says so. @param {any} error */
const isInDoubt = (error) => !error.status || (error.status >= 500 && error.status !== 503);

/** Under which name a text is sent: the same one until it is known what became of it. @param {string} kept @param {string} text */
function requestOf(kept, text) {
  const [id, sent] = (sessionStorage.getItem(kept) ?? "").split(/ (.*)/s);
  if (id && sent === text) return id;
  const made = crypto.randomUUID();
  sessionStorage.setItem(kept, `${made} ${text}`);
  return made;
}

/** @param {string} key @param {string} name */
export function replyBox(key, name) {
  const [draft, sent] = [`ostler.draft.${key}`, `ostler.sent.${key}`];
  const box = h("textarea", { placeholder: "Reply", "aria-label": `Reply to ${name}`, rows: "1", value: sessionStorage.getItem(draft) ?? "",
    oninput: () => { sessionStorage.setItem(draft, box.value); box.style.height = "auto"; box.style.height = `${Math.min(200, box.scrollHeight + 2)}px`; },
    onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" && !event.shiftKey && !event.altKey && !event.isComposing) { event.preventDefault(); send(); } } });
  const button = h("button", { type: "button", class: "primary", onclick: send }, "Send");
  const receipt = h("div", { class: "receipt", role: "status" });
  const line = h("div", { class: "line" }, box, button);
  const closed = h("p", { class: "muted", hidden: true });

  async function send() {
    const text = box.value;
    if (!text.trim() || button.disabled) return;
    if (!may("type")) return dispatchEvent(new CustomEvent("ostler-ask", { detail: "type" }));
    button.disabled = true;
    receipt.replaceChildren("sending …");
    try {
      const done = await call("POST", sessionPath(key, "/prompt"), { text, requestId: requestOf(sent, text) });
      sessionStorage.removeItem(sent);
      // What was typed meanwhile is another draft.
      if (box.value === text) {
        box.value = "";
        sessionStorage.removeItem(draft);
      }
      receipt.replaceChildren(h("span", { class: "doneState" }, `✓ ${done.state}`), done.acceptedMs ? ` after ${done.acceptedMs} ms` : "");
    } catch (error) {
      if (!isInDoubt(error)) sessionStorage.removeItem(sent);
      receipt.replaceChildren(failure(/** @type {any} */ (error)));
    } finally {
      button.disabled = false;
    }
  }

  return {
    element: h("div", { class: "reply" }, closed, line, receipt),
    focus: () => box.focus(),
    /** Why nothing can be sent, if so. @param {string | null} reason @param {boolean} isShown */
    update(reason, isShown) {
      line.hidden = Boolean(reason) || !isShown;
      closed.hidden = !reason || !isShown;
      closed.textContent = reason ?? "";
      button.replaceChildren(...(may("type") ? ["Send"] : [lockIcon(), "Send"]));
    },
  };
}

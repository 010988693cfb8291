// ostler-hooks @VERSION@
// Tells ostler when turns start and end. Written by `ostler hooks install opencode`, removed by
// `ostler hooks uninstall opencode`; edits are lost when it is installed again.
import { spawn } from "node:child_process";

const OSTLER = @PROGRAM@;

// Whatever goes wrong here is no concern of the agent: it neither waits nor hears of it.
function tell(event, payload) {
  try {
    const child = spawn(OSTLER, ["hook", "opencode", event], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    child.on("error", () => {});
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify({ ...payload, pid: process.pid }));
    child.unref();
  } catch {}
}

export const Ostler = async ({ directory }) => {
  // A sub-agent has a session of its own, and its turns are not those of a person.
  const subagents = new Set();
  const about = (event, session, more) => {
    if (session && !subagents.has(session)) {
      tell(event, { session_id: session, cwd: directory, ...more });
    }
  };
  return {
    "chat.message": async (input, output) => {
      const texts = (output?.parts ?? []).filter((part) => part.type === "text" && !part.synthetic);
      about("turn-start", input?.sessionID, { prompt: texts.map((part) => part.text).join("\n") });
    },
    "tool.execute.after": async (input) => {
      about("progress", input?.sessionID, { tool_name: input?.tool });
    },
    event: async ({ event }) => {
      const properties = event?.properties ?? {};
      const session = properties.sessionID ?? properties.info?.id;
      switch (event?.type) {
        case "session.created":
          if (properties.info?.parentID) subagents.add(session);
          return about("session-start", session);
        case "permission.asked":
        case "permission.updated":
          return about("waiting", session);
        case "permission.replied":
          return about("progress", session);
        case "session.idle":
          return about("turn-end", session);
        case "session.deleted":
          return about("session-end", session);
      }
    },
  };
};

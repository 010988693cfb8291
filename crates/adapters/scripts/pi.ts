// ostler-hooks @VERSION@
// Tells ostler when turns start and end. Written by `ostler hooks install pi`, removed by
// `ostler hooks uninstall pi`; edits are lost when it is installed again.
import { spawn } from "node:child_process";

const OSTLER = @PROGRAM@;

// Whatever goes wrong here is no concern of the agent: it neither waits nor hears of it.
function tell(event: string, ctx: any, more: object = {}) {
  try {
    const child = spawn(OSTLER, ["hook", "pi", event], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    child.on("error", () => {});
    child.stdin.on("error", () => {});
    const payload = {
      session_id: ctx.sessionManager.getSessionId(),
      transcript_path: ctx.sessionManager.getSessionFile(),
      cwd: ctx.cwd,
      pid: process.pid,
      ...more,
    };
    child.stdin.end(JSON.stringify(payload));
    child.unref();
  } catch {}
}

export default function (pi: any) {
  pi.on("session_start", (event: any, ctx: any) => {
    tell("session-start", ctx, { source: event?.reason });
  });
  pi.on("before_agent_start", (event: any, ctx: any) => {
    tell("turn-start", ctx, { prompt: event?.prompt });
  });
  pi.on("tool_result", (event: any, ctx: any) => {
    tell("progress", ctx, { tool_name: event?.toolName });
  });
  pi.on("agent_end", (_event: any, ctx: any) => {
    tell("turn-end", ctx);
  });
  pi.on("session_shutdown", (event: any, ctx: any) => {
    // The same session goes on after its extensions were loaded anew.
    if (event?.reason !== "reload") tell("session-end", ctx, { reason: event?.reason });
  });
}

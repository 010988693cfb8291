// A home with sessions, agents in real terminals, a server and a browser: what every test stands on.
import { execFileSync, spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const OSTLER = process.env.OSTLER_BIN ?? join(here, "../../../../target/debug/ostler");

export const IDS = {
  asks: "11111111-1111-4111-8111-111111111111",
  works: "22222222-2222-4222-8222-222222222222",
  rests: "33333333-3333-4333-8333-333333333333",
  hostile: "44444444-4444-4444-8444-444444444444",
  also: "55555555-5555-4555-8555-555555555555",
};

const HOSTILE = `<script>window.hacked = 1</script> <img src=x onerror="window.hacked=2"> [click](javascript:alert(1)) \
<svg onload=alert(1)> \u202Eevil\u202C \u001b[31mred\u001b[0m https://evil.example/x.png ![p](http://evil.example/p.png)`;

/** Lines of a Claude Code transcript. */
function transcript(id, cwd, turns, ago = 0, model = "claude-sonnet-4-5") {
  const at = Date.now() - ago - turns.length * 60_000;
  let parent = null;
  return turns.map(([role, content], index) => {
    const uuid = `${id.slice(0, 24)}${String(index).padStart(12, "0")}`;
    const message = role === "user" ? { role, content } : {
      id: `msg_${id.slice(-6)}_${index}_${at}`, type: "message", role, model, content: typeof content === "string" ? [{ type: "text", text: content }] : content,
      stop_reason: "end_turn", usage: { input_tokens: 1200, output_tokens: 340, cache_read_input_tokens: 18_000, cache_creation_input_tokens: 900 },
    };
    const line = { parentUuid: parent, isSidechain: false, userType: "external", cwd, sessionId: id, version: "2.1.0", gitBranch: "feat/auth",
      type: role, message, uuid, timestamp: new Date(at + index * 60_000).toISOString(), requestId: `req_${id.slice(-6)}_${index}_${at}` };
    parent = uuid;
    return JSON.stringify(line);
  }).join("\n") + "\n";
}

const tool = (name, input) => ["assistant", [{ type: "tool_use", id: `toolu_${name}${Math.random()}`, name, input }]];
const result = (text) => ["user", [{ type: "tool_result", tool_use_id: "toolu_x", content: text }]];

const TALK = [
  ["user", "make the token refresh atomic"],
  ["assistant", "I'll look at `token.rs` first."],
  tool("Read", { file_path: "/src/auth/token.rs" }), result("fn refresh() {}\n".repeat(60)),
  tool("Edit", { file_path: "/src/auth/token.rs", old_string: "a", new_string: "b" }), result("ok"),
  tool("Bash", { command: "cargo check" }), result("Finished"),
  ["assistant", "The race is in **`refresh()`**: two callers read the old token before one of them writes.\n\n1. take the lock\n2. read again\n3. write\n\n```rust\nlet mut token = self.token.lock();\nif token.is_fresh() { return Ok(token.clone()); }\n```\n\n| before | after |\n|---|---|\n| 2 writes | 1 write |\n\nRunning the tests."],
];

/** The session of the agent that takes prompts. */
export const DRIVEN = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001";

export class Stage {
  static async start(options = {}) {
    const stage = new Stage();
    stage.home = options.home ?? mkdtempSync(join(tmpdir(), "ostler-web-"));
    stage.env = { HOME: stage.home, PATH: process.env.PATH, TZ: "UTC", LANG: "C.UTF-8", XDG_RUNTIME_DIR: join(stage.home, "run"), OSTLER };
    mkdirSync(join(stage.home, "run"), { mode: 0o700, recursive: true });
    if (options.agents !== false) stage.makeAgents();
    await stage.serve(options.web ?? []);
    const asRoot = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
    stage.browser = await chromium.launch({
      executablePath: process.env.OSTLER_BROWSER ?? "/usr/bin/chromium",
      args: [...asRoot, "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    });
    return stage;
  }

  run(...args) {
    return execFileSync(OSTLER, args, { env: this.env, encoding: "utf8", cwd: this.home, stdio: ["ignore", "pipe", "pipe"] });
  }

  json(...args) {
    return JSON.parse(this.run(...args, "--json")).result;
  }

  write(id, project, turns, ago = 0) {
    const cwd = join(this.home, project);
    mkdirSync(cwd, { recursive: true });
    const directory = join(this.home, ".claude/projects", `-${project}`);
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, `${id}.jsonl`), transcript(id, cwd, turns, ago));
    return cwd;
  }

  say(id, project, turns, ago = 0) {
    appendFileSync(join(this.home, ".claude/projects", `-${project}`, `${id}.jsonl`), transcript(id, join(this.home, project), turns, ago));
  }

  /** A fake agent in a real terminal. */
  makeAgent(id, name, project, asks, title, turns) {
    const cwd = this.write(id, project, turns);
    this.run("create", "--name", name, "--cwd", cwd, "--cols", "90", "--rows", "24", "--env", `OSTLER=${OSTLER}`, "--", "bash", join(here, "agent.sh"), id, asks, title);
    (this.made ??= []).push(name);
    this.run("wait", name, "--text", asks ? "proceed" : "✻", "--timeout", "20000");
  }

  makeAgents() {
    const make = (...about) => this.makeAgent(...about);
    make(IDS.asks, "gateway-auth", "api", "cargo test -p gate", "make the token refresh atomic", TALK);
    make(IDS.works, "parser-rewrite", "parser", "", "rewrite the parser", [["user", "rewrite the parser as a table"], ["assistant", "Reading grammar.rs."]]);
    make(IDS.rests, "flaky-test", "tests", "", "fix the flaky test", [["user", "fix the flaky test"], ["assistant", "Fixed: the clock was read twice."]]);
    this.run("type", "flaky-test", "s");
    this.run("wait", "flaky-test", "--text", "done");
    this.write(IDS.hostile, "hostile", [["user", HOSTILE], ["assistant", HOSTILE]]);
  }

  async serve(options) {
    this.server = spawn(OSTLER, ["web", "--port", String(this.port ?? 0), "--json", ...options], { env: this.env, cwd: this.home, stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    for await (const part of this.server.stdout) {
      text += part;
      try {
        const { result } = JSON.parse(text);
        this.link = result.link;
        this.url = result.url;
        this.port = result.port;
        return;
      } catch { /* not whole yet */ }
    }
    throw new Error(`the server ended: ${text}`);
  }

  async stopServer() {
    const gone = new Promise((resolve) => this.server.once("exit", resolve));
    this.server.kill();
    await gone;
  }

  /** With OSTLER_WEB_FILES the page's files come from the tree, so that they are tried without building the program. */
  async useFiles(context) {
    if (!process.env.OSTLER_WEB_FILES) return;
    const tree = join(here, "..");
    await context.route(`${this.url}/assets/**`, (route) => {
      const file = join(tree, new URL(route.request().url()).pathname.split("/").pop());
      const kind = file.endsWith(".js") ? "text/javascript" : file.endsWith(".css") ? "text/css" : "image/svg+xml";
      return existsSync(file) ? route.fulfill({ body: readFileSync(file), contentType: kind }) : route.continue();
    });
  }

  /** A page that is signed in, and everything that went wrong on it. */
  async open(options = {}) {
    // The first page signs in, and is looked at by nobody before.
    if (options.before && !this.token) await (await this.open()).context().close();
    const context = options.context ?? await this.browser.newContext({ viewport: { width: 1280, height: 800 }, ...options.browser });
    if (!options.context) await this.useFiles(context);
    const page = await context.newPage();
    page.wrong = [];
    page.on("console", (message) => { if (["error", "warning"].includes(message.type())) page.wrong.push(message.text()); });
    page.on("pageerror", (error) => page.wrong.push(String(error)));
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(this.url) && !url.startsWith("blob:") && !url.startsWith("data:")) page.wrong.push(`foreign request ${url}`);
    });
    const link = options.link ?? (this.used ? null : this.link);
    this.used = true;
    if (link) {
      await page.goto(link);
      await page.waitForSelector("#bar .brand");
      this.token = await page.evaluate(() => sessionStorage.getItem("ostler.token"));
    } else {
      await context.addInitScript((token) => { if (location.protocol !== "about:" && !sessionStorage.getItem("ostler.token")) sessionStorage.setItem("ostler.token", token); }, this.token);
      if (options.before) await options.before(page);
      await page.goto(this.url + (options.path ?? "/"));
    }
    if (link && options.path) await page.goto(this.url + options.path);
    return page;
  }

  /** Opens what a tab may do for every tab of this stage, as a person does. */
  async allow(right) {
    const asked = await this.api("POST", "/v1/tab/ask", { right });
    if (asked.result.command) this.run(...asked.result.command.split(" ").slice(1));
  }

  /** A call of the API with the stage's token. */
  async api(method, path, body) {
    if (!this.token) await (await this.open()).context().close();
    const response = await fetch(this.url + path, { method, headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
    return response.json();
  }

  /** A terminal of the stage; gone with it. */
  create(name, script, cols = 80, rows = 24) {
    this.run("create", "--name", name, "--cols", String(cols), "--rows", String(rows), "--", "sh", "-c", script);
    (this.made ??= []).push(name);
    return this.json("inspect", name).session?.sessionId ?? this.json("inspect", name).sessionId;
  }

  /** An agent that takes prompts and records them, as Claude Code does; the file in which it notes what it took. */
  drive(name) {
    const record = join(this.home, `${name}.record`);
    this.create(name, `exec python3 ${join(here, "../../tests/terminal/fake_agent.py")} ${record} claude=${this.home}/.claude`);
    const isLinked = () => { try { return this.json("show", DRIVEN).session.linked?.length > 0; } catch { return false; } };
    for (const begun = Date.now(); !isLinked() && Date.now() - begun < 20_000;);
    return record;
  }

  async close() {
    await this.browser?.close();
    this.server?.kill("SIGCONT");
    this.server?.kill();
    for (const name of this.made ?? []) {
      try { this.run("destroy", "--force", name); } catch { /* it is over */ }
    }
    if (!this.keep) rmSync(this.home, { recursive: true, force: true });
  }
}

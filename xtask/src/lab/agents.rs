//! The agents of the lab: what to install, what to write before the first run, how to start a
//! turn without and with a terminal, and what each one is known not to show.

use std::path::Path;

use serde_json::json;

use super::hooks::Hooked;

/// Where an agent runs and which model it talks to.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) repo: &'a Path,
    pub(crate) port: u16,
}

impl Place<'_> {
    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

type Pairs = Vec<(&'static str, String)>;

/// How a terminal session is driven.
#[derive(Debug)]
pub(crate) struct Tui {
    pub(crate) command: &'static [&'static str],
    /// What the screen says, blanks left out, once a prompt can be typed.
    pub(crate) ready: &'static str,
    /// Keys that answer dialogs before that, each after a text was seen on the screen.
    pub(crate) dialogs: &'static [(&'static str, &'static str)],
    /// The command that ends it.
    pub(crate) quit: &'static str,
}

/// One agent.
#[derive(Debug)]
pub(crate) struct Agent {
    /// As ostler's adapters call it.
    pub(crate) id: &'static str,
    pub(crate) package: &'static str,
    /// The package is one of PyPI, not of npm.
    pub(crate) python: bool,
    pub(crate) program: &'static str,
    /// Only run when named or with `--all`.
    pub(crate) opt_in: bool,
    pub(crate) env: fn(&Place) -> Pairs,
    /// Files under the home directory.
    pub(crate) files: fn(&Place) -> Pairs,
    /// A command to run once before the first turn.
    pub(crate) setup: Option<fn(&Place) -> Vec<String>>,
    /// A turn without a terminal; `{}` is the prompt.
    pub(crate) headless: &'static [&'static str],
    /// How to run it in a terminal, or why that is not done.
    pub(crate) tui: Result<Tui, &'static str>,
    /// The JSON key in the headless output that holds the session id.
    pub(crate) id_key: Option<&'static str>,
    /// What it calls the model, where that is not what it asks the server for.
    pub(crate) model: Option<&'static str>,
    /// Writes nothing before the first answer of the model, so a turn becomes visible only
    /// once a tool runs.
    pub(crate) silent_until_answer: bool,
    /// Runs its sessions in a directory of its own, not where it was started.
    pub(crate) own_workspace: bool,
    /// A new run goes on with the same session.
    pub(crate) one_session: bool,
    /// Says on disk that it waits for a permission; this is what the screen says, blanks left out.
    pub(crate) permission_prompt: Option<&'static str>,
    /// A daemon holds on to a session for a while after its terminal has gone.
    pub(crate) lingers: Option<&'static str>,
    /// Lets the model make the title.
    pub(crate) makes_titles: bool,
    /// What its hooks report.
    pub(crate) hooked: Option<Hooked>,
}

const PLAIN: Agent = Agent {
    id: "",
    package: "",
    python: false,
    program: "",
    opt_in: false,
    env: |_| Vec::new(),
    files: |_| Vec::new(),
    setup: None,
    headless: &[],
    tui: Err("its terminal mode is not driven yet"),
    id_key: None,
    model: None,
    silent_until_answer: false,
    own_workspace: false,
    one_session: false,
    permission_prompt: None,
    lingers: None,
    makes_titles: false,
    hooked: None,
};

pub(crate) const AGENTS: &[Agent] = &[
    Agent {
        id: "claude-code",
        package: "@anthropic-ai/claude-code",
        program: "claude",
        env: |place| {
            vec![
                ("ANTHROPIC_BASE_URL", place.url("")),
                ("ANTHROPIC_API_KEY", "dummy-key".into()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
                ("DISABLE_AUTOUPDATER", "1".into()),
            ]
        },
        files: |place| {
            let repo = place.repo.to_string_lossy();
            let config = json!({ "hasCompletedOnboarding": true, "theme": "dark",
                "customApiKeyResponses": { "approved": ["dummy-key"], "rejected": [] },
                "projects": { repo: { "hasTrustDialogAccepted": true } } });
            vec![(".claude.json", config.to_string())]
        },
        headless: &["claude", "-p", "{}", "--output-format", "stream-json", "--verbose"],
        tui: Ok(Tui {
            command: &["claude", "--permission-mode", "default"],
            ready: "forshortcuts",
            dialogs: &[],
            quit: "/exit",
        }),
        id_key: Some("session_id"),
        permission_prompt: Some("Doyouwanttoproceed?"),
        hooked: Some(Hooked {
            reports: &["session-start", "turn-start", "turn-end", "session-end"],
            trust: None,
        }),
        ..PLAIN
    },
    Agent {
        id: "codex",
        package: "@openai/codex",
        program: "codex",
        env: |_| vec![("LAB_API_KEY", "dummy-key".into())],
        files: |place| {
            let config = format!(
                "model = \"fake-model\"\nmodel_provider = \"lab\"\ncheck_for_update_on_startup = false\n\n\
                 [model_providers.lab]\nname = \"lab\"\nbase_url = \"{}\"\nwire_api = \"responses\"\n\
                 env_key = \"LAB_API_KEY\"\n\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
                place.url("/v1"),
                place.repo.display()
            );
            vec![(".codex/config.toml", config)]
        },
        headless: &["codex", "exec", "--json", "{}"],
        tui: Ok(Tui {
            command: &["codex"],
            ready: "AskCodextodoanything",
            dialogs: &[],
            quit: "/quit",
        }),
        id_key: Some("thread_id"),
        lingers: Some("its daemon holds a thread for a minute after the terminal has quit"),
        hooked: Some(Hooked {
            reports: &["session-start", "turn-start", "turn-end", "session-end"],
            trust: Some("--dangerously-bypass-hook-trust"),
        }),
        ..PLAIN
    },
    Agent {
        id: "opencode",
        package: "opencode-ai",
        program: "opencode",
        env: |_| {
            vec![
                ("OPENCODE_DISABLE_AUTOUPDATE", "1".into()),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1".into()),
            ]
        },
        files: |place| {
            let model = json!({ "name": "Fake", "tool_call": true,
                "limit": { "context": 100_000, "output": 8000 },
                "cost": { "input": 1, "output": 2 } });
            let config = json!({ "model": "lab/fake-model", "small_model": "lab/fake-model",
                "provider": { "lab": { "npm": "@ai-sdk/openai-compatible", "name": "lab",
                    "options": { "baseURL": place.url("/v1"), "apiKey": "dummy-key" },
                    "models": { "fake-model": model } } } });
            vec![(".config/opencode/opencode.json", config.to_string())]
        },
        headless: &["opencode", "run", "--format", "json", "{}"],
        tui: Ok(Tui { command: &["opencode"], ready: "Askanything", dialogs: &[], quit: "/exit" }),
        id_key: Some("sessionID"),
        makes_titles: true,
        hooked: Some(Hooked { reports: &["session-start", "turn-start", "turn-end"], trust: None }),
        ..PLAIN
    },
    Agent {
        id: "gemini",
        package: "@google/gemini-cli",
        program: "gemini",
        env: |place| {
            vec![
                ("GEMINI_API_KEY", "dummy-key".into()),
                ("GOOGLE_GEMINI_BASE_URL", place.url("")),
                ("GEMINI_CLI_TRUST_WORKSPACE", "true".into()),
            ]
        },
        files: |_| {
            let config = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } },
                                 "general": { "enableAutoUpdate": false } });
            vec![(".gemini/settings.json", config.to_string())]
        },
        headless: &["gemini", "-p", "{}", "--output-format", "stream-json"],
        tui: Ok(Tui {
            command: &["gemini"],
            ready: "Typeyourmessage",
            dialogs: &[],
            quit: "/quit",
        }),
        id_key: Some("session_id"),
        hooked: Some(Hooked {
            reports: &["session-start", "turn-start", "turn-end", "session-end"],
            trust: None,
        }),
        ..PLAIN
    },
    Agent {
        id: "pi",
        package: "@mariozechner/pi-coding-agent",
        program: "pi",
        env: |_| vec![("PI_OFFLINE", "1".into()), ("PI_SKIP_VERSION_CHECK", "1".into())],
        files: |place| {
            let models = json!({ "providers": { "lab": { "baseUrl": place.url("/v1"),
                "apiKey": "dummy-key", "api": "openai-completions",
                "models": [{ "id": "fake-model", "name": "Fake", "contextWindow": 100_000,
                             "maxTokens": 8000, "reasoning": false, "input": ["text"],
                             "cost": { "input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0 } }] } } });
            vec![(".pi/agent/models.json", models.to_string())]
        },
        headless: &[
            "pi",
            "--provider",
            "lab",
            "--model",
            "fake-model",
            "-p",
            "{}",
            "--mode",
            "json",
        ],
        tui: Ok(Tui {
            command: &["pi", "--provider", "lab", "--model", "fake-model"],
            ready: "fake-model",
            dialogs: &[],
            quit: "/quit",
        }),
        id_key: Some("id"),
        silent_until_answer: true,
        hooked: Some(Hooked {
            reports: &["session-start", "turn-start", "turn-end", "session-end"],
            trust: None,
        }),
        ..PLAIN
    },
    Agent {
        id: "qwen",
        package: "@qwen-code/qwen-code",
        program: "qwen",
        env: |place| {
            vec![
                ("OPENAI_API_KEY", "dummy-key".into()),
                ("OPENAI_BASE_URL", place.url("/v1")),
                ("OPENAI_MODEL", "fake-model".into()),
            ]
        },
        files: |_| {
            let config = json!({ "security": { "auth": { "selectedType": "openai" } },
                                 "general": { "disableAutoUpdate": true, "enableAutoUpdate": false } });
            vec![(".qwen/settings.json", config.to_string())]
        },
        headless: &["qwen", "-p", "{}", "--output-format", "stream-json"],
        tui: Ok(Tui { command: &["qwen"], ready: "fake-model", dialogs: &[], quit: "/quit" }),
        id_key: Some("session_id"),
        hooked: Some(Hooked { reports: &["session-start", "turn-start", "turn-end"], trust: None }),
        ..PLAIN
    },
    Agent {
        id: "copilot",
        package: "@github/copilot",
        program: "copilot",
        env: |place| {
            vec![
                ("COPILOT_PROVIDER_TYPE", "openai".into()),
                ("COPILOT_PROVIDER_BASE_URL", place.url("/v1")),
                ("COPILOT_PROVIDER_API_KEY", "dummy-key".into()),
                ("COPILOT_MODEL", "fake-model".into()),
                ("COPILOT_OFFLINE", "true".into()),
                ("COPILOT_AUTO_UPDATE", "false".into()),
            ]
        },
        headless: &["copilot", "-p", "{}", "--allow-all-tools"],
        tui: Ok(Tui {
            command: &["copilot", "--allow-all-tools"],
            ready: "/commands",
            dialogs: &[("Doyoutrustthefiles", "\r")],
            quit: "/exit",
        }),
        hooked: Some(Hooked {
            reports: &["session-start", "turn-start", "turn-end", "session-end"],
            trust: None,
        }),
        ..PLAIN
    },
    Agent {
        id: "droid",
        package: "droid",
        program: "droid",
        opt_in: true,
        env: |_| vec![("FACTORY_API_KEY", "dummy-key".into())],
        files: |place| {
            let model = json!({ "model": "fake-model", "displayName": "Fake",
                "baseUrl": place.url("/v1"), "apiKey": "dummy-key",
                "provider": "generic-chat-completion-api" });
            vec![(".factory/settings.json", json!({ "customModels": [model] }).to_string())]
        },
        headless: &["droid", "exec", "-m", "custom:Fake-0", "-o", "stream-json", "{}"],
        tui: Err("its terminal mode asks the vendor's server about the key"),
        id_key: Some("session_id"),
        model: Some("custom:Fake-0"),
        hooked: Some(Hooked {
            reports: &["session-start", "turn-end", "session-end"],
            trust: None,
        }),
        ..PLAIN
    },
    Agent {
        id: "kimi",
        package: "@moonshot-ai/kimi-code",
        program: "kimi",
        opt_in: true,
        files: |place| {
            let config = format!(
                "default_model = \"lab/fake\"\n\n[providers.lab]\ntype = \"openai\"\n\
                 base_url = \"{}\"\napi_key = \"dummy-key\"\n\n[models.\"lab/fake\"]\n\
                 provider = \"lab\"\nmodel = \"fake-model\"\nmax_context_size = 100000\n",
                place.url("/v1")
            );
            vec![(".kimi-code/config.toml", config)]
        },
        headless: &["kimi", "-p", "{}", "--output-format", "stream-json"],
        tui: Ok(Tui {
            command: &["kimi"],
            ready: "context:0%",
            dialogs: &[("trust", "\r")],
            quit: "/exit",
        }),
        id_key: Some("session_id"),
        hooked: Some(Hooked { reports: &["session-start", "turn-start", "turn-end"], trust: None }),
        ..PLAIN
    },
    Agent {
        id: "openclaw",
        package: "openclaw",
        program: "openclaw",
        opt_in: true,
        files: |place| {
            let model = json!({ "id": "fake-model", "name": "Fake", "contextWindow": 100_000,
                "maxTokens": 8000, "reasoning": false, "input": ["text"],
                "cost": { "input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0 } });
            let config = json!({
                "models": { "providers": { "lab": { "baseUrl": place.url("/v1"),
                    "apiKey": "dummy-key", "api": "openai-completions", "models": [model] } } },
                "agents": { "defaults": { "model": { "primary": "lab/fake-model" } } } });
            vec![(".openclaw/openclaw.json", config.to_string())]
        },
        headless: &["openclaw", "agent", "--local", "--agent", "main", "--message", "{}", "--json"],
        id_key: Some("sessionId"),
        own_workspace: true,
        one_session: true,
        ..PLAIN
    },
    Agent {
        id: "cline",
        package: "cline",
        program: "cline",
        opt_in: true,
        setup: Some(|place| {
            let url = place.url("/v1");
            [
                "cline",
                "auth",
                "-p",
                "openai-compatible",
                "-k",
                "dummy-key",
                "-m",
                "fake-model",
                "-b",
                &url,
            ]
            .map(str::to_owned)
            .to_vec()
        }),
        headless: &["cline", "--json", "{}"],
        ..PLAIN
    },
    Agent {
        id: "kilo",
        package: "@kilocode/cli",
        program: "kilo",
        opt_in: true,
        files: |place| {
            let model = json!({ "name": "Fake", "tool_call": true,
                "limit": { "context": 100_000, "output": 8000 },
                "cost": { "input": 1, "output": 2 } });
            let config = json!({ "model": "lab/fake-model", "small_model": "lab/fake-model",
                "provider": { "lab": { "npm": "@ai-sdk/openai-compatible", "name": "lab",
                    "options": { "baseURL": place.url("/v1"), "apiKey": "dummy-key" },
                    "models": { "fake-model": model } } } });
            vec![(".config/kilo/kilo.json", config.to_string())]
        },
        headless: &["kilo", "run", "--format", "json", "{}"],
        tui: Ok(Tui { command: &["kilo"], ready: "Askanything", dialogs: &[], quit: "/exit" }),
        id_key: Some("sessionID"),
        makes_titles: true,
        ..PLAIN
    },
    Agent {
        id: "vibe",
        package: "mistral-vibe",
        python: true,
        program: "vibe",
        opt_in: true,
        env: |_| vec![("OPENAI_API_KEY", "dummy-key".into())],
        files: |place| {
            let config = format!(
                "active_model = \"fake\"\nenable_telemetry = false\nenable_update_checks = false\n\n\
                 [[providers]]\nname = \"lab\"\napi_base = \"{}\"\napi_key_env_var = \"OPENAI_API_KEY\"\n\
                 api_style = \"openai\"\nbackend = \"generic\"\n\n\
                 [[models]]\nname = \"fake-model\"\nprovider = \"lab\"\nalias = \"fake\"\n",
                place.url("/v1")
            );
            vec![(".vibe/config.toml", config)]
        },
        headless: &["vibe", "-p", "{}"],
        ..PLAIN
    },
    Agent {
        id: "hermes",
        package: "hermes-agent",
        python: true,
        program: "hermes",
        opt_in: true,
        files: |place| {
            let config = format!(
                "model: {{default: fake-model, provider: custom, base_url: \"{}\", api_key: dummy}}\n",
                place.url("/v1")
            );
            vec![(".hermes/config.yaml", config)]
        },
        headless: &["hermes", "-z", "{}"],
        ..PLAIN
    },
    Agent {
        id: "continue",
        package: "@continuedev/cli",
        program: "cn",
        opt_in: true,
        files: |place| {
            let config = format!(
                "name: lab\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: fake\n    provider: openai\n    \
                 model: fake-model\n    apiBase: {}\n    apiKey: dummy\n    roles: [chat]\n",
                place.url("/v1")
            );
            vec![(".continue/config.yaml", config)]
        },
        headless: &["cn", "-p", "{}"],
        silent_until_answer: true,
        ..PLAIN
    },
];

//! `ostler schema`

use std::process::ExitCode;

use access::wire as access;
use clap::Args;
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use model::conversation::ConversationEntry;
use model::hosted::wire as hosted;
use model::wire;
use openclaw::wire as openclaw;
use serde_json::{Map, Value};

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

/// Print the JSON Schema of every `--json` result, or of one command's.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The command, e.g. `ls`; `error` is the error envelope, `logs -f` a line of that stream.
    #[arg(add = ArgValueCandidates::new(complete_schemas))]
    command: Option<String>,
}

fn complete_schemas() -> Vec<CompletionCandidate> {
    let one_word = list_schemas().into_iter().map(|(name, _)| name);
    one_word.filter(|name| !name.contains(' ')).map(CompletionCandidate::new).collect()
}

/// The schema of what is written: fields that may be left out are not required.
fn schema_of<T: schemars::JsonSchema>() -> schemars::Schema {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>()
}

/// Everything that is printed as JSON, by command.
fn list_schemas() -> Vec<(&'static str, schemars::Schema)> {
    macro_rules! envelope {
        ($result:ty) => {
            schema_of::<wire::SuccessEnvelope<'static, $result>>()
        };
    }
    vec![
        ("ls", envelope!(wire::LsResult<'static>)),
        ("ls --watch", schema_of::<wire::LsResult<'static>>()),
        ("show", envelope!(wire::ShowResult<'static>)),
        ("why", envelope!(wire::WhyResult<'static>)),
        ("logs", envelope!(wire::LogsResult<'static>)),
        ("logs -f", schema_of::<ConversationEntry>()),
        ("search", envelope!(wire::SearchResult)),
        ("search --stream", schema_of::<wire::SearchLine>()),
        ("usage", envelope!(wire::UsageResult)),
        ("adapters", envelope!(wire::AdaptersResult)),
        ("du", envelope!(wire::DuResult)),
        ("access open", envelope!(access::AccessEnvResult)),
        ("access env", envelope!(access::AccessEnvResult)),
        ("access list", envelope!(access::AccessListResult)),
        ("access show", envelope!(access::AccessShowResult)),
        ("access log", envelope!(access::AccessLogResult)),
        ("access stop", envelope!(access::AccessStopResult)),
        ("access prune", envelope!(access::AccessPruneResult)),
        ("store ls", envelope!(openclaw::StoreLsResult)),
        ("store show", envelope!(openclaw::StoreShowResult)),
        ("store cleanup", envelope!(openclaw::StoreCleanupResult)),
        ("store verify", envelope!(openclaw::StoreVerifyResult)),
        ("store rebuild", envelope!(openclaw::StoreRebuildResult)),
        ("create", envelope!(hosted::CreateResult)),
        ("run", envelope!(hosted::RunResult)),
        ("type", envelope!(hosted::SeqResult)),
        ("paste", envelope!(hosted::SeqResult)),
        ("mark", envelope!(hosted::SeqResult)),
        ("send-keys", envelope!(hosted::KeysResult)),
        ("batch", envelope!(hosted::BatchResult)),
        ("wait", envelope!(hosted::WaitResult)),
        ("snapshot", envelope!(hosted::SnapshotResult)),
        ("screenshot", envelope!(hosted::ScreenshotResult)),
        ("record export", envelope!(hosted::ExportResult)),
        ("inspect", envelope!(hosted::InspectResult)),
        ("resize", envelope!(hosted::Dimensions)),
        ("signal", envelope!(hosted::SignalResult)),
        ("destroy", envelope!(hosted::DestroyResult)),
        ("verify", envelope!(hosted::VerifyResult)),
        ("skills list", envelope!(wire::SkillsResult)),
        ("skills get", envelope!(wire::SkillResult)),
        ("skills path", envelope!(wire::SkillPathResult)),
        ("agents ls", envelope!(wire::AgentsLsResult)),
        ("agents delete", envelope!(wire::AgentDeleteResult)),
        ("status", envelope!(wire::StatusResult<'static>)),
        ("doctor", envelope!(wire::DoctorResult)),
        ("summary", envelope!(model::summary::SessionSummary)),
        ("finalize", envelope!(wire::SweepResult)),
        ("gc", envelope!(wire::GcResult)),
        ("pin", envelope!(wire::PinResult)),
        ("undo", envelope!(wire::UndoResult)),
        ("trash ls", envelope!(wire::TrashLsResult)),
        ("trash empty", envelope!(wire::TrashEmptied)),
        ("trash verify", envelope!(wire::TrashVerified)),
        ("vault ls", envelope!(wire::VaultLsResult)),
        ("vault show", envelope!(model::summary::KeptSession)),
        ("vault restore", envelope!(wire::VaultWrittenResult)),
        ("vault export", envelope!(wire::VaultWrittenResult)),
        ("vault verify", envelope!(wire::VaultVerifyResult)),
        ("events", schema_of::<wire::EventView>()),
        ("daemon status", envelope!(wire::DaemonResult)),
        ("daemon start", envelope!(wire::DaemonResult)),
        ("daemon stop", envelope!(wire::DaemonResult)),
        ("config show", envelope!(wire::ConfigResult)),
        ("config path", envelope!(wire::ConfigResult)),
        ("config check", envelope!(wire::ConfigResult)),
        ("hooks install", envelope!(wire::HooksResult)),
        ("hooks uninstall", envelope!(wire::HooksResult)),
        ("hooks status", envelope!(wire::HooksResult)),
        ("version", envelope!(wire::VersionResult)),
        ("error", schema_of::<wire::ErrorEnvelope<'static>>()),
    ]
}

impl SchemaArgs {
    pub(crate) fn run_schema(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let mut all = list_schemas();
        let answer = match &self.command {
            None => Value::Object(
                all.into_iter()
                    .map(|(name, schema)| (name.to_owned(), schema.to_value()))
                    .collect::<Map<_, _>>(),
            ),
            Some(name) => {
                let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                let index = all.iter().position(|(one, _)| one == name).ok_or_else(|| {
                    Error::usage_error(
                        format!("no JSON result is called `{name}`"),
                        format!("there are: {names}"),
                    )
                })?;
                all.swap_remove(index).1.to_value()
            }
        };
        if context.json {
            context.print_json(answer)?;
        } else {
            output::print_text(&(serde_json::to_string_pretty(&answer)? + "\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

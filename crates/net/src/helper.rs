//! The helper's side of the conversation with `ostler`: one request in, one answer out.
//!
//! Roles that go on (the webhooks' sender, the fleet's link) end when their input does, so that none
//! outlives the daemon that started it.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use model::helper::{
    FleetAsk, HELPER_PROTOCOL, HelperAsk, HelperFailure, HelperFailureKind, HelperRequest,
};
use serde::Serialize;

use crate::failure::internal_failure;
use crate::helper_input::HelperInput;
use crate::hub_setup::{self, InitRequest};
use crate::{
    fleet, fleet_doctor, fleet_follow, link, membership, order, ssh, terminal_view, webhook,
};

/// The longest request.
const MOST_REQUEST_BYTES: usize = 4 << 20;

/// Reads the request, does what it says, answers.
pub fn run_helper() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return print_answer::<()>(Err(internal_failure(&error))),
    };
    let code = runtime.block_on(async {
        let mut input = HelperInput::from_stdin();
        let line = input.next_signal().await.unwrap_or_default();
        match read_request(&line) {
            Ok(request) => serve_request(request, input).await,
            Err(failure) => print_answer::<()>(Err(failure)),
        }
    });
    // Standard input is read on a thread that cannot be interrupted.
    runtime.shutdown_background();
    code
}

fn read_request(line: &str) -> Result<HelperRequest, HelperFailure> {
    let refused = |reason: String| {
        HelperFailure::new(
            HelperFailureKind::Protocol,
            reason,
            "this program is started by ostler; install both from the same version",
        )
    };
    if line.len() > MOST_REQUEST_BYTES {
        return Err(refused("the request is too large".to_owned()));
    }
    let request: HelperRequest = serde_json::from_str(line).map_err(|error| {
        refused(format!("`ostler-net` does not understand its request: {error}"))
    })?;
    if request.protocol != HELPER_PROTOCOL {
        return Err(refused(format!(
            "`ostler-net` speaks version {HELPER_PROTOCOL} of their language, ostler {}",
            request.protocol
        )));
    }
    Ok(request)
}

async fn serve_request(request: HelperRequest, input: HelperInput) -> ExitCode {
    match request.ask {
        HelperAsk::WebhookTest(record) => {
            sys::log::log_command(false);
            print_answer(webhook::test_webhook(*record).await)
        }
        HelperAsk::WebhookSender(place) => {
            sys::log::log_role_in(&request.home, "webhooks");
            webhook::run_sender(place, input).await;
            ExitCode::SUCCESS
        }
        HelperAsk::FleetLink { place, settings } => {
            sys::log::log_role_in(&request.home, "link");
            link::run_link(&request.home, place, settings, input).await;
            ExitCode::SUCCESS
        }
        HelperAsk::FleetFollow => match fleet_follow::follow_fleet(&request.home, input).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => print_answer::<()>(Err(failure)),
        },
        HelperAsk::FleetView(view) => {
            match terminal_view::join_terminal(&request.home, *view, input).await {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => print_answer::<()>(Err(failure)),
            }
        }
        HelperAsk::Fleet { what } => {
            sys::log::log_command(false);
            serve_fleet(&request.home, &request.cache, what).await
        }
    }
}

async fn serve_fleet(home: &Path, cache: &Path, ask: FleetAsk) -> ExitCode {
    let span = Duration::from_millis;
    match ask {
        FleetAsk::Init { listen, advertise, site, plain } => {
            let request = InitRequest { listen, advertise, site, plain };
            print_answer(hub_setup::init_hub(home, &request).await)
        }
        FleetAsk::Hub => print_answer::<()>(Err(hub_setup::become_engine(home).await)),
        FleetAsk::Join { name, level, new } => {
            print_answer(membership::ask_to_join(home, &name, level, new))
        }
        FleetAsk::Joined { answer } => print_answer(membership::take_answer(home, &answer)),
        FleetAsk::JoinBySsh { target, name, level, new } => {
            print_answer(ssh::join_by_ssh(home, &target, &name, level, new).await)
        }
        FleetAsk::Admit { request, level, ssh, until, wait_ms } => {
            let wait = span(wait_ms);
            let admitted = membership::admit_member(home, &request, level, ssh, until, wait);
            print_answer(admitted.await)
        }
        FleetAsk::Leave => print_answer(membership::leave_fleet(home).await),
        FleetAsk::Evict { member } => print_answer(membership::evict_member(home, &member).await),
        FleetAsk::Operators => print_answer(membership::list_operators(home)),
        FleetAsk::SetOperator { name, level, until } => {
            print_answer(membership::set_operator(home, &name, level, until).await)
        }
        FleetAsk::Overview { timeout_ms } => {
            print_answer(fleet::fleet_status(home, cache, span(timeout_ms)).await)
        }
        FleetAsk::Doctor { timeout_ms } => {
            print_answer(fleet_doctor::fleet_doctor(home, cache, span(timeout_ms)).await)
        }
        FleetAsk::Sessions { all, hosts, timeout_ms } => {
            print_answer(fleet::fleet_sessions(home, cache, all, &hosts, span(timeout_ms)).await)
        }
        FleetAsk::Order(request) => print_answer(order::give_order(home, &request).await),
    }
}

fn print_answer<T: Serialize>(answer: Result<T, HelperFailure>) -> ExitCode {
    let is_done = answer.is_ok();
    let written = serde_json::to_vec(&answer)
        .map_err(std::io::Error::other)
        .and_then(|text| std::io::stdout().write_all(&text));
    match (is_done, written) {
        (true, Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

//! A match over the statuses is exhaustive: a new status needs an answer everywhere.

use ostler_model::status::Status;

fn is_over(status: Status) -> bool {
    match status {
        Status::Exited | Status::Failed | Status::Destroyed => true,
        Status::Running | Status::Exiting | Status::Destroying => false,
    }
}

fn main() {
    is_over(Status::Unknown);
}

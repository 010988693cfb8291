//! ostler-adapters

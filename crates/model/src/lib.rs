//! ostler-model

//! ostler-flows

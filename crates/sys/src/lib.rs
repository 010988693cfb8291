//! ostler-sys

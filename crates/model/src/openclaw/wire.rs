//! What programs read about stores.

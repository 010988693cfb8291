//! `ostler` and `ostler-net` together, as users run them.

mod net {
    mod kit;
    mod webhooks;
}

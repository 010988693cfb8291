//! `ostler web`: the route table, sign-in, rights, headers, and the stream of terminals, over real sockets.

pub(crate) mod client;
mod routes;
mod scanner;
mod security;
mod settle;
mod stream;
mod verbs;

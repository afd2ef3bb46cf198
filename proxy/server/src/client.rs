//! Connections of clients: what passes on them, how long it may take, how they end.

pub(crate) mod connection;
pub(crate) mod precedence;

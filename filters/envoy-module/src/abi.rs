//! The boundary to Envoy: the part of its ABI for dynamic modules that this module uses.
//!
//! This is the only module with `unsafe` code. The objects and bytes that the two sides hand each
//! other are in `lent`, Envoy's functions in `callbacks`, and the module's own in `hooks`. The code
//! relies on these promises of Envoy (`source/extensions/dynamic_modules/abi/abi.h`):
//!
//! - A pointer to one of our objects that Envoy passes to a hook is one that
//!   we gave it, and comes no more after the object's `destroy` hook.
//! - Hooks of one stream are called on one thread, one at a time, with three
//!   exceptions: `continue_encoding`, `continue_decoding` and `send_response`
//!   may end the stream, and so call its hooks, `destroy` among them, before
//!   they return. So each is the last thing that a hook does, when no
//!   reference to the filter is left.
//! - A callout may be answered before the call that sends it returns: Envoy
//!   itself answers for a cluster without a healthy endpoint. The hook for
//!   the answer leaves the filter alone then.
//! - What Envoy lends (a header's value) is there until the hook returns, or a
//!   field of that head is set.
//! - A scheduler may be used from any thread, and outlives its stream.
//! - Envoy 1.38 has one note for both directions of whether a stream goes on
//!   ([`Host::holds_apart`](crate::host::Host::holds_apart)).
//!
//! Envoy 1.40 has version v0.2.0 of the ABI, and 1.38 and 1.39 have v0.1.0. The used parts are the
//! same in both.

mod callbacks;
mod guard;
mod hooks;
mod lent;
mod metrics;
mod stream;

#[cfg(test)]
mod tests;

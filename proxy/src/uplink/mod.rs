//! The uplink: responses on their way to clients, in the scheduler's order.

mod gauge;
mod link;
mod paced;
mod timer;

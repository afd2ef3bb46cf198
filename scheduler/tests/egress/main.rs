//! The uplink's scheduler as its drivers see it: exact orders and shares,
//! every small case, and properties over random operations.

mod change;
mod classes;
mod driver;
mod flows;
mod groups;
mod link;
mod orders;
mod properties;
mod random_operations;
mod shares;
mod small_cases;

//! An endpoint as it is when a request comes, and the comparison of two by their load.

/// An endpoint as a [`Balancer`](super::Balancer) sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// Whether the endpoint may be chosen.
    pub usable: bool,
    /// The endpoint's share, relative to the others; 0 counts as 1.
    pub weight: u64,
    /// The number of requests that the endpoint serves or that wait for it.
    pub requests: u64,
    /// The number of the endpoint's requests that are of the asked request's level or above.
    pub requests_ahead: u64,
    /// The expected bytes that the endpoint serves before the asked request.
    pub work_bytes: u64,
    /// Whether the endpoint shares its capacity among its requests.
    pub shared: bool,
}

/// Returns whether `a` has less load for its weight than `b`.
pub(super) fn lighter(a: &View, b: &View, load: impl Fn(&View) -> u64) -> bool {
    // load / weight, without division.
    u128::from(load(a)) * u128::from(b.weight.max(1))
        < u128::from(load(b)) * u128::from(a.weight.max(1))
}

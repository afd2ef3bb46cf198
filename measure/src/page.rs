//! What all pages look like: light and dark, on paper and on a telephone.

/// The style sheet of a page. It gives the colours of [`plot`](crate::plot)'s charts
/// others in the dark.
pub const STYLE: &str = include_str!("page.css");

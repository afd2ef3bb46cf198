//! The look of all pages: light and dark, on paper and on a telephone.

/// The style sheet of a page, which replaces the colours of [`plot`](crate::plot)'s charts in the
/// dark.
pub const STYLE: &str = include_str!("page.css");

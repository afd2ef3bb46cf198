//! The most that an import reads and makes.

/// Bytes of all files together.
pub const MAX_BYTES: usize = 4 << 20;
/// Files that are read, the same one again among them.
pub const MAX_FILES: usize = 1024;
/// Includes within each other, and blocks within each other.
pub const MAX_DEPTH: usize = 24;
/// Directives of all files together.
pub const MAX_DIRECTIVES: usize = 50_000;
/// Routes that are made, those of places that others lead to among them.
pub const MAX_ROUTES: usize = 10_000;

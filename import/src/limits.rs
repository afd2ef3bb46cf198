//! The bounds on what an import reads and makes.

/// The most bytes of all files together.
pub const MAX_BYTES: usize = 4 << 20;
/// The most files that are read, where a file counts each time that it is read.
pub const MAX_FILES: usize = 1024;
/// The most includes within each other, and the most blocks within each other.
pub const MAX_DEPTH: usize = 24;
/// The most directives of all files together.
pub const MAX_DIRECTIVES: usize = 50_000;
/// The most routes that an import makes, and the most places in a configuration that it follows.
pub const MAX_ROUTES: usize = 10_000;

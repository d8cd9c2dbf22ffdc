//! The programs behind `cargo xtask bench wire` and `cargo xtask bench loop`: they stand in `benches/`.
//!
//! They are a package of their own so that `cargo xtask` builds none of our crates before it can run a command.

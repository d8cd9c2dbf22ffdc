//! The command line, as `xflags` reads it.
#![allow(unreachable_pub, reason = "the macro writes `pub`")]

use std::path::PathBuf;

xflags::xflags! {
    /// Runs mutants of loop-core from one build. `cargo xtask mutants` starts it.
    cmd mutants {
        /// The list of `cargo mutants --list --json`
        required --list list: PathBuf
        /// The root of the workspace
        required --root root: PathBuf
        /// The folder of the copy and of the results
        required --out out: PathBuf
        /// The seed of the order (default: the order of the list)
        optional --seed seed: u64
        /// The first N of the order that can be run
        optional --sample count: usize
        /// The K-th of N shares, as K/N
        optional --shard shard: String
        /// Names that need no run, one a line: they count as missed
        optional --known known: PathBuf
        /// How many run at a time (default: 1)
        optional --jobs jobs: usize
    }
}

//! The command line, as `xflags` reads it.
#![allow(unreachable_pub, reason = "the macro writes `pub`")]

use std::path::PathBuf;

xflags::xflags! {
    /// Compare our codecs with recorded exchanges: docs/reference/recorded-exchanges.md.
    cmd wirecheck {
        /// Files of exchanges, one JSON object a line; `-` is what comes in
        repeated files: PathBuf
        /// How many differences are shown (default: 10)
        optional --differences number: usize
        /// Print the report as JSON
        optional --json
    }
}

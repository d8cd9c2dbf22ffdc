//! The command line, as `xflags` reads it.
#![allow(unreachable_pub, reason = "the macro writes `pub`")]

use std::path::PathBuf;

xflags::xflags! {
    /// The project's own commands.
    cmd xtask {
        /// Run every test, or those of one suite.
        cmd test {
            /// core, claims, tools, llm, mock, prompts, journal, runtime, inspect, domain, eval, otel, restate, server, e2e, testkit or lies
            optional suite: String
            /// Every case of every test, in place of a share of the dear ones
            optional --full
        }
        /// Run what the build machine checks, in the same order.
        cmd ci {
            /// The tests have just run: make the other checks
            optional --tested
        }
        /// Kill real processes at exact places, let journals fail, and compare journal, acknowledgements and effects.
        cmd crash {
            /// Every place of every scenario, and what needs root or strace
            optional --full
            /// The seed of the share and of random instants (default: 1)
            optional --seed seed: u64
            /// A part of the name of what to play
            optional part: String
        }
        /// Walk the reachable states of small runs, wider than in a test run.
        cmd explore {
            /// Write what was seen into crates/loop-core/tests/explore/walk.txt, in place of comparing it
            optional --write
            /// See five times as many states of each alphabet, and print what was seen
            optional --full
        }
        /// Count the instructions of a loop, compared with a client without one and with a loop by hand; or check that no
        /// count grew.
        cmd bench {
            /// check; or build, which only builds what check and explore need
            optional suite: String
            /// With check: write what was counted into xtask/bench/instructions.json, in place of comparing it
            optional --write
            /// With check: build this commit too and compare with it, in place of the baseline
            optional --against commit: String
        }
        /// Run the tests that need programs of others, such as a database server, and fetch the programs first.
        cmd servers {
            /// One suite alone
            optional suite: String
        }
        /// Look at the pages in headless Chromium. Needs Debian's chromium, node and npm.
        cmd browser {
            /// Make the pictures in docs/pictures anew
            optional --write
        }
        /// Build the documentation as a site in target/site, and check its links and its pages in headless Chromium.
        cmd site {
            /// See every page in the browser, in place of a share
            optional --all
        }
        /// Hold the dependencies between the crates against the table in xtask/src/layers.rs.
        cmd layers {}
        /// Compare the features of shared dependencies in the README's first command and in the tests.
        cmd features {}
        /// Hold docs/requirements.md against the ids that tests name.
        cmd requirements {
            /// Print each row with the tests that name it instead
            optional --list
            /// A table whose ids must all be in ours (default: ../shared/requirements.md, if it is there)
            optional --shared path: PathBuf
        }
        /// Count how the reader of values does on texts that people labelled.
        cmd claims {
            /// The folder of the sets: `crates/loop-claims/examples/sets.rs` says what a line of them is
            required --public folder: PathBuf
        }
        /// Make the price table anew from the published package genai-prices.
        cmd prices {
            /// Write nothing: is the committed table what the package of its version gives?
            optional --check
            /// A wheel of the package that is here already, in place of fetching one
            optional --wheel path: PathBuf
        }
        /// Check what a registry shows of each crate, and package all of them in the order of their dependencies.
        cmd publish {
            /// Publish nothing; it must be given
            optional --dry-run
            /// Do not build the packages
            optional --quick
        }
        /// Make the files of a release for one platform: archive, Debian package, wheel, npm packages, folder of the image,
        /// bill of materials and checksums.
        cmd release {
            /// The platform (default: this one, static where its musl target is installed)
            optional --target target: String
            /// Build nothing: package this program
            optional --binary program: PathBuf
            /// Where the files go (default: target/release-files)
            optional --out folder: PathBuf
            /// Install each package into an empty folder, and run its first commands
            optional --check
        }
        /// Check what a reviewer should not have to look at.
        cmd tidy {}
        /// Print how large the house is and how well it can be read, in numbers.
        cmd measures {}
    }
}

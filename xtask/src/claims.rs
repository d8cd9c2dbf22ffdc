//! `cargo xtask claims`: scores the claim checker on labelled public data sets, which are downloaded by hand and not
//! committed.

use std::path::Path;

use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};

pub(crate) fn run(public: &Path) -> Result<(), Failure> {
    let folder = public
        .canonicalize()
        .map_err(|error| Failure::Usage(format!("--public {}: {error}", public.display())))?;
    if workspace::files_below(&folder, "jsonl")?.is_empty() {
        return Err(Failure::Usage(format!("--public {}: it has no file `*.jsonl`", public.display())));
    }
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    Ok(cmd!(shell, "cargo run --locked --quiet -p loop-claims --example sets -- {folder}").run()?)
}

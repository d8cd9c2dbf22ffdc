//! Makes files and folders that only their owner can access, for data that runs have read.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder, and those above it, for its owner alone.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Lets only the owner read a file that is made with these options.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

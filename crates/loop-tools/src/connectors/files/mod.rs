//! Tools over the files of one folder: they list, read and search, and others write and patch.
//!
//! ```text
//! path ─▶ canonical below the folder ─▶ hidden? included? ─▶ opened step by step, no link followed ─▶ a file? small?
//! ```
//!
//! The folder is a handle. Nothing outside of it has a name here, whatever is in a path, and whatever is renamed meanwhile.

mod folder;
mod list;
mod read;
mod search;
mod settings;
mod tool;
mod walk;
mod write;

pub use self::settings::{FILES_BYTES_MAX, FILES_RESULTS_MAX, FilesSettings, FilesWork};
pub use self::tool::FilesTool;

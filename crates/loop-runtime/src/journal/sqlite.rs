//! The SQLite journal.
/// x
#[derive(Debug)]
pub struct SqliteJournal;

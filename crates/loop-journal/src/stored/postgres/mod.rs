//! A journal in a PostgreSQL database: the statements, the chain and the seals are those of the file, and what a file system
//! gives a file comes from the server.
//!
//! | a file | a server |
//! |---|---|
//! | lock files | advisory locks of a session, with a lease: [`locks`] |
//! | the thread's connection | a session that is made anew when it breaks: [`session`] |
//! | tables that are laid when they are needed | migrations: [`schema`] |
//! | the key and the heads next to the file | in the state folder of each machine, under the journal's id |

mod escape;
mod fault;
mod listen;
mod locks;
mod schema;
mod server;
mod session;
mod tls;
mod url;

use std::path::{Path, PathBuf};

pub(super) use fault::{READ_ONLY, SessionError};
pub(super) use locks::{AdvisoryLock, AdvisoryLocks};
pub(super) use server::Server;
pub(super) use session::Session;

use super::fault::{Fault, storage};
use super::files::JournalFiles;
use super::heads::Heads;
use super::locks::Locks;
use super::seal::Key;
use super::sql::Connection;
use super::{Database, JournalParts};
use crate::JournalError;
use crate::files;

/// Opens the journal that a URL names. With `lays`, a database without a journal gets one, and an older one is migrated.
pub(super) fn open(given: &str, lays: bool, folder: &Path) -> Result<JournalParts, JournalError> {
    let url = url::JournalUrl::parse(given).map_err(|message| storage(Path::new("--journal"), message))?;
    let path = PathBuf::from(url.shown());
    let state = url.state.clone();
    let folder = state.as_deref().unwrap_or(folder);
    let at = |error: SessionError| Fault::Sql(error.into()).at(&path);
    let server = Server::new(url).map_err(at)?;
    let session = server.connect().map_err(at)?;
    let about = schema::prepare(&session, &path, lays, folder).map_err(|fault| fault.at(&path))?;
    let base = folder.join(&about.id);
    let key = Key::read(&base).map_err(|error| Fault::from(error).at(&path))?;
    if lays && key.as_ref().is_none_or(|key| key.name() != about.key) {
        let file = Key::path(&base);
        let message = format!(
            "this machine does not have the journal's key; copy {} from the machine that made the journal",
            file.display()
        );
        return Err(storage(&path, message));
    }
    if lays {
        files::create_folder(folder).map_err(|error| Fault::from(error).at(&path))?;
    }
    Ok(JournalParts {
        heads: Heads::beside(&base),
        locks: Locks::Advisory(AdvisoryLocks::of(&server)),
        database: Database::Server(server),
        place: JournalFiles::of_server(),
        reader: Connection::Postgres(Box::new(session)),
        path,
        base,
        key,
    })
}

//! The tokens of a running server. The file is reloaded when it changes. A broken file changes nothing and is reported.

use std::fmt;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::secret::SecretHash;
use super::tokens::{Token, TokenError, TokenFile};

/// Called with the error when the file becomes unusable.
pub type TokenListener = Arc<dyn Fn(&TokenError) + Send + Sync>;

/// The tokens of a file, reloaded when it changes.
pub struct WatchedTokens {
    file: TokenFile,
    listener: TokenListener,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    tokens: RwLock<Arc<[Token]>>,
    seen: Mutex<FileVersion>,
}

/// The last content of the file, and when it was read.
struct FileVersion {
    stamp: Option<FileStamp>,
    read: Instant,
}

/// The result of looking up a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenMatch {
    /// It is valid.
    Valid(Box<Token>),
    /// It has expired. The name is that of the token.
    Expired(Arc<str>),
    /// There is no such token.
    Unknown,
}

impl fmt::Debug for WatchedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedTokens").field("file", &self.file).finish_non_exhaustive()
    }
}

impl WatchedTokens {
    /// Opens the file. A later change that makes it unusable is reported to the listener, and the last good list stays.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn open(file: TokenFile, listener: TokenListener) -> Result<Self, TokenError> {
        // The stamp first: what changes while the file is read is read again.
        let stamp = FileStamp::of(&file);
        let tokens = RwLock::new(file.read()?.into());
        let seen = Mutex::new(FileVersion { stamp, read: Instant::now() });
        Ok(Self { file, listener, clock: Arc::new(Timestamp::now), tokens, seen })
    }

    /// The same with another clock, by which tokens expire.
    pub fn with_clock(self, clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { clock, ..self }
    }

    /// The tokens that the file has now.
    pub fn tokens(&self) -> Arc<[Token]> {
        self.current()
    }

    /// Whether no token is valid: there are none, or all have expired.
    pub fn is_empty(&self) -> bool {
        let now = (self.clock)();
        self.current().iter().all(|token| token.is_expired(now))
    }

    /// Looks up a token.
    pub(super) fn find(&self, given: &str) -> TokenMatch {
        self.matching(|token, given| token.hash == *given, &SecretHash::of(given))
    }

    /// Looks up the token of a session, in its current state.
    pub(super) fn again(&self, hash: &SecretHash) -> TokenMatch {
        self.matching(|token, hash| token.hash == *hash, hash)
    }

    fn matching(&self, is_it: impl Fn(&Token, &SecretHash) -> bool, hash: &SecretHash) -> TokenMatch {
        let tokens = self.current();
        // All are compared, wherever it is.
        let found =
            tokens.iter().fold(None, |found, token| if is_it(token, hash) { Some(token) } else { found });
        match found {
            Some(token) if token.is_expired((self.clock)()) => TokenMatch::Expired(Arc::clone(&token.name)),
            Some(token) => TokenMatch::Valid(Box::new(token.clone())),
            None => TokenMatch::Unknown,
        }
    }

    /// The current tokens, reloaded if the file has changed.
    fn current(&self) -> Arc<[Token]> {
        let seen = match self.seen.try_lock() {
            Ok(seen) => Some(seen),
            Err(TryLockError::Poisoned(seen)) => Some(seen.into_inner()),
            // Another request reads it at this moment.
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut seen) = seen {
            let stamp = FileStamp::of(&self.file);
            let is_changed = stamp != seen.stamp;
            // A clock of files is coarse: two changes can have one stamp.
            if is_changed || seen.read.elapsed() >= AGAIN {
                (seen.stamp, seen.read) = (stamp, Instant::now());
                match aside(|| self.file.read()) {
                    Ok(tokens) => {
                        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens.into()
                    }
                    Err(error) if is_changed => (self.listener)(&error),
                    Err(_) => {}
                }
            }
        }
        Arc::clone(&self.tokens.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs work that may wait for a disk. Other tasks of the worker thread move to another thread meanwhile.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is one thread, or none that others wait for.
        Ok(_) | Err(_) => work(),
    }
}

/// The interval after which the file is read again in any case.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// The metadata that shows that a file was changed or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    inode: (u64, u64, i64, i64, u32),
}

impl FileStamp {
    fn of(file: &TokenFile) -> Option<Self> {
        let found = fs::metadata(file.path()).ok()?;
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        Some(Self {
            modified: found.modified().ok(),
            bytes: found.len(),
            #[cfg(unix)]
            inode: (found.dev(), found.ino(), found.ctime(), found.ctime_nsec(), found.mode()),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::caller::Role;
    use crate::doors::tokens::NewToken;

    fn new(name: &str) -> NewToken {
        NewToken { name: name.into(), roles: [Role::Read].into(), ..NewToken::default() }
    }

    #[test]
    fn a_removed_token_opens_nothing_at_once_and_a_broken_file_keeps_the_last_good_list() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::at(folder.path().join("tokens.toml"));
        let (ci, team) = (file.add(new("ci")).unwrap(), file.add(new("team")).unwrap());
        let reported = Arc::new(Mutex::new(Vec::new()));
        let listener: TokenListener = {
            let reported = Arc::clone(&reported);
            Arc::new(move |error| reported.lock().unwrap().push(error.to_string()))
        };
        let watched = WatchedTokens::open(file.clone(), listener).unwrap();
        assert!(matches!(watched.find(ci.reveal()), TokenMatch::Valid(_)));
        assert!(file.remove("ci").unwrap());
        assert_eq!(watched.find(ci.reveal()), TokenMatch::Unknown);
        assert_eq!(watched.again(&ci.hash()), TokenMatch::Unknown);
        assert!(reported.lock().unwrap().is_empty());
        let good = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), "[[token").unwrap();
        assert!(matches!(watched.find(team.reveal()), TokenMatch::Valid(_)));
        assert!(matches!(watched.find(team.reveal()), TokenMatch::Valid(_)));
        assert_eq!(reported.lock().unwrap().len(), 1, "each change is reported once");
        fs::remove_file(file.path()).unwrap();
        assert!(matches!(watched.find(team.reveal()), TokenMatch::Valid(_)));
        assert_eq!(reported.lock().unwrap().len(), 2);
        // Made anew with the rights that the test's umask gives: other users can read it.
        fs::write(file.path(), good.replace("team", "other")).unwrap();
        assert!(matches!(watched.find(team.reveal()), TokenMatch::Valid(token) if &*token.name == "team"));
        assert_eq!(reported.lock().unwrap().len(), 3);
    }

    #[cfg(unix)]
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_pipe_or_a_device_in_place_of_the_file_holds_nothing_up() {
        // Issue 40, H5.
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::at(folder.path().join("tokens.toml"));
        let ci = file.add(new("ci")).unwrap();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let listener: TokenListener = {
            let reported = Arc::clone(&reported);
            Arc::new(move |error| reported.lock().unwrap().push(error.to_string()))
        };
        let watched = Arc::new(WatchedTokens::open(file.clone(), listener).unwrap());
        fs::remove_file(file.path()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(file.path()).status().unwrap().success());
        let (asked, given) = (Arc::clone(&watched), ci.reveal().to_owned());
        let found = tokio::spawn(async move { asked.find(&given) });
        let found = tokio::time::timeout(Duration::from_secs(5), found).await.unwrap().unwrap();
        assert!(matches!(found, TokenMatch::Valid(_)), "the last good list stays");
        fs::remove_file(file.path()).unwrap();
        std::os::unix::fs::symlink("/dev/zero", file.path()).unwrap();
        assert!(matches!(watched.find(ci.reveal()), TokenMatch::Valid(_)));
        let reported = reported.lock().unwrap();
        assert!(reported.iter().all(|error| error.contains("name a regular file")), "{reported:?}");
        assert_eq!(reported.len(), 2);
        assert!(WatchedTokens::open(file, Arc::new(|_| {})).is_err());
    }

    #[test]
    fn an_expired_token_is_not_an_unknown_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::at(folder.path().join("tokens.toml"));
        let expires = Some("2027-01-01T00:00:00Z".parse().unwrap());
        let secret = file.add(NewToken { expires, ..new("ci") }).unwrap();
        let at = |now: &str| {
            let now: Timestamp = now.parse().unwrap();
            let watched = WatchedTokens::open(file.clone(), Arc::new(|_| {})).unwrap();
            watched.with_clock(Arc::new(move || now)).find(secret.reveal())
        };
        assert!(matches!(at("2026-12-31T23:59:59Z"), TokenMatch::Valid(_)));
        assert_eq!(at("2027-01-01T00:00:00Z"), TokenMatch::Expired("ci".into()));
    }
}

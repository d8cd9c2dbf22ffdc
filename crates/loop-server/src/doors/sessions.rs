//! One-time codes and the sessions for which they are exchanged. Both are in memory only, as hashes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::secret::{NoRandomBytes, Secret, SecretHash, same};

/// How long a code is valid.
pub const CODE_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// How long a session lasts.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// The most unused codes. A further one replaces the oldest.
const MAX_CODES: usize = 16;
/// The most sessions. A further one replaces the one that expires first.
const MAX_SESSIONS: usize = 1_000;
/// The most sessions of one holder. A further one replaces the holder's session that expires first.
const MAX_SESSIONS_OF_ONE: usize = 20;

/// The holder of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The person at this machine, who had the code.
    Local,
    /// The holder of the token with this hash.
    Token(SecretHash),
}

/// All codes and sessions of a server.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    state: Mutex<SessionState>,
}

#[derive(Debug, Default)]
struct SessionState {
    codes: Vec<(SecretHash, Instant)>,
    sessions: HashMap<SecretHash, (Holder, Instant)>,
}

impl Sessions {
    /// A new code for the person at this machine.
    pub(super) fn invite(&self) -> Result<Secret, NoRandomBytes> {
        let code = Secret::random("")?;
        let mut state = self.state();
        if state.codes.len() >= MAX_CODES {
            state.codes.remove(0);
        }
        state.codes.push((code.hash(), Instant::now() + CODE_LIFETIME));
        Ok(code)
    }

    /// Uses a code. Returns whether it was valid. It cannot be used again.
    pub(super) fn redeem(&self, code: &str) -> bool {
        let (given, now) = (SecretHash::of(code), Instant::now());
        let mut state = self.state();
        state.codes.retain(|(_, ends)| *ends > now);
        let before = state.codes.len();
        state.codes.retain(|(hash, _)| *hash != given);
        state.codes.len() < before
    }

    /// Begins a session, and returns its id.
    pub(super) fn begin(&self, holder: Holder) -> Result<Secret, NoRandomBytes> {
        let (id, now) = (Secret::random("")?, Instant::now());
        let mut state = self.state();
        state.sessions.retain(|_, (_, ends)| *ends > now);
        let own = state.sessions.values().filter(|(of, _)| *of == holder).count();
        let is_full = state.sessions.len() >= MAX_SESSIONS;
        if is_full || own >= MAX_SESSIONS_OF_ONE {
            let replaced =
                state.sessions.iter().filter(|(_, (of, _))| own < MAX_SESSIONS_OF_ONE || *of == holder);
            if let Some(first) = replaced.min_by_key(|(_, (_, ends))| *ends).map(|(hash, _)| *hash) {
                state.sessions.remove(&first);
            }
        }
        state.sessions.insert(id.hash(), (holder, now + SESSION_LIFETIME));
        Ok(id)
    }

    /// The holder of the session with this id. `None`: it has ended or never existed.
    pub(super) fn find(&self, id: &str) -> Option<Holder> {
        let state = self.state();
        let (holder, ends) = state.sessions.get(&SecretHash::of(id))?;
        (*ends > Instant::now()).then_some(*holder)
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &str) {
        self.state().sessions.remove(&SecretHash::of(id));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The CSRF token of a session. It is derived from the session's id, which no other site knows.
pub(super) fn csrf_of(session: &str) -> Arc<str> {
    let text = SecretHash::of(&format!("loopgate csrf {session}")).to_string();
    text.trim_start_matches("sha256:").into()
}

/// Whether a form has sent the CSRF token of its session.
pub(super) fn is_csrf_of(session: &str, given: &str) -> bool {
    same(csrf_of(session).as_bytes(), given.as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_code_is_exchanged_once_and_for_ten_minutes() {
        let sessions = Sessions::default();
        let (code, late) = (sessions.invite().unwrap(), sessions.invite().unwrap());
        assert!(!sessions.redeem("") && !sessions.redeem(&code.reveal()[1..]));
        assert!(sessions.redeem(code.reveal()) && !sessions.redeem(code.reveal()));
        tokio::time::advance(CODE_LIFETIME).await;
        assert!(!sessions.redeem(late.reveal()));
        let first = sessions.invite().unwrap();
        (0..MAX_CODES).for_each(|_| drop(sessions.invite().unwrap()));
        assert!(!sessions.redeem(first.reveal()), "the oldest was replaced");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_by_logout_and_after_twelve_hours() {
        let sessions = Sessions::default();
        let (one, other) = (sessions.begin(Holder::Local).unwrap(), sessions.begin(Holder::Local).unwrap());
        assert_eq!(sessions.find(one.reveal()), Some(Holder::Local));
        sessions.end(one.reveal());
        assert_eq!((sessions.find(one.reveal()), sessions.find("")), (None, None));
        tokio::time::advance(SESSION_LIFETIME).await;
        assert_eq!(sessions.find(other.reveal()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded() {
        // H10
        let sessions = Sessions::default();
        let of = |n: usize| Holder::Token(SecretHash::of(&format!("token {}", n % 100)));
        let first = sessions.begin(of(0)).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        (1..=MAX_SESSIONS).for_each(|n| drop(sessions.begin(of(n)).unwrap()));
        assert_eq!(sessions.state().sessions.len(), MAX_SESSIONS);
        assert_eq!(sessions.find(first.reveal()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_holder_ends_the_sessions_of_no_other() {
        // H10
        let sessions = Sessions::default();
        let other = sessions.begin(Holder::Local).unwrap();
        let holder = Holder::Token(SecretHash::of("token"));
        let first = sessions.begin(holder).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        (0..MAX_SESSIONS).for_each(|_| drop(sessions.begin(holder).unwrap()));
        assert_eq!(sessions.state().sessions.len(), MAX_SESSIONS_OF_ONE + 1);
        assert_eq!(
            (sessions.find(first.reveal()), sessions.find(other.reveal())),
            (None, Some(Holder::Local))
        );
    }

    #[test]
    fn what_a_form_sends_back_is_of_one_session() {
        assert!(is_csrf_of("a", &csrf_of("a")) && !is_csrf_of("b", &csrf_of("a")) && !is_csrf_of("a", ""));
        assert_ne!(SecretHash::of("a").to_string(), format!("sha256:{}", csrf_of("a")));
    }
}

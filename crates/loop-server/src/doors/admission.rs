//! Rechecks the caller of a long response: a token can be removed or expire, and a session can end.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::guard::DoorState;
use super::secret::SecretHash;
use super::sessions::Holder;
use super::watched::{AGAIN, TokenMatch};
use super::who::of_token;
use crate::caller::Caller;

/// The token or session by which a request was admitted. It is in the extensions of each request that has a [`Caller`].
#[derive(Clone)]
pub struct Admission {
    inside: Arc<DoorState>,
    caller: Caller,
    by: AuthVia,
}

/// The credential of the caller.
#[derive(Clone)]
pub(super) enum AuthVia {
    Token(SecretHash),
    Session(Arc<str>),
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Admission {
    pub(super) fn new(inside: &Arc<DoorState>, caller: Caller, by: AuthVia) -> Self {
        Self { inside: Arc::clone(inside), caller, by }
    }

    /// Returns once the token or session is no longer valid.
    pub(crate) async fn lost(&self) {
        while self.is_valid() {
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Whether the token or session is valid and has the same rights. The removal of a token takes effect within a
    /// second.
    pub fn is_valid(&self) -> bool {
        let token = match &self.by {
            AuthVia::Token(hash) => *hash,
            AuthVia::Session(session) => match self.inside.sessions.find(session) {
                Some(Holder::Token(hash)) => hash,
                Some(Holder::Local) => return true,
                None => return false,
            },
        };
        let found = self.inside.config.tokens.as_ref().map(|tokens| tokens.again(&token));
        let Some(TokenMatch::Valid(token)) = found else { return false };
        of_token(&token, IpAddr::V4(Ipv4Addr::UNSPECIFIED)).caller == self.caller
    }
}

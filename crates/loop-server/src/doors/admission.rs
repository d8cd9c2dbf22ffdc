//! Whether the caller of an answer that lasts is still admitted: a token can be removed or expire, and a session can end.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::guard::DoorState;
use super::secret::SecretHash;
use super::sessions::Holder;
use super::watched::{AGAIN, TokenMatch};
use super::who::of_token;
use crate::caller::Caller;

/// By what a request was admitted. It is in the extensions of each request that has a [`Caller`].
#[derive(Clone)]
pub struct Admission {
    inside: Arc<DoorState>,
    caller: Caller,
    by: AuthVia,
}

/// What the caller has given.
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

    /// Returns once it is not valid any more.
    pub(crate) async fn lost(&self) {
        while self.is_valid() {
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Whether the same token or session gives the same rights now. A removed token is noticed within a second.
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

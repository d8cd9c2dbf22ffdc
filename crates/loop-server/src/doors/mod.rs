//! The door of the server: authentication, `Host` and `Origin` checks, CSRF, limits of requests, and the audit log.
//!
//! ```text
//! socket ──► listen: connections, header time and size, stalled writes
//!        ──► guard:  form of the request ──► Host ──► Origin ──► token or session ──► CSRF ──► body limits
//!        ──► route, with a Caller and an Identity in the request's extensions
//! ```
//!
//! | module | what you find there |
//! |---|---|
//! | [`tokens`] | the file of tokens |
//! | `watched` | the tokens of a running server, reloaded when the file changes |
//! | `sessions` | one-time codes and sessions |
//! | `hosts` | the names of the server and the origins of its pages |
//! | `guard`, `shape`, `site`, `who`, `csrf` | the checks of every request, in their order |
//! | `refusal` | why a request is refused, and whether the connection is closed |
//! | `page_request` | problems as pages for browsers, and the name of the reader in a page |
//! | `foreign` | errors of axum as problems |
//! | `login` | login with a code or a token, and logout |
//! | `admission` | rechecks the caller of a long response |
//! | `attempts` | limits on failed logins |
//! | `audit`, `identity` | the audit log, and who its entries are about |
//! | `attempted`, `refusals` | which refused requests are recorded, and how many |
//! | `body`, `headers`, `form` | limits of bodies, headers of responses, fields of forms |
//! | `listen`, `stall`, `strict` | the socket: limits on connections, stalled writes, ambiguous HTTP |

#[cfg(feature = "http")]
mod admission;
#[cfg(feature = "http")]
mod attempted;
#[cfg(feature = "http")]
mod attempts;
#[cfg(feature = "http")]
mod audit;
#[cfg(feature = "http")]
mod body;
#[cfg(feature = "http")]
mod csrf;
#[cfg(feature = "http")]
mod foreign;
#[cfg(feature = "http")]
mod form;
#[cfg(feature = "http")]
mod guard;
#[cfg(feature = "http")]
mod headers;
#[cfg(feature = "http")]
mod hosts;
#[cfg(feature = "http")]
mod identity;
#[cfg(feature = "http")]
mod listen;
#[cfg(feature = "http")]
mod login;
#[cfg(feature = "http")]
mod page_request;
#[cfg(feature = "http")]
mod refusal;
#[cfg(feature = "http")]
mod refusals;
mod secret;
#[cfg(feature = "http")]
mod sessions;
#[cfg(feature = "http")]
mod shape;
#[cfg(feature = "http")]
mod site;
#[cfg(feature = "http")]
mod stall;
#[cfg(feature = "http")]
mod strict;
pub mod tokens;
#[cfg(feature = "http")]
mod watched;
#[cfg(feature = "http")]
mod who;

pub use secret::{NoRandomBytes, Secret, SecretHash};

#[cfg(feature = "http")]
pub use self::{
    admission::Admission,
    attempts::{MAX_FAILURES, MAX_FAILURES_IN_ALL},
    audit::{Audit, AuditPage, AuditQuery},
    guard::{Doors, DoorsConfig, NotADoor},
    hosts::{Hosts, NotAHost},
    identity::Identity,
    listen::{DoorLimits, Peer, serve},
    refusals::MAX_REFUSALS,
    sessions::{CODE_LIFETIME, SESSION_LIFETIME},
    watched::{TokenListener, WatchedTokens},
};

#[cfg(feature = "http")]
pub(crate) use self::{
    audit::short,
    form::{boundary, field, parts},
};

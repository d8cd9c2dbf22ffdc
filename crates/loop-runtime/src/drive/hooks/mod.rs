//! Hooks: messages about a run to other programs, each at least once: it waits for a person, the time to answer is nearly
//! over, it has ended or failed.
//!
//! ```text
//! entry ─┐
//!        ├─▶ one commit ─▶ delivered ─▶ taken out of the outbox
//! message┘                 └─ failed: later, by this process or by another one
//! ```
//!
//! A message is committed together with the entry that caused it, so neither is there without the other. It is delivered
//! after that. A hook changes nothing about its run. The message that the time to answer is nearly over is committed with
//! the beginning of the wait, due before its end, and given up where the wait has ended earlier.

mod deliver;
mod message;
mod sign;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loop_core::run::PersonRequest;
pub use loop_journal::outbox::{ClaimedMessage, DeliveryResult, HookEvent, HookMessage, QueuedMessage};

pub use deliver::{HookReport, MAX_DELIVERIES};
pub(crate) use message::StatusBefore;
pub use message::{HOOK_VERSION, HookBody, HookData, HookRequest};
pub use sign::SigningKey;

/// A receiver of messages.
#[derive(Clone)]
pub struct Hook {
    /// Its name in the domain.
    pub name: Arc<str>,
    /// What it is notified of. An end is reported once: as `failed` if it is one and the hook asks for that, otherwise
    /// as `ended`.
    pub on: Vec<HookEvent>,
    /// What delivers.
    pub sender: Arc<dyn HookSender>,
    /// How long one delivery may take. A run's end waits at most as long.
    pub timeout: Duration,
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("name", &self.name).field("on", &self.on).finish_non_exhaustive()
    }
}

/// Delivers messages to one receiver.
#[async_trait]
pub trait HookSender: Send + Sync {
    /// Delivers a message. The caller bounds the time.
    ///
    /// # Errors
    /// Why it is not delivered, as one line without a secret. It is tried again.
    async fn send(&self, message: &HookMessage) -> Result<(), String>;
}

/// Makes the address at which a person decides a request.
pub trait DecisionLinks: Send + Sync {
    /// The address for a request in a message of this time, in milliseconds since 1970 (UTC). `None`: it has none. The
    /// address alone decides nothing: the person has to log in there.
    fn link(&self, requested: &PersonRequest, unix_ms: u64) -> Option<String>;
}

/// Called with each delivery.
pub type HookListener = Arc<dyn Fn(&HookReport) + Send + Sync>;

/// The hooks of a loop.
#[derive(Clone, Default)]
pub struct Hooks {
    pub(crate) hooks: Vec<Hook>,
    pub(crate) listener: Option<HookListener>,
    pub(crate) links: Option<Arc<dyn DecisionLinks>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hooks.fmt(f)
    }
}

impl Hooks {
    /// These hooks.
    pub fn new(hooks: impl IntoIterator<Item = Hook>) -> Self {
        Self { hooks: hooks.into_iter().collect(), listener: None, links: None }
    }

    /// The same with links to the pages where people decide, for messages about what waits.
    pub fn with_links(self, links: Arc<dyn DecisionLinks>) -> Self {
        Self { links: Some(links), ..self }
    }

    /// The same with a listener, which is called with each delivery.
    pub fn with_listener(self, listener: HookListener) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// The hook with this name.
    pub fn get(&self, name: &str) -> Option<&Hook> {
        self.hooks.iter().find(|hook| &*hook.name == name)
    }
}

//! The work item: the piece of work that a run is about.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::Digest;
use crate::types::invisible::is_blank;
use crate::types::is_default;
use crate::types::item_form::ItemForm;
use crate::types::trace::TraceParent;

/// What a run works on: a ticket, a lead, a pull request, an order. It is evidence `E0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkItem {
    /// Its id in the system that it comes from, for example `T-1042`. Set by the domain or the program.
    pub id: Arc<str>,
    /// The word for such an item, for example `ticket`. The domain sets it.
    pub kind: Arc<str>,
    /// One line for people and prompts.
    pub title: Arc<str>,
    /// How a conversation shows it to the model. Data if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub form: ItemForm,
    /// The whole item as Markdown. The first pass reads it.
    pub full: Arc<str>,
    /// A short form of the item, for the selector and for sub-calls, which do not need all of it.
    pub compact: Arc<str>,
    /// Whom and what the item concerns. Tools restrict their queries to it.
    pub scope: Scope,
    /// Who started the run, as the calling program states it. `None`: not stated. No model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Arc<str>>,
    /// The caller's trace id. `None`: the run's own id is used. Tools receive it besides their idempotency key. No
    /// model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
    /// The span of the caller in which the run is submitted. `None`: the run has a trace of its own. No model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}

impl WorkItem {
    /// An item of plain text, without a scope; its compact form is the whole text.
    pub fn new(
        id: impl Into<Arc<str>>,
        kind: impl Into<Arc<str>>,
        title: impl Into<Arc<str>>,
        text: &str,
    ) -> Self {
        Self {
            id: id.into(),
            kind: kind.into(),
            title: title.into(),
            form: ItemForm::default(),
            full: text.into(),
            compact: text.into(),
            scope: Scope::default(),
            caller: None,
            trace: None,
            traceparent: None,
        }
    }

    /// A user's message: an item of kind `message`, which the model reads as the user's own text.
    pub fn message(id: impl Into<Arc<str>>, title: impl Into<Arc<str>>, text: &str) -> Self {
        Self { form: ItemForm::Message, ..Self::new(id, "message", title, text) }
    }

    /// The digest of its content. It does not depend on who started the run: two items with one digest are the same
    /// work.
    pub fn digest(&self) -> Digest {
        let Self { id, kind, title, full, scope, .. } = self;
        let said = serde_json::to_string(&(id, kind, title, full, scope));
        Digest::of("item", said.expect("these are texts").as_bytes())
    }

    /// Whether its text has no visible character, so that there is nothing to work on.
    pub fn is_blank(&self) -> bool {
        is_blank(&self.full)
    }
}

/// Whom and what a work item concerns. The domain takes it from the item by rule, and it never holds credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// The id of the account, customer, organisation or project. `None`: the item names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<Arc<str>>,
    /// The account's name for people. `None`: not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_name: Option<Arc<str>>,
    /// The id of the device, vehicle, product or server concerned. `None`: the item names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset: Option<Arc<str>>,
    /// The id of the work item. `None`: it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<Arc<str>>,
    /// The person concerned: contact, lead or author. `None`: the item names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<Arc<str>>,
}

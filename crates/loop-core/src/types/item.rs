//! The work item: the piece of work that a run is about.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::invisible::is_blank;
use crate::types::is_default;
use crate::types::item_form::ItemForm;

/// A ticket, a lead, a pull request, an order (S0-3). It is evidence `E0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkItem {
    /// Its id where it comes from, for example `T-1042`.
    pub id: Arc<str>,
    /// What such an item is called, for example `ticket`.
    pub kind: Arc<str>,
    /// One line for people.
    pub title: Arc<str>,
    /// How a run with native calls shows it to its model; data where it is not said.
    #[serde(default, skip_serializing_if = "is_default")]
    pub form: ItemForm,
    /// All of it, as Markdown: what the first pass reads.
    pub full: Arc<str>,
    /// A short form, for calls that only need to know what the work is about (S0-137).
    pub compact: Arc<str>,
    /// Whom and what the item concerns; tools scope their queries by it.
    pub scope: Scope,
    /// Who asks for the run, as the program that starts it says; no model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Arc<str>>,
    /// The id under which the caller traces the run; the run's own id where it gives none. Tools get it apart from their
    /// idempotency keys, and no model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
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
        }
    }

    /// What a user says: an item of kind `message` that its model is shown as the user's own text.
    pub fn message(id: impl Into<Arc<str>>, title: impl Into<Arc<str>>, text: &str) -> Self {
        Self { form: ItemForm::Message, ..Self::new(id, "message", title, text) }
    }

    /// Whether its text says nothing that anybody could see: there is nothing to work on.
    pub fn is_blank(&self) -> bool {
        is_blank(&self.full)
    }
}

/// Whom and what a work item concerns (S0-63, S0-64, S0-140). Credentials never stand here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// The account, customer, organisation or project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<Arc<str>>,
    /// The account's name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_name: Option<Arc<str>>,
    /// The device, vehicle, product or server concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset: Option<Arc<str>>,
    /// The work item's own id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<Arc<str>>,
    /// The person: contact, lead, author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<Arc<str>>,
}

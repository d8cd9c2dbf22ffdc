//! How a model is shown a work item: as data, or as the user's own message.

use serde::{Deserialize, Serialize};

/// How a conversation shows its work item to the model.
///
/// The program that makes the item sets it. It is never read from the item's own text, so an item that claims to be a
/// message stays data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemForm {
    /// As data: with its kind and title, between delimiters that it cannot forge. The default.
    #[default]
    Data,
    /// As the user's own message: its text as it is.
    Message,
}

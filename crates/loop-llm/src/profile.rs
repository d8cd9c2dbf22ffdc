//! The differences between endpoints as data: one row of `profiles.json` for each.

use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::codec::Api;
use crate::options::Effort;

/// What an endpoint is like: where it is, which key it takes, what it expects and offers.
///
/// Fields that a protocol does not have are ignored with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name, for example `groq`.
    pub name: Arc<str>,
    /// The protocol that it speaks.
    pub api: Api,
    /// Where it is, up to and with the version, for example `https://gateway.example/v1`. Default: each user has their own.
    pub base_url: Option<Arc<str>>,
    /// The environment variable that holds the key; in a domain file `""` for no key.
    pub api_key_env: Option<Arc<str>>,
    /// How the key is sent.
    pub auth: Auth,
    /// Whether its models are those of the protocol's inventor under their own names, so that what is known of these holds.
    pub known_models: bool,
    /// What the limit of output tokens is called.
    pub max_tokens_field: MaxTokensField,
    /// The role in which the rules are sent.
    pub system_role: SystemRole,
    /// The role of instructions behind the first message, such as that the next reply is the last.
    pub late_instructions: LateInstructions,
    /// What is in place of the text of a turn of calls alone.
    pub null_content: NullContent,
    /// Whether usage has to be asked for in a stream.
    pub ask_usage: bool,
    /// Whether reasoning goes back with the turns that it belongs to.
    pub reasoning_back: ReasoningBack,
    /// Members of a reply's message, or of its calls, that the server is known to take back, besides text, calls, refusal and
    /// reasoning, for example `["extra_content"]`. All others stay out of the history: some servers answer a member that they do
    /// not know with an error.
    pub members_back: Arc<[Arc<str>]>,
    /// Whether a refusal goes back as `refusal`; otherwise it goes back as text.
    pub refusal_back: bool,
    /// Whether the text may hold reasoning between `<think>` and `</think>`.
    pub think_tags: bool,
    /// Which ids of calls are taken.
    pub tool_ids: ToolIds,
    /// The word that says that some tool must be called; in a domain file `""` where there is none.
    pub required_choice: Option<Arc<str>>,
    /// Whether one tool can be named that must be called.
    pub named_choice: bool,
    /// Whether calls can be restricted to some of the tools.
    pub allowed_tools: bool,
    /// Whether tools can be bound to their schema.
    pub strict_tools: bool,
    /// Whether the text can be bound to a schema.
    pub json_schema: bool,
    /// Whether calls can be kept to one at a time.
    pub parallel_switch: bool,
    /// Whether an effort is taken.
    pub effort: bool,
    /// Which efforts its models take, where that is known: the first row that fits a model holds, and a model without a
    /// row takes none. Without any row each effort is taken, as far as the model is known to take it. A domain file gives
    /// one list for all models, for example `["none", "high"]`; the nearest is sent.
    #[schemars(with = "Vec<Effort>")]
    pub efforts: Arc<[EffortRow]>,
    /// Whether `thinking: {"type": "disabled"}` says that a model is not to reason, in place of an effort.
    pub thinking_switch: bool,
    /// Whether a request can set how many tokens to draw from.
    pub top_k: bool,
    /// What a seed is called; in a domain file `""` where there is none.
    pub seed_field: Option<Arc<str>>,
    /// The most texts at which a reply ends.
    pub stop_max: usize,
    /// Whether a key may say which calls begin alike.
    pub cache_key: bool,
    /// Where the beginnings are marked that the cache keeps.
    pub cache_marks: CacheMarks,
    /// Whether reasoning is counted beside the completion, and not within it.
    pub reasoning_beside_completion: bool,
    /// Whether each piece of a call's arguments has all of them so far.
    pub whole_arguments_each_chunk: bool,
    /// Whether a user's turn may not come right after tools' results.
    pub no_user_after_tool: bool,
    /// Whether what does not fit into the model is cut off without a word.
    pub cuts_silently: bool,
    /// Whether its models take the pictures of tools' results. Otherwise a line says that they are left out.
    pub result_pictures: bool,
}

/// Which efforts some models take.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EffortRow {
    /// How their names begin, without a part before a slash. Empty: all models.
    pub models: Arc<str>,
    /// What they take.
    pub efforts: Arc<[Effort]>,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$word_doc])* $word),* }
    };
}

words! {
    /// How a key is sent.
    Auth {
        /// As `Authorization: Bearer`.
        Bearer,
        /// As `api-key`.
        ApiKey,
        /// As `x-api-key`.
        XApiKey,
        /// As `x-goog-api-key`.
        XGoogApiKey,
    }
}

words! {
    /// What the limit of output tokens is called.
    MaxTokensField {
        /// So.
        MaxCompletionTokens,
        /// So.
        MaxTokens,
    }
}

words! {
    /// Whose word the rules are.
    SystemRole {
        /// Role `developer`.
        Developer,
        /// Role `system`.
        System,
    }
}

words! {
    /// The role of instructions behind the first message. Chat templates of many open models take the rules only as the
    /// first message.
    LateInstructions {
        /// Role `user`, marked as the operator's.
        User,
        /// Role `system`.
        System,
        /// Role `developer`.
        Developer,
    }
}

words! {
    /// The text of a turn that has none.
    NullContent {
        /// `null`.
        Null,
        /// `""`.
        EmptyString,
        /// Nothing.
        Omit,
    }
}

words! {
    /// Whether reasoning goes back.
    ReasoningBack {
        /// No.
        Never,
        /// With turns that call tools, as `reasoning_content`.
        WithToolCalls,
        /// Always, as it came.
        Always,
    }
}

words! {
    /// Which ids of calls are taken.
    ToolIds {
        /// Any.
        Any,
        /// Nine letters and digits.
        Alnum9,
    }
}

words! {
    /// Where the beginnings are marked that the cache keeps.
    CacheMarks {
        /// Nowhere: it finds them by itself, or has none.
        None,
        /// Once for the whole request, which marks its last block.
        Automatic,
        /// At blocks.
        Blocks,
    }
}

impl Profile {
    /// The profile with this name.
    pub fn named(name: &str) -> Option<Arc<Self>> {
        Self::all().iter().find(|profile| &*profile.name == name).map(Arc::clone)
    }

    /// All known profiles.
    pub fn all() -> &'static [Arc<Self>] {
        static ALL: LazyLock<Vec<Arc<Profile>>> =
            LazyLock::new(|| rows().expect("a test reads the committed rows"));
        &ALL
    }
}

impl LateInstructions {
    /// The role's name, where it is not the user's.
    pub(crate) fn role(self) -> Option<&'static str> {
        match self {
            Self::User => None,
            Self::System => Some("system"),
            Self::Developer => Some("developer"),
        }
    }
}

impl Profile {
    /// The efforts of a model according to this profile. `None` if the profile has no rows.
    pub(crate) fn efforts_of(&self, model: &str) -> Option<&[Effort]> {
        if self.efforts.is_empty() {
            return None;
        }
        let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
        let row = self.efforts.iter().find(|row| name.starts_with(&*row.models));
        Some(row.map_or(&[], |row| &row.efforts))
    }
}

impl Default for Profile {
    /// A server that is compatible with Chat Completions, without known extras.
    fn default() -> Self {
        let compatible = Self::named("compatible").expect("a row has this name");
        Arc::unwrap_or_clone(compatible)
    }
}

/// The rows of `profiles.json`.
fn rows() -> Result<Vec<Arc<Profile>>, serde_json::Error> {
    let rows: Vec<Map<String, Value>> = serde_json::from_str(include_str!("profiles.json"))?;
    rows.iter().map(|row| serde_json::from_value(whole(row, &rows).into()).map(Arc::new)).collect()
}

/// A row with all members: its own, and else those of the row that it is `like`. `why` is for readers.
fn whole(row: &Map<String, Value>, rows: &[Map<String, Value>]) -> Map<String, Value> {
    let like = row.get("like").and_then(|name| rows.iter().find(|other| other.get("name") == Some(name)));
    let mut members = like.map(|like| whole(like, rows)).unwrap_or_default();
    let own = row.iter().filter(|(key, _)| !matches!(key.as_str(), "like" | "why"));
    members.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    members
}

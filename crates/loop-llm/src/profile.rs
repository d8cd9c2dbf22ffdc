//! The differences between endpoints as data: one row of `profiles.json` for each.

use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::codec::Api;
use crate::options::Effort;

/// An endpoint as data: its address, its key, and where its API differs from others.
///
/// Fields that a protocol does not have are ignored with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name, for example `groq`.
    pub name: Arc<str>,
    /// The wire protocol.
    pub api: Api,
    /// The base URL, version included, for example `https://gateway.example/v1`. Default: each user has their own.
    pub base_url: Option<Arc<str>>,
    /// The environment variable that holds the key; in a domain file `""` for no key.
    pub api_key_env: Option<Arc<str>>,
    /// How the key is sent.
    pub auth: Auth,
    /// Whether its models are those of the protocol's owner, under the owner's names, so that the tables of their
    /// abilities apply.
    pub known_models: bool,
    /// The member of a request that has the limit of output tokens.
    pub max_tokens_field: MaxTokensField,
    /// The role of the system prompt.
    pub system_role: SystemRole,
    /// The role of instructions behind the first message, such as that the next reply is the last.
    pub late_instructions: LateInstructions,
    /// The content of an assistant turn that has calls and no text.
    pub null_content: NullContent,
    /// Whether a stream reports usage only if the request asks for it.
    pub ask_usage: bool,
    /// Whether reasoning is sent back with the turns that it belongs to.
    pub reasoning_back: ReasoningBack,
    /// Members of a reply's message, or of its calls, that the server is known to accept back, in addition to text,
    /// calls, refusal and reasoning, for example `["extra_content"]`. All others are left out of later requests,
    /// because some servers refuse members that they do not know.
    pub members_back: Arc<[Arc<str>]>,
    /// Whether a refusal is sent back as `refusal`. Otherwise it is sent back as text.
    pub refusal_back: bool,
    /// Whether the text may hold reasoning between `<think>` and `</think>`.
    pub think_tags: bool,
    /// Which ids of calls the server accepts.
    pub tool_ids: ToolIds,
    /// The word that says that some tool must be called; in a domain file `""` where there is none.
    pub required_choice: Option<Arc<str>>,
    /// Whether a request can name one tool that must be called.
    pub named_choice: bool,
    /// Whether calls can be restricted to some of the tools.
    pub allowed_tools: bool,
    /// Whether the server can enforce the schemas of tools.
    pub strict_tools: bool,
    /// Whether the server can enforce a schema on the text.
    pub json_schema: bool,
    /// Whether a request can limit calls to one at a time.
    pub parallel_switch: bool,
    /// Whether the server accepts a reasoning effort.
    pub effort: bool,
    /// Which efforts its models accept, if that is known: the first row that matches a model applies, and a model
    /// without a row accepts none. Without any row each effort is sent that the model is known to accept. A domain file
    /// gives one list for all models, for example `["none", "high"]`; the nearest is sent.
    #[schemars(with = "Vec<Effort>")]
    pub efforts: Arc<[EffortRow]>,
    /// Whether `thinking: {"type": "disabled"}` switches reasoning off, in place of an effort.
    pub thinking_switch: bool,
    /// Whether a request can set how many tokens to sample from (`top_k`).
    pub top_k: bool,
    /// The member of a request with the seed; in a domain file `""` if there is none.
    pub seed_field: Option<Arc<str>>,
    /// The maximum number of stop sequences.
    pub stop_max: usize,
    /// Whether the server accepts a cache key, which calls with the same beginning share.
    pub cache_key: bool,
    /// Where a request marks the beginnings that the server should cache.
    pub cache_marks: CacheMarks,
    /// Whether reasoning tokens are reported in addition to those of the completion, and not as a part of them.
    pub reasoning_beside_completion: bool,
    /// Whether each chunk of a call's arguments repeats all of them so far.
    pub whole_arguments_each_chunk: bool,
    /// Whether the server refuses a user's turn directly after tool results.
    pub no_user_after_tool: bool,
    /// Whether the server silently cuts off what exceeds the context window.
    pub cuts_silently: bool,
    /// Whether its models accept pictures in tool results. Otherwise a line says that they are left out.
    pub result_pictures: bool,
}

/// Which efforts some models accept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EffortRow {
    /// How their names begin, without a part before a slash. Empty: all models.
    pub models: Arc<str>,
    /// The efforts that they accept.
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
    /// The member of a request that has the limit of output tokens.
    MaxTokensField {
        /// `max_completion_tokens`.
        MaxCompletionTokens,
        /// `max_tokens`.
        MaxTokens,
    }
}

words! {
    /// The role of the system prompt.
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
    /// The content of an assistant turn that has calls and no text.
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
    /// Whether reasoning is sent back.
    ReasoningBack {
        /// With no turn.
        Never,
        /// With turns that call tools, as `reasoning_content`.
        WithToolCalls,
        /// With every turn, unchanged.
        Always,
    }
}

words! {
    /// Which ids of calls the server accepts.
    ToolIds {
        /// Any.
        Any,
        /// Nine letters and digits.
        Alnum9,
    }
}

words! {
    /// Where a request marks the beginnings that the server should cache.
    CacheMarks {
        /// Nowhere: the server caches by itself, or not at all.
        None,
        /// Once for the whole request. The server then marks the last block.
        Automatic,
        /// At content blocks.
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

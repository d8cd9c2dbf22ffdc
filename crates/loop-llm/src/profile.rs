//! The differences between endpoints as data: one row for each.

use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
        static ALL: OnceLock<Vec<Arc<Profile>>> = OnceLock::new();
        ALL.get_or_init(|| rows().into_iter().map(Arc::new).collect())
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
        compatible()
    }
}

fn text(text: &str) -> Option<Arc<str>> {
    Some(text.into())
}

fn efforts<const N: usize>(rows: [(&str, &[Effort]); N]) -> Arc<[EffortRow]> {
    rows.iter()
        .map(|(models, efforts)| EffortRow { models: (*models).into(), efforts: (*efforts).into() })
        .collect()
}

/// OpenAI's own Chat Completions.
fn openai_chat() -> Profile {
    Profile {
        name: "openai-chat".into(),
        api: Api::OpenaiChat,
        base_url: text("https://api.openai.com/v1"),
        api_key_env: text("OPENAI_API_KEY"),
        auth: Auth::Bearer,
        known_models: true,
        max_tokens_field: MaxTokensField::MaxCompletionTokens,
        system_role: SystemRole::Developer,
        late_instructions: LateInstructions::Developer,
        null_content: NullContent::Null,
        ask_usage: true,
        reasoning_back: ReasoningBack::Never,
        members_back: Arc::default(),
        refusal_back: true,
        think_tags: false,
        tool_ids: ToolIds::Any,
        required_choice: text("required"),
        named_choice: true,
        allowed_tools: true,
        strict_tools: true,
        json_schema: true,
        parallel_switch: true,
        effort: true,
        efforts: Arc::default(),
        thinking_switch: false,
        top_k: false,
        seed_field: text("seed"),
        stop_max: 4,
        cache_key: true,
        cache_marks: CacheMarks::None,
        reasoning_beside_completion: false,
        whole_arguments_each_chunk: false,
        no_user_after_tool: false,
        cuts_silently: false,
    }
}

/// Any compatible server.
fn compatible() -> Profile {
    Profile {
        name: "compatible".into(),
        base_url: None,
        api_key_env: None,
        known_models: false,
        max_tokens_field: MaxTokensField::MaxTokens,
        system_role: SystemRole::System,
        late_instructions: LateInstructions::User,
        null_content: NullContent::EmptyString,
        // Google's compatible API signs tool calls in `extra_content`, and requires the signature back.
        members_back: ["extra_content".into()].into(),
        refusal_back: false,
        allowed_tools: false,
        strict_tools: false,
        top_k: true,
        cache_key: false,
        ..openai_chat()
    }
}

fn rows() -> Vec<Profile> {
    let (openai_chat, compatible) = (openai_chat(), compatible());
    let responses =
        Profile { name: "openai-responses".into(), api: Api::OpenaiResponses, ..openai_chat.clone() };
    let local =
        |name: &str, url: &str| Profile { name: name.into(), base_url: text(url), ..compatible.clone() };
    let hosted = |name: &str, url: &str, key: &str| Profile {
        name: name.into(),
        base_url: text(url),
        api_key_env: text(key),
        ..compatible.clone()
    };
    vec![
        Profile { name: "openai".into(), ..responses.clone() },
        responses.clone(),
        Profile {
            name: "azure".into(),
            base_url: None,
            api_key_env: text("AZURE_OPENAI_API_KEY"),
            auth: Auth::ApiKey,
            ..openai_chat.clone()
        },
        Profile {
            name: "azure-responses".into(),
            base_url: None,
            api_key_env: text("AZURE_OPENAI_API_KEY"),
            auth: Auth::ApiKey,
            ..responses
        },
        Profile {
            name: "anthropic".into(),
            api: Api::Anthropic,
            base_url: text("https://api.anthropic.com/v1"),
            api_key_env: text("ANTHROPIC_API_KEY"),
            auth: Auth::XApiKey,
            top_k: true,
            cache_marks: CacheMarks::Automatic,
            ..openai_chat.clone()
        },
        Profile {
            name: "gemini".into(),
            api: Api::Gemini,
            base_url: text("https://generativelanguage.googleapis.com/v1beta"),
            api_key_env: text("GEMINI_API_KEY"),
            auth: Auth::XGoogApiKey,
            top_k: true,
            stop_max: 5,
            ..openai_chat.clone()
        },
        Profile {
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            // It refuses unknown members with status 400.
            members_back: Arc::default(),
            top_k: false,
            efforts: efforts([
                ("gpt-oss", &[Effort::Low, Effort::Medium, Effort::High]),
                // It reasons by default.
                ("qwen3", &[Effort::None]),
            ]),
            ..hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
        },
        Profile {
            tool_ids: ToolIds::Alnum9,
            required_choice: text("any"),
            top_k: false,
            seed_field: text("random_seed"),
            reasoning_back: ReasoningBack::Always,
            cache_key: true,
            // It streams usage by default, and refuses unknown members.
            ask_usage: false,
            members_back: Arc::default(),
            // The hybrid models. Those with an earlier date in their name do not reason.
            efforts: efforts([
                ("magistral", &[Effort::None, Effort::High]),
                ("mistral-small-24", &[]),
                ("mistral-small-25", &[]),
                ("mistral-small", &[Effort::None, Effort::High]),
                ("mistral-medium-23", &[]),
                ("mistral-medium-25", &[]),
                ("mistral-medium", &[Effort::None, Effort::High]),
            ]),
            ..hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY")
        },
        Profile {
            reasoning_back: ReasoningBack::WithToolCalls,
            members_back: Arc::default(),
            json_schema: false,
            top_k: false,
            efforts: efforts([("", &[Effort::Low, Effort::High, Effort::Max])]),
            thinking_switch: true,
            ..hosted("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY")
        },
        Profile {
            reasoning_back: ReasoningBack::Always,
            ..hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY")
        },
        Profile {
            api: Api::OpenaiResponses,
            known_models: false,
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            ..hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY")
        },
        Profile {
            name: "xai-chat".into(),
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            reasoning_beside_completion: true,
            top_k: false,
            ..hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY")
        },
        Profile {
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            ..local("vllm", "http://127.0.0.1:8000/v1")
        },
        Profile {
            required_choice: None,
            named_choice: false,
            parallel_switch: false,
            cuts_silently: true,
            ..local("ollama", "http://127.0.0.1:11434/v1")
        },
        local("lm-studio", "http://127.0.0.1:1234/v1"),
        local("llama-cpp", "http://127.0.0.1:8080/v1"),
        compatible,
        openai_chat,
    ]
}

//! `[providers.NAME]`: where models are, and what their servers are like.

use loop_llm::Profile;
use loop_llm::codec::Api;
use loop_llm::options::Effort;
use loop_llm::profile::{
    Auth, CacheMarks, EffortRow, LateInstructions, MaxTokensField, NullContent, ReasoningBack, SystemRole,
    ToolIds,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A provider of your own, or changes to one that is known. Keys that are not given are as in `like`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProviderConfig {
    /// The known provider that it is like. Default: the one of the same name.
    pub(crate) like: Option<String>,
    /// The most calls that may begin in a minute, over all runs of the process. Default: no limit.
    #[schemars(range(min = 1))]
    pub(crate) requests_per_minute: Option<u32>,
    /// The most tokens that may be asked for in a minute, over all runs of the process. Default: no limit.
    #[schemars(range(min = 1))]
    pub(crate) tokens_per_minute: Option<u64>,
    /// The most calls at once, over all runs of the process. Default: no limit.
    #[schemars(range(min = 1))]
    pub(crate) calls_at_once: Option<u32>,
    /// The protocol: `openai-chat`, `openai-responses`, `anthropic` or `gemini`.
    pub(crate) api: Option<Api>,
    /// Where it is, up to and with the version, for example `https://gateway.example/v1`.
    pub(crate) base_url: Option<String>,
    /// The environment variable that holds the key; `""` for no key.
    pub(crate) api_key_env: Option<String>,
    /// How the key is sent.
    pub(crate) auth: Option<Auth>,
    /// Whether its models are those of the protocol's inventor under their own names, so that what is known of these holds.
    pub(crate) known_models: Option<bool>,
    /// What the limit of output tokens is called.
    pub(crate) max_tokens_field: Option<MaxTokensField>,
    /// The role in which the rules are sent.
    pub(crate) system_role: Option<SystemRole>,
    /// The role of instructions behind the first message, such as that the next reply is the last.
    pub(crate) late_instructions: Option<LateInstructions>,
    /// What is in place of the text of a turn of calls alone.
    pub(crate) null_content: Option<NullContent>,
    /// Whether usage has to be asked for in a stream.
    pub(crate) ask_usage: Option<bool>,
    /// Whether reasoning goes back with the turns that it belongs to.
    pub(crate) reasoning_back: Option<ReasoningBack>,
    /// Members of a reply's message, or of its calls, that the server is known to take back, for example `["extra_content"]`.
    /// All others stay out of the history.
    pub(crate) members_back: Option<Vec<String>>,
    /// Whether a refusal goes back as `refusal`; otherwise it goes back as text.
    pub(crate) refusal_back: Option<bool>,
    /// Whether reasoning may be in the text between `<think>` and `</think>`.
    pub(crate) think_tags: Option<bool>,
    /// Which ids of calls are taken.
    pub(crate) tool_ids: Option<ToolIds>,
    /// The word that says that some tool must be called; `""` where there is none.
    pub(crate) required_choice: Option<String>,
    /// Whether one tool can be named that must be called.
    pub(crate) named_choice: Option<bool>,
    /// Whether calls can be restricted to some of the tools.
    pub(crate) allowed_tools: Option<bool>,
    /// Whether tools can be bound to their schema.
    pub(crate) strict_tools: Option<bool>,
    /// Whether the text can be bound to a schema.
    pub(crate) json_schema: Option<bool>,
    /// Whether calls can be kept to one at a time.
    pub(crate) parallel_switch: Option<bool>,
    /// Whether an effort is taken.
    pub(crate) effort: Option<bool>,
    /// The efforts that its models take, for example `["none", "high"]`; the nearest is sent.
    pub(crate) efforts: Option<Vec<Effort>>,
    /// Whether `thinking: {"type": "disabled"}` says that a model is not to reason, in place of an effort.
    pub(crate) thinking_switch: Option<bool>,
    /// Whether a request may say how many tokens to draw from.
    pub(crate) top_k: Option<bool>,
    /// What a seed is called; `""` where there is none.
    pub(crate) seed_field: Option<String>,
    /// The most texts at which a reply ends.
    pub(crate) stop_max: Option<usize>,
    /// Whether a key may say which calls begin alike.
    pub(crate) cache_key: Option<bool>,
    /// Where the beginnings are marked that the provider's cache keeps.
    pub(crate) cache_marks: Option<CacheMarks>,
    /// Whether reasoning is counted beside the completion, and not within it.
    pub(crate) reasoning_beside_completion: Option<bool>,
    /// Whether each piece of a call's arguments has all of them so far.
    pub(crate) whole_arguments_each_chunk: Option<bool>,
    /// Whether a user's turn may not come right after tools' results.
    pub(crate) no_user_after_tool: Option<bool>,
    /// Whether what does not fit into the model is cut off without a word.
    pub(crate) cuts_silently: Option<bool>,
}

impl ProviderConfig {
    /// The profile `base` under `name`, with what is given here.
    pub(crate) fn over(&self, base: &Profile, name: &str) -> Profile {
        macro_rules! over {
            ($($field:ident),*) => { Profile {
                name: name.into(),
                base_url: text(&self.base_url, &base.base_url),
                api_key_env: text(&self.api_key_env, &base.api_key_env),
                required_choice: text(&self.required_choice, &base.required_choice),
                seed_field: text(&self.seed_field, &base.seed_field),
                members_back: self.members_back.as_deref().map_or_else(|| base.members_back.clone(), names),
                efforts: self.efforts.as_deref().map_or_else(|| base.efforts.clone(), for_all_models),
                $($field: self.$field.unwrap_or(base.$field)),*
            } };
        }
        over!(
            api,
            auth,
            known_models,
            max_tokens_field,
            system_role,
            late_instructions,
            null_content,
            ask_usage,
            reasoning_back,
            refusal_back,
            think_tags,
            tool_ids,
            named_choice,
            allowed_tools,
            strict_tools,
            json_schema,
            parallel_switch,
            effort,
            thinking_switch,
            top_k,
            stop_max,
            cache_key,
            cache_marks,
            reasoning_beside_completion,
            whole_arguments_each_chunk,
            no_user_after_tool,
            cuts_silently
        )
    }
}

fn names(given: &[String]) -> std::sync::Arc<[std::sync::Arc<str>]> {
    given.iter().map(|name| name.as_str().into()).collect()
}

fn for_all_models(efforts: &[Effort]) -> std::sync::Arc<[EffortRow]> {
    [EffortRow { models: "".into(), efforts: efforts.into() }].into()
}

/// What is given, nothing for an empty text.
fn text(given: &Option<String>, base: &Option<std::sync::Arc<str>>) -> Option<std::sync::Arc<str>> {
    match given {
        Some(text) => (!text.trim().is_empty()).then(|| text.trim().into()),
        None => base.clone(),
    }
}

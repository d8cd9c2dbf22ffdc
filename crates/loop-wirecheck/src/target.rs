//! Whose exchange it is: the protocol that an endpoint speaks, and the profile that knows the host.

use std::sync::Arc;

use loop_llm::{Api, Profile};

use super::exchange::Exchange;

/// The protocol of an exchange, and `None` where it is none of ours.
pub(crate) fn api(exchange: &Exchange) -> Option<Api> {
    match exchange.endpoint.as_str() {
        "openai_chat" => Some(Api::OpenaiChat),
        "openai_responses" => Some(Api::OpenaiResponses),
        "anthropic_messages" => Some(Api::Anthropic),
        "gemini_generate" | "gemini_stream" => Some(Api::Gemini),
        _ => None,
    }
}

/// The profile of the endpoint.
pub(crate) fn profile(api: Api, exchange: &Exchange) -> Arc<Profile> {
    let known =
        |word: &str, host: &str| exchange.provider.eq_ignore_ascii_case(word) || exchange.host.contains(host);
    let rows = match api {
        Api::OpenaiChat => &CHAT[..],
        Api::OpenaiResponses => &RESPONSES[..],
        Api::Anthropic => &[],
        Api::Gemini => &[],
    };
    let name = rows.iter().find(|(word, host, _)| known(word, host)).map(|(_, _, name)| *name);
    let name = name.unwrap_or(match api {
        Api::OpenaiChat => "compatible",
        Api::OpenaiResponses => "openai-responses",
        Api::Anthropic => "anthropic",
        Api::Gemini => "gemini",
    });
    Profile::named(name).unwrap_or_default()
}

/// A provider's word, a part of its host, and the name of the profile.
const CHAT: [(&str, &str, &str); 11] = [
    ("openai", "api.openai.com", "openai-chat"),
    ("azure", ".azure.com", "azure"),
    ("groq", "api.groq.com", "groq"),
    ("mistral", "api.mistral.ai", "mistral"),
    ("deepseek", "api.deepseek.com", "deepseek"),
    ("openrouter", "openrouter.ai", "openrouter"),
    ("xai", "api.x.ai", "xai-chat"),
    ("ollama", "ollama.com", "ollama"),
    ("vllm", ":8000", "vllm"),
    ("lmstudio", ":1234", "lm-studio"),
    ("llamacpp", ":8080", "llama-cpp"),
];
const RESPONSES: [(&str, &str, &str); 2] =
    [("azure", ".azure.com", "azure-responses"), ("xai", "api.x.ai", "xai")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_that_a_row_names_is_there_and_speaks_its_protocol() {
        for (rows, api) in [(&CHAT[..], Api::OpenaiChat), (&RESPONSES[..], Api::OpenaiResponses)] {
            for (word, _, name) in rows {
                let exchange = Exchange { provider: (*word).to_owned(), ..Exchange::default() };
                let profile = profile(api, &exchange);
                assert_eq!((&*profile.name, profile.api), (*name, api));
            }
        }
        let at_home = Exchange { host: "my.openai.azure.com".to_owned(), ..Exchange::default() };
        assert_eq!(&*profile(Api::OpenaiChat, &at_home).name, "azure");
        assert_eq!(&*profile(Api::OpenaiChat, &Exchange::default()).name, "compatible");
        assert_eq!(&*profile(Api::Gemini, &Exchange::default()).name, "gemini");
        assert_eq!(&*profile(Api::Anthropic, &Exchange::default()).name, "anthropic");
    }
}

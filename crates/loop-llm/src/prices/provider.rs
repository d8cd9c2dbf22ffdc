//! Which list of the table a provider of a domain file has.

/// A provider's name in a domain file, its list in the table, and the domain of its servers.
const LISTS: [(&str, &str, &str); 13] = [
    ("openai", "openai", "openai.com"),
    ("openai-chat", "openai", "openai.com"),
    ("openai-responses", "openai", "openai.com"),
    ("azure", "azure", "azure.com"),
    ("azure-responses", "azure", "azure.com"),
    ("groq", "groq", "groq.com"),
    ("mistral", "mistral", "mistral.ai"),
    ("deepseek", "deepseek", "deepseek.com"),
    ("openrouter", "openrouter", "openrouter.ai"),
    ("xai", "x-ai", "x.ai"),
    ("xai-chat", "x-ai", "x.ai"),
    ("anthropic", "anthropic", "anthropic.com"),
    ("gemini", "google", "googleapis.com"),
];

/// The table's name for the list of prices that a provider of a domain file has; `None` for servers that users run
/// themselves, and for unknown names.
///
/// With a `base_url` that is not the provider's own, what is charged there is not known: `None` as well.
pub fn list_of(provider: &str, base_url: Option<&str>) -> Option<&'static str> {
    let (_, list, domain) = LISTS.iter().find(|(name, _, _)| *name == provider)?;
    base_url.is_none_or(|url| is_within(url, domain)).then_some(*list)
}

fn is_within(url: &str, domain: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    let host = url.host_str().and_then(|host| host.strip_suffix(domain));
    host.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_providers_that_charge_by_a_list_have_one() {
        assert_eq!(list_of("gemini", None), Some("google"));
        assert_eq!(list_of("xai", None), Some("x-ai"));
        // Every profile whose server is at one place has a list, but for those on this machine.
        for profile in crate::Profile::all() {
            let url = profile.base_url.as_deref();
            let is_local = url.is_some_and(|url| url.starts_with("http://"));
            let is_hosted = !is_local && &*profile.name != "compatible";
            assert_eq!(list_of(&profile.name, url).is_some(), is_hosted, "{}", profile.name);
        }
        for name in ["vllm", "ollama", "lm-studio", "llama-cpp", "compatible", "offline", "acme", ""] {
            assert_eq!(list_of(name, None), None, "{name}");
        }
    }

    #[test]
    fn a_server_of_somebody_else_has_no_list() {
        for (url, expected) in [
            ("https://api.openai.com/v1", Some("openai")),
            ("https://eu.api.openai.com/v1", Some("openai")),
            ("https://openai.com.example.org/v1", None),
            ("https://notopenai.com/v1", None),
            ("http://127.0.0.1:8080/v1", None),
            ("no address", None),
        ] {
            assert_eq!(list_of("openai", Some(url)), expected, "{url}");
        }
        let azure = "https://mine.openai.azure.com/openai/v1";
        assert_eq!(list_of("azure", Some(azure)), Some("azure"));
    }
}

//! Whether the model that served a call is the one that was asked.

use loop_core::run::ServedCall;

/// Whether a call was served by another model than the one that was asked, as far as the provider says.
///
/// The same model is: the same name; the name with or without its folder (`models/`, `openai/`); the name with a snapshot
/// behind it, be it a date (`-2024-08-06`, `-20241022`, `-0613`), a release (`-001`, `-v1:0`) or one of the words `latest`,
/// `preview`, `exp` and `stable`; the model that `base_model` names. Case does not matter. Everything else is another model.
pub(crate) fn is_other_model(call: &ServedCall) -> bool {
    let Some(served) = &call.served_model else { return false };
    let requested = [Some(&call.model), call.base_model.as_ref()].into_iter().flatten();
    !served.trim().is_empty() && !requested.into_iter().any(|requested| is_same(requested, served))
}

fn is_same(requested: &str, served: &str) -> bool {
    let plain = |name: &str| name.trim().to_ascii_lowercase();
    let (requested, served) = (plain(requested), plain(served));
    requested == served || family(&requested) == family(&served)
}

/// A model's name without its folder and without what names a snapshot of it.
fn family(name: &str) -> &str {
    let mut name = name.rsplit('/').next().unwrap_or(name);
    // The text behind an `@` or `:` is always a version.
    name = name.split_once('@').map_or(name, |(model, _)| model);
    if let Some((model, version)) = name.split_once(':')
        && (matches!(version, "latest" | "free") || version.bytes().all(|byte| byte.is_ascii_digit()))
    {
        name = model;
    }
    while let Some((model, last)) = name.rsplit_once('-').filter(|(model, _)| !model.is_empty()) {
        name = match model.rsplit_once('-') {
            _ if is_snapshot(last) => model,
            // A month and a day, with or without the year before them.
            Some((model, month)) if is_two_digits(month) && is_two_digits(last) => model,
            _ => return name,
        };
    }
    name
}

fn is_snapshot(word: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_release = word.strip_prefix('v').is_some_and(|version| !version.is_empty() && is_number(version));
    matches!(word, "latest" | "preview" | "exp" | "stable")
        || is_release
        || matches!(word.len(), 3 | 4 | 6 | 8) && is_number(word)
}

fn is_two_digits(word: &str) -> bool {
    word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::is_same;

    // W3
    #[test]
    fn a_snapshot_of_a_model_is_that_model_and_everything_else_is_another() {
        for (requested, served) in [
            ("gpt-4o", "gpt-4o-2024-08-06"),
            ("gpt-4o-2024-08-06", "gpt-4o"),
            ("gpt-4", "gpt-4-0613"),
            ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
            ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
            ("gemini-2.5-flash", "models/gemini-2.5-flash-preview-05-20"),
            ("gemini-1.5-pro", "gemini-1.5-pro-002"),
            ("openai/gpt-4o", "gpt-4o-2024-11-20"),
            ("mistral-large-latest", "mistral-large-2411"),
            ("llama3.2", "llama3.2:latest"),
            ("anthropic.claude-3-5-sonnet-20240620-v1:0", "anthropic.claude-3-5-sonnet"),
            ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b-instruct"),
        ] {
            assert!(is_same(requested, served), "{requested} {served}");
        }
        for (requested, served) in [
            ("gpt-4o", "gpt-4o-mini"),
            ("gpt-4o", "gpt-4o-mini-2024-07-18"),
            ("gpt-4", "gpt-4-turbo"),
            ("claude-3", "claude-3-5"),
            ("claude-opus-4-1", "claude-opus-4"),
            ("gemini-1.5-flash", "gemini-1.5-flash-8b"),
            ("llama3.2:1b", "llama3.2:3b"),
            ("llama-3.1-70b", "llama-3.1-8b"),
            ("gpt-3.5-turbo", "gpt-3.5-turbo-16k"),
            ("openrouter/auto", "openai/gpt-4o"),
        ] {
            assert!(!is_same(requested, served), "{requested} {served}");
        }
    }
}

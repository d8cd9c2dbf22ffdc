//! Parses values with a tier: `TIER=PROVIDER/NAME` and `TIER=URL`. The default tier is base.

use loop_core::types::Tier;
use loop_llm::http::base_url_of;

use crate::output::Failure;

/// Parses `--model`: a tier and `PROVIDER/NAME`.
pub(crate) fn model(text: &str) -> Result<(Tier, String), Failure> {
    model_in(&format!("--model {text}"), text)
}

/// Parses a model. `place` names the option or variable in messages.
pub(crate) fn model_in(place: &str, text: &str) -> Result<(Tier, String), Failure> {
    let is_whole = |model: &str| model.contains('/') && !model.starts_with('/') && !model.ends_with('/');
    let (tier, model) = of_tier(text).filter(|(_, model)| is_whole(model)).ok_or_else(|| {
        let is_name = !text.is_empty() && !text.contains(['/', '=']);
        let own = if is_name { format!(" or, with --base-url URL, compatible/{text}") } else { String::new() };
        Failure::new(format!(
            "{place}: expected PROVIDER/NAME, for example offline/offline-1{own}, or TIER=PROVIDER/NAME with tier selector, base, escalated or fallback"
        ))
    })?;
    Ok((tier, model.to_owned()))
}

/// Parses `--base-url`: a tier and a URL.
pub(crate) fn base_url(text: &str) -> Result<(Tier, String), Failure> {
    // What was given may hold a credential, and is not shown.
    let (tier, url) = of_tier(text).ok_or_else(|| {
        Failure::new(
            "--base-url: expected URL, for example http://127.0.0.1:8080/v1, or TIER=URL with tier selector, base, escalated or fallback",
        )
    })?;
    base_url_of(url).map_err(|message| Failure::new(format!("--base-url {}: {message}", tier.name())))?;
    Ok((tier, url.to_owned()))
}

/// The same values, each with its tier.
pub(crate) fn tiered(given: &[String]) -> Vec<String> {
    let of = |(tier, rest): (Tier, &str)| format!("{}={rest}", tier.name());
    given.iter().map(|text| of_tier(text).map_or_else(|| text.clone(), of)).collect()
}

/// Splits a value into its tier and the rest. `None`: there is no such tier.
fn of_tier(text: &str) -> Option<(Tier, &str)> {
    let tiers = [Tier::Selector, Tier::Base, Tier::Escalated, Tier::Fallback];
    match text.split_once('=') {
        // A model's name or a URL may have the sign in it.
        Some((before, rest)) if !before.contains(['/', ':']) => {
            Some((tiers.into_iter().find(|known| known.name() == before.trim())?, rest.trim()))
        }
        _ => Some((Tier::Base, text.trim())),
    }
}

//! The closing lines of a run: which models were asked and which replied, the prices, the settings, the program and the
//! domain.

use loop_core::run::{Overridden, Provenance, ServedCall, Started};
use loop_core::types::Tier;
use loop_runtime::report::{CallReport, counted, domain_hash};

use crate::output::cut;

/// The closing lines of a run.
pub(crate) fn lines(started: &Started, domain: &str, calls: &[ServedCall]) -> Vec<String> {
    let mut lines = Vec::new();
    for (nth, model) in models(calls).into_iter().enumerate() {
        lines.push(format!("{:<8} {model}", if nth == 0 { "models:" } else { "" }));
    }
    let provenance = &started.provenance;
    if !provenance.prices.is_empty() && !calls.is_empty() {
        lines.push(format!("prices:  {}", provenance.prices));
    }
    let mut settings: Vec<String> = provenance.overridden.iter().take(MAX_SETTINGS).map(setting).collect();
    let more = provenance.overridden.len().saturating_sub(MAX_SETTINGS);
    if more > 0 {
        settings.push(format!("{more} more (`loopgate show {}`)", started.run));
    }
    if !settings.is_empty() {
        lines.push(format!("set:     {}", settings.join(", ")));
    }
    if let Some(by) = provenance.called_by.as_deref() {
        lines.push(format!("part of: run {}, called by {} of run {}", by.root, by.key, by.run));
    }
    lines.push(format!("by:      {}", [program(started), named(started, domain)].concat().join(", ")));
    lines
}

/// The closing lines as a list, with every setting.
pub(crate) fn list(started: &Started, domain: &str, calls: &[ServedCall]) -> Vec<String> {
    let mut list: Vec<String> = models(calls).iter().map(|model| format!("model: {model}")).collect();
    let provenance = &started.provenance;
    if !provenance.prices.is_empty() {
        list.push(format!("prices: {}", provenance.prices));
    }
    let overridden = provenance.overridden.iter();
    list.extend(overridden.map(|Overridden { setting, value }| format!("overridden: {setting} = {value}")));
    let by = provenance.called_by.as_deref();
    list.extend(by.map(|by| format!("called by: run {}, {}", by.run, by.key)));
    list.extend(program(started).iter().map(|program| format!("program: {program}")));
    list.extend(named(started, domain).iter().map(|domain| format!("domain: {domain}")));
    list
}

fn program(started: &Started) -> Vec<String> {
    let Provenance { program, engine, .. } = &started.provenance;
    let on = if engine.is_empty() { String::new() } else { format!(" on {engine}") };
    Some(format!("{program}{on}")).filter(|_| !program.is_empty()).into_iter().collect()
}

/// The domain's name and the beginning of its hash.
fn named(started: &Started, domain: &str) -> Vec<String> {
    vec![format!("{domain} {}", domain_hash(started).short())]
}

fn setting(Overridden { setting, value }: &Overridden) -> String {
    format!("{setting} = {}", cut(value, MAX_VALUE))
}

/// Calls of one tier to one model.
struct TierUse<'a> {
    tier: Tier,
    provider: &'a str,
    model: &'a str,
    calls: u32,
    /// Other names under which models replied, each once.
    served: Vec<String>,
}

/// Each model that was asked, by tier, with the name under which it replied if that differs.
fn models(calls: &[ServedCall]) -> Vec<String> {
    let mut models: Vec<TierUse<'_>> = Vec::new();
    for call in calls {
        let is_same =
            |it: &TierUse<'_>| (it.tier, it.provider, it.model) == (call.tier, &*call.provider, &*call.model);
        let at = models.iter().position(is_same).unwrap_or_else(|| {
            let (tier, provider, model) = (call.tier, &*call.provider, &*call.model);
            models.push(TierUse { tier, provider, model, calls: 0, served: Vec::new() });
            models.len() - 1
        });
        let Some(asked) = models.get_mut(at) else { continue };
        asked.calls += 1;
        let CallReport { served_model, other_model, .. } = CallReport::new(call);
        if let Some(served) = served_model.filter(|served| *served != *call.model) {
            let other = if other_model { " (another model)" } else { "" };
            let served = format!("{}{other}", cut(&served, MAX_VALUE));
            if !asked.served.contains(&served) {
                asked.served.push(served);
            }
        }
    }
    models.sort_by_key(|asked| asked.tier != Tier::Base);
    let line = |asked: &TierUse<'_>| {
        let TierUse { tier, provider, model, calls, served } = asked;
        let calls = counted(*calls, "call");
        let served =
            if served.is_empty() { String::new() } else { format!(", served by {}", served.join(", ")) };
        format!("{} {provider} {} ({calls}){served}", tier.name(), cut(model, MAX_VALUE))
    };
    models.iter().map(line).collect()
}

/// The most overridden settings in the closing lines.
const MAX_SETTINGS: usize = 6;
/// The most characters of a name or a value.
const MAX_VALUE: usize = 60;

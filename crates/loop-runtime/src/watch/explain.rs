//! A stop in words.

use loop_core::gate::{Condition, CutExtent, Measure, Remedy};
use loop_core::spec::Setting;
use loop_core::types::StopClass;
use loop_core::{Certificate, StopReason};

/// Why a run stopped, in one or two sentences: what was true, and the setting with which it would have continued.
pub fn explain(certificate: &Certificate) -> String {
    let is_undone = certificate.also_has(StopReason::EffectNotDone);
    let mut text = match certificate.primary.reason {
        // Not all that was asked for is there, so the sentence of a confident end would be untrue.
        StopReason::Confident if is_undone => "High confidence, and nothing left to run.".to_owned(),
        _ => sentence(&certificate.primary),
    };
    // Where something else was true as well, one setting would not have been enough.
    if let Some(change) = continued_with(&certificate.primary).filter(|_| certificate.also.is_empty()) {
        text.push_str(&format!(" It would have continued with {change}."));
    }
    if !certificate.also.is_empty() {
        let also: Vec<String> =
            certificate.also.iter().map(|it| beside(it, certificate.name_of(it))).collect();
        text.push_str(&format!(" Also true: {}.", also.join(", ")));
    }
    let Certificate { effects, .. } = certificate;
    if !effects.is_none() {
        text.push_str(&format!(" Effects: {effects}."));
    } else if certificate.primary.reason == StopReason::Completed {
        // What a reply says that it did is not what was done.
        text.push_str(" No effect was requested.");
    }
    text
}

/// The smallest change of a setting with which the run would have continued. `None` for a reply that was cut, because
/// how much more it would have written is not known, and where no setting decides it.
pub fn continued_with(condition: &Condition) -> Option<&Remedy> {
    condition.change.as_ref().filter(|_| !matches!(condition.value, Measure::Output(_)))
}

/// A number of things: `1 token`, `2 tokens`, `3 passes`, `4 entries`.
pub fn counted(number: impl Into<u64>, thing: &str) -> String {
    let number = number.into();
    match (number, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) if !stem.ends_with(['a', 'o', 'e']) => format!("{number} {stem}ies"),
        _ if thing.ends_with('s') => format!("{number} {thing}es"),
        _ => format!("{number} {thing}s"),
    }
}

/// A reason that was true as well, by its name; of a failure with what failed.
fn beside(condition: &Condition, name: &str) -> String {
    match (condition.reason, &condition.value) {
        (StopReason::ModelFailure | StopReason::StorageFailed, Measure::Text(what)) => {
            format!("{name} ({what})")
        }
        (StopReason::OutputLimit, Measure::Output(written)) => {
            let granted = condition.threshold.as_ref().map_or_else(String::new, |it| cut(*written, it));
            format!("{name} (the last reply was cut: {granted})")
        }
        (StopReason::TierChanged, Measure::Tiers(_))
        | (StopReason::EffectNotDone | StopReason::EffectBlocked, Measure::NotDone(_)) => {
            format!("{name} ({})", condition.value)
        }
        (StopReason::InDoubt, Measure::Names(effects)) => {
            format!("{name} ({})", effects.join(", "))
        }
        _ => name.to_owned(),
    }
}

/// A condition as one sentence, without its change.
pub fn sentence(condition: &Condition) -> String {
    let value = &condition.value;
    let limit = condition.threshold.as_ref().map_or_else(String::new, |threshold| format!(" of {threshold}"));
    if let (
        Measure::NextCost { .. } | Measure::NextTokens { .. } | Measure::NextTime { .. },
        Some(threshold),
    ) = (value, &condition.threshold)
    {
        if condition.reason == StopReason::SharedBudgetExceeded {
            return format!("{value}: the budget that runs share lets this one cost {threshold} in all.");
        }
        return format!("{value}: the limit of {threshold} leaves no room for more.");
    }
    if let (Measure::Output(written), Some(granted)) = (value, &condition.threshold) {
        if matches!(granted, Measure::Count(granted) if written.is_cut_at_once(*granted)) {
            return format!(
                "The reply was cut at its first tokens, long before its output limit, so the model's context was full: {}. Give it less \
                 to read, or raise the context window of its server, and `context_tokens` of the model if that is higher.",
                cut(*written, granted)
            );
        }
        let what = if written.visible {
            "The reply was cut at its output limit"
        } else {
            "The reply used its output limit before any text was visible"
        };
        // Only reasoning is less with less effort: a call whose arguments were cut has used its tokens otherwise.
        let reasoned =
            written.reasoning > 0 && written.tokens.is_some_and(|all| written.reasoning * 2 >= all);
        let help = match (written.capped, condition.change.is_some(), reasoned) {
            (true, _, _) => " No setting helps: name another model or provider.",
            (false, true, true) => " Raise limits.output_tokens, or lower the model's effort.",
            (false, true, false) => " Raise limits.output_tokens.",
            // The model, the context or the money left less than that setting permits.
            (false, false, true) => {
                " Lower the model's effort: limits.output_tokens permits more than was left."
            }
            (false, false, false) => " limits.output_tokens permits more than was left.",
        };
        return format!("{what}: {}.{help}", cut(*written, granted));
    }
    // A limit that was not reached: the next call would have passed it, and the value says so in words.
    if let (Measure::Text(text), true) = (value, condition.reason.class() == StopClass::Partial) {
        return format!("There is no room for another call: {text}.");
    }
    match condition.reason {
        StopReason::Confident if condition.change.is_some() => {
            "High confidence, which is final here although something would run.".to_owned()
        }
        StopReason::Confident => {
            "High confidence, nothing left to run, and everything demanded is there.".to_owned()
        }
        StopReason::Completed => format!("{}.", capital(&value.to_string())),
        StopReason::NoNewActions => format!("Nothing new is left to run, and the confidence is {value}."),
        StopReason::StaleConfidence => match &condition.threshold {
            Some(before) if before != value => {
                format!("The confidence went from {before} to {value}, {NOT_RISEN}")
            }
            Some(_) | None => format!("The confidence stays at {value}, {NOT_RISEN}"),
        },
        StopReason::NoProgress => {
            format!("{} in a row added nothing new.", of(value, "pass"))
        }
        StopReason::MaxPasses if *value == Measure::Count(0) => {
            "No pass is permitted: the limit is 0.".to_owned()
        }
        StopReason::MaxPasses => format!("Pass {value} was the last of the limit{limit}."),
        StopReason::MaxMessages => {
            format!("The next call would be made with {}, more than the limit{limit}.", of(value, "message"))
        }
        StopReason::MaxModelCalls => format!("{}, the limit{limit} is reached.", made(value, "model call")),
        StopReason::MaxToolCalls => format!("{}, the limit{limit} leaves none.", made(value, "tool call")),
        StopReason::BudgetExceeded => format!("{value} was spent, the limit{limit} is reached."),
        StopReason::TokenLimit if would_change(condition, Setting::OutputTokens) => {
            "No call may write anything.".to_owned()
        }
        StopReason::TokenLimit => format!("{} used, the limit{limit} is reached.", were(value, "token")),
        StopReason::Timeout => format!("{value} have passed, the limit{limit} is reached."),
        StopReason::EvidenceMissing => format!("It ends without what the domain demands: {value}."),
        StopReason::Refused if would_change(condition, Setting::OnDenied) => {
            format!("Policy denied a call, which ends it: {value}.")
        }
        StopReason::Refused if would_change(condition, Setting::OnInvalid) => {
            format!("The reply asked for what cannot be run, which ends it: {value}.")
        }
        StopReason::Refused if *value == Measure::ContentFilter => {
            "A content filter of the provider stopped the reply.".to_owned()
        }
        StopReason::Refused => format!("The model refused the work: {value}."),
        StopReason::PolicyBlocked => "Every action that mattered was denied.".to_owned(),
        StopReason::NeedsHuman | StopReason::ToolFailure if matches!(value, Measure::InARow { .. }) => {
            format!("{}: the limit{limit} is reached.", capital(&value.to_string()))
        }
        StopReason::NeedsHuman => match value {
            Measure::Count(1) => "An action needs a person's consent, and no person can be asked.".to_owned(),
            Measure::Count(_) => {
                format!("{value} actions need a person's consent, and no person can be asked.")
            }
            Measure::Names(_) => format!("The run waits for a person to answer: {value}."),
            Measure::Question(_) => format!("The model asks a person, and no person can be asked: {value}"),
            _ => format!("The model handed the work to a person: {value}."),
        },
        StopReason::ToolFailure if matches!(value, Measure::BrokenCheck(_)) => {
            format!("The output could not be checked: {value}.")
        }
        StopReason::ToolFailure => format!("A tool failed: {value}."),
        StopReason::ModelFailure => format!("The model could not be used: {value}."),
        StopReason::InvalidResponse => format!("The reply could not be used: {value}."),
        StopReason::SubmitBeforeOutput => "The model submitted before it gave an output.".to_owned(),
        StopReason::MaxAttempts if *value == Measure::Count(1) => {
            "The only attempt returned no valid output.".to_owned()
        }
        StopReason::MaxAttempts => format!("{} returned no valid output.", of(value, "attempt")),
        StopReason::StorageFailed => format!("The journal could not be written: {value}."),
        StopReason::ManualStop => format!("It was stopped by hand after {value}."),
        StopReason::InDoubt => format!("The outcome of an effect is unknown: {value}."),
        StopReason::EffectBlocked => format!("An effect that the plan does not name was denied: {value}."),
        other => format!("{other}: {value}."),
    }
}

/// What a reply that was cut had written, of how much.
fn cut(written: CutExtent, granted: &Measure) -> String {
    let reasoning = match written.reasoning {
        0 => String::new(),
        tokens => format!(", {tokens} of them for reasoning"),
    };
    match (written.capped, written.tokens) {
        (true, _) => {
            let granted = of(granted, "token");
            format!("the provider ignored the limit of {granted}, and its reply was cut off here")
        }
        (false, Some(tokens)) => format!("{} of {granted}{reasoning}", counted(tokens, "token")),
        (false, None) => format!("the limit was {}{reasoning}", of(granted, "token")),
    }
}

/// A number of things, where the value is one.
fn of(value: &Measure, thing: &str) -> String {
    match value {
        Measure::Count(number) => counted(*number, thing),
        other => format!("{other} {thing}s"),
    }
}

fn were(value: &Measure, thing: &str) -> String {
    let verb = if *value == Measure::Count(1) { "was" } else { "were" };
    format!("{} {verb}", of(value, thing))
}

fn made(value: &Measure, thing: &str) -> String {
    format!("{} made", were(value, thing))
}

/// What a run's end by stale confidence says: it may have found new evidence all the same.
const NOT_RISEN: &str = "and gate.stale ends a run whose confidence does not rise.";

/// Whether this setting made an end of it: it is the domain's and not the model's.
fn would_change(condition: &Condition, setting: Setting) -> bool {
    condition.change.as_ref().is_some_and(|change| change.setting == setting)
}

/// The words as the beginning of a sentence.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

//! From the typed file to the spec of a run: sections, models, limits, gate, selecting.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::reply::PREAMBLE;
use loop_core::spec::{
    Breakers, Cite, CostLimit, DefaultCall, ErrorStyle, GateSettings, GroundingRule, Limits, ModelSpec,
    ModelSpecs, OpinionWhen, OwnReason, ReasonName, RepeatNotes, SecondOpinion, SectionSpec, Selection,
    ThreeTier, ToolSpec,
};
use loop_core::types::{PicoUsd, Price, Tier, edits};
use loop_core::{RunSpec, StopReason};
use loop_runtime::budget::{SharedBudget, Span};
use loop_tools::Registry;
use serde_json::Value;

use crate::calibration::{CalibrationFile, Taken};
use crate::config::{
    BreakersConfig, CiteConfig, CiteWord, GateConfig, LimitsConfig, ModelConfig, ProtocolKind,
    RepeatNotesConfig, ThreeTierConfig,
};
use crate::error::DomainError;
use crate::file::File;
use crate::models;
use crate::money::Usd;
use crate::prices;
use crate::protocol;
use crate::remote::{self, LOCAL};
use crate::similar::hint;

/// The spec of the file, with the tools of the registry, and what is to be said of its calibration.
pub(crate) fn spec(
    file: &File,
    profile: Option<&str>,
    registry: &Registry,
) -> Result<(RunSpec, Vec<String>), DomainError> {
    let config = &file.config;
    if config.name.trim().is_empty() {
        return Err(file.error(&["name"], "the name is empty; write a short one, for example `helpdesk`"));
    }
    check_pointers(file)?;
    let models = models(file)?;
    let cost = cost_limit(file, &models)?;
    let is_document = config.protocol.kind == ProtocolKind::Document;
    let sections = if is_document { sections(file)? } else { Vec::new() };
    let defaults = protocol::defaults(file, sections, models.base.clone());
    let tools = registry.specs();
    check_opinion(file)?;
    let calibration = calibration(file, &models, is_document)?;
    let spec = RunSpec {
        goal: config.goal.trim().into(),
        profile: profile.map(Arc::from),
        selection: if is_document { selection(file, registry, &tools)? } else { defaults.selection },
        gate: GateSettings {
            calibration: calibration.as_ref().map(|taken| Arc::new(taken.calibration.clone())),
            ..gate(file, registry, defaults.gate)?
        },
        limits: limits(&config.limits, cost, defaults.limits),
        tools,
        models,
        save: config.save.is_some(),
        stop_reasons: stop_reasons(file, registry)?,
        ..defaults
    };
    Ok((spec, calibration.map(|taken| taken.warnings).unwrap_or_default()))
}

/// Refuses a second opinion that could never be asked for.
fn check_opinion(file: &File) -> Result<(), DomainError> {
    let Some(opinion) = file.config.gate.second_opinion else { return Ok(()) };
    if !file.config.section.iter().any(|section| section.verify) {
        let message = "no section is marked, so it is never asked for; write `verify = true` in a [[section]], or take it out";
        return Err(file.error(&["gate", "second_opinion"], message));
    }
    let of_gate = file.config.gate.grounding;
    let mut verified = file.config.section.iter().filter(|section| section.verify);
    if opinion.when.unwrap_or_default() == OpinionWhen::Ungrounded
        && verified.all(|section| section.grounding.or(of_gate) == Some(GroundingRule::Off))
    {
        let message = "values are not looked for with `grounding = \"off\"`, so it is never asked for; write when = \"always\"";
        return Err(file.error(&["gate", "second_opinion", "when"], message));
    }
    Ok(())
}

/// The value of `gate.calibration` that names no file.
pub(crate) const NO_CALIBRATION: &str = "none";

/// What evals measured of the domain's models. `None`: the file names none, or the caller does not want it.
fn calibration(file: &File, models: &ModelSpecs, is_document: bool) -> Result<Option<Taken>, DomainError> {
    let gate = &file.config.gate;
    let path = ["gate", "calibration"];
    let named = gate.calibration.as_deref().filter(|named| *named != NO_CALIBRATION);
    let Some(named) = named.filter(|_| is_document) else {
        if gate.allow_raise.is_some() && gate.calibration.is_none() {
            let message =
                "nothing can be raised without `calibration`; name its file as well, or take this out";
            return Err(file.error(&["gate", "allow_raise"], message));
        }
        return Ok(None);
    };
    if file.is_uncalibrated {
        return Ok(None);
    }
    let place = file.resolve(&path, named);
    let allow_raise = gate.allow_raise.unwrap_or_default();
    let is_replaced = file.is_base_model_given();
    let taken = CalibrationFile::taken(&place, &file.config.name, models, allow_raise, is_replaced);
    taken.map(Some).map_err(|error| file.error(&path, format!("{}: {error}", place.display())))
}

fn check_pointers(file: &File) -> Result<(), DomainError> {
    let item = &file.config.item;
    let scope = &item.scope;
    let check = |path: &[&str], pointer: &str| {
        if pointer.is_empty() || pointer.starts_with('/') {
            return Ok(());
        }
        Err(file.error(
            path,
            format!("`{pointer}` is not a JSON pointer; write it as `/{}`", pointer.replace('.', "/")),
        ))
    };
    check(&["item", "id"], &item.id)?;
    check(&["item", "title"], &item.title)?;
    for (at, pointer) in item.compact.iter().enumerate() {
        check(&["item", "compact", &at.to_string()], pointer)?;
    }
    let scoped = [
        ("account", &scope.account),
        ("account_name", &scope.account_name),
        ("asset", &scope.asset),
        ("person", &scope.person),
    ];
    for (key, pointer) in scoped {
        check(&["item", "scope", key], pointer.as_deref().unwrap_or_default())?;
    }
    Ok(())
}

fn sections(file: &File) -> Result<Vec<SectionSpec>, DomainError> {
    let sections = &file.config.section;
    if sections.is_empty() {
        let message = "there is no section; add one: [[section]] with `id` and `heading`";
        return Err(file.error(&["section"], message));
    }
    let mut ids: BTreeMap<&str, &str> = BTreeMap::new();
    let mut headings: BTreeMap<String, &str> = BTreeMap::new();
    for (at, section) in sections.iter().enumerate() {
        let at = at.to_string();
        let error = |key: &str, message: String| Err(file.error(&["section", &at, key], message));
        let id = section.id.as_str();
        let is_id = id.starts_with(|c: char| c.is_ascii_lowercase())
            && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
        if !is_id {
            return error("id", format!("`{id}` is no section id; write small letters, digits, `_` and `-`"));
        }
        if id == PREAMBLE {
            return error(
                "id",
                format!("`{PREAMBLE}` is what stands before the first section; choose another id"),
            );
        }
        if ids.insert(id, id).is_some() {
            return error("id", format!("another section has the id `{id}`; choose another one"));
        }
        // Replies are matched to sections by the letters of their headings.
        let letters: String =
            section.heading.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
        if letters.is_empty() {
            return error("heading", "a heading needs letters or digits; write a word or two".to_owned());
        }
        if let Some(other) = headings.insert(letters, id) {
            return error("heading", format!("it reads like the heading of `{other}`; choose another one"));
        }
    }
    let specs = sections.iter().map(|section| SectionSpec {
        id: section.id.as_str().into(),
        heading: section.heading.trim().into(),
        describe: section.describe.trim().into(),
        required: section.required,
        cite: match section.cite {
            CiteConfig::Flag(false) => Cite::No,
            CiteConfig::Flag(true) => Cite::Any,
            CiteConfig::Word(CiteWord::Evidence) => Cite::Evidence,
        },
        grounding: section.grounding,
        verify: section.verify,
    });
    Ok(specs.collect())
}

fn selection(file: &File, registry: &Registry, tools: &[ToolSpec]) -> Result<Selection, DomainError> {
    let config = &file.config.selection;
    let mut defaults = Vec::new();
    for (at, call) in config.defaults.iter().enumerate() {
        let at = at.to_string();
        let path = ["selection", "defaults", &at];
        let name = tool_named(file, registry, &[&path[..], &["tool"]].concat(), &call.tool)?;
        let parameters = Value::Object(call.parameters.clone());
        let tool = tools.iter().find(|tool| tool.name == name);
        if tool.is_some_and(|tool| !loop_core::policy::is_selectable(tool)) {
            let message = format!(
                "`{name}` does not only read: before the first pass only tools that read are run; take it out"
            );
            return Err(file.error(&[&path[..], &["tool"]].concat(), message));
        }
        let rebuilt =
            tool.map(|tool| tool.args.rebuild(&parameters).and_then(|built| tool.args.filled(&built)));
        if let Some(Err(schema_violation)) = rebuilt {
            let message = format!("the parameters do not fit `{name}`: {schema_violation}; correct them");
            return Err(file.error(&[&path[..], &["parameters"]].concat(), message));
        }
        defaults
            .push(DefaultCall { tool: name, parameters: loop_core::types::canonical(&parameters).into() });
    }
    Ok(Selection { enabled: config.enabled, defaults })
}

fn gate(file: &File, registry: &Registry, defaults: GateSettings) -> Result<GateSettings, DomainError> {
    let config = &file.config.gate;
    let is_document = file.config.protocol.kind == ProtocolKind::Document;
    let defaults = GateSettings { min_words: if is_document { MIN_WORDS } else { 0 }, ..defaults };
    let tools = |key: &str, names: &[String]| -> Result<Vec<Arc<str>>, DomainError> {
        let named = names.iter().enumerate();
        named.map(|(at, name)| tool_named(file, registry, &["gate", key, &at.to_string()], name)).collect()
    };
    let required_tools = tools("required_tools", &config.required_tools)?;
    let globs = |key: &str, names: &[String]| -> Result<Vec<Arc<str>>, DomainError> {
        let named = names.iter().enumerate();
        let one = |(at, name): (usize, &String)| match name.contains('*') {
            true => glob_of(file, registry, &["gate", key, &at.to_string()], name),
            false => tool_named(file, registry, &["gate", key, &at.to_string()], name),
        };
        named.map(one).collect()
    };
    if config.allow.as_ref().is_some_and(Vec::is_empty) {
        let message = "no tool could ever run; name those that may, or take it out where all may";
        return Err(file.error(&["gate", "allow"], message));
    }
    let allow = globs("allow", config.allow.as_deref().unwrap_or_default())?;
    let forbid = forbidden(file, registry, &config.forbid)?;
    let approved = globs("approved", &config.approved)?;
    let output = file.config.output.as_ref().map(|output| output.name.as_str());
    for (key, names) in [("required_tools", &required_tools), ("forbid", &forbid), ("approved", &approved)] {
        if let Some(at) = names.iter().position(|name| Some(&**name) == output) {
            let message = "this is what the run ends with, and no tool to choose; take it out";
            return Err(file.error(&["gate", key, &at.to_string()], message));
        }
    }
    if let Some(at) = forbid.iter().position(|name| required_tools.contains(name)) {
        let message =
            "the tool is required as well, so that no answer could ever do; take it out of one list";
        return Err(file.error(&["gate", "forbid", &at.to_string()], message));
    }
    if let Some(at) = approved.iter().position(|name| forbid.contains(name)) {
        let message = "the tool is forbidden as well, and never runs; take it out of one list";
        return Err(file.error(&["gate", "approved", &at.to_string()], message));
    }
    let authorities = config.authorities.iter().map(|value| value.as_str().into()).collect();
    let repeats_for = globs("repeats_for", &config.repeats_for)?;
    let lists = GateLists { required_tools, allow, forbid, authorities, repeats_for, approved };
    gate_over(config, lists, defaults, |path, message| file.error(path, message))
}

/// How many words of its own a section needs that must cite.
const MIN_WORDS: u32 = 3;

/// The minutes of an offset from UTC: `Z`, `+01:00`.
fn utc_offset(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |part: &str| -> Option<i32> {
        (part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse().ok())
            .flatten()
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// The lists of the gate, with every tool by its own name.
#[derive(Debug)]
pub(crate) struct GateLists {
    pub(crate) required_tools: Vec<Arc<str>>,
    pub(crate) allow: Vec<Arc<str>>,
    pub(crate) forbid: Vec<Arc<str>>,
    pub(crate) authorities: Vec<Arc<str>>,
    pub(crate) repeats_for: Vec<Arc<str>>,
    pub(crate) approved: Vec<Arc<str>>,
}

/// The settings of the gate: the lists, and what the file sets over the defaults.
pub(crate) fn gate_over(
    config: &GateConfig,
    lists: GateLists,
    defaults: GateSettings,
    error: impl Fn(&[&str], String) -> DomainError,
) -> Result<GateSettings, DomainError> {
    let clock = match &config.utc_offset {
        Some(text) => utc_offset(text).ok_or_else(|| {
            let message = format!("`{text}` is not an offset from UTC; write it as \"+01:00\" or \"Z\"");
            error(&["gate", "utc_offset"], message)
        })?,
        None => defaults.utc_offset,
    };
    Ok(GateSettings {
        required_tools: lists.required_tools,
        cheaper_tier: config.cheaper_tier.unwrap_or(defaults.cheaper_tier),
        people: config.people.unwrap_or(defaults.people),
        approvals: config.approvals.unwrap_or(defaults.approvals),
        label: config.label.as_deref().map_or(defaults.label, |label| label.trim().into()),
        allow: lists.allow,
        forbid: lists.forbid,
        taint: config.taint.unwrap_or(defaults.taint),
        item_untrusted: config.item_untrusted.unwrap_or(defaults.item_untrusted),
        authorities: lists.authorities,
        resolve: config.resolve.unwrap_or(defaults.resolve),
        on_denied: config.on_denied.unwrap_or(defaults.on_denied),
        on_invalid: config.on_invalid.unwrap_or(defaults.on_invalid),
        final_pass: config.final_pass.unwrap_or(defaults.final_pass),
        repeats_for: lists.repeats_for,
        on_tool_error: config.on_tool_error.unwrap_or(defaults.on_tool_error),
        breakers: breakers(&config.breakers, defaults.breakers),
        scope: config.scope.unwrap_or(defaults.scope),
        on_duplicate: config.on_duplicate.unwrap_or(defaults.on_duplicate),
        repeat_notes: repeat_notes(&config.repeat_notes, defaults.repeat_notes),
        three_tier: three_tier(&config.three_tier, defaults.three_tier, error)?,
        high_is_final: config.high_is_final.unwrap_or(defaults.high_is_final),
        stale: config.stale.unwrap_or(defaults.stale),
        stale_unless_new_evidence: config
            .stale_unless_new_evidence
            .unwrap_or(defaults.stale_unless_new_evidence),
        no_progress: config.no_progress.unwrap_or(defaults.no_progress),
        escalate_after: config.escalate_after.unwrap_or(defaults.escalate_after),
        revision_passes: config.revision_passes.unwrap_or(defaults.revision_passes),
        approved: lists.approved,
        repeats: config.repeats.or(defaults.repeats),
        eager: config.eager.or(defaults.eager),
        grounding: config.grounding.unwrap_or(defaults.grounding),
        locale: config.locale.unwrap_or(defaults.locale),
        min_words: config.min_words.unwrap_or(defaults.min_words),
        utc_offset: clock,
        // The caller knows where its file is.
        calibration: defaults.calibration,
        validators: Vec::new(),
        second_opinion: config
            .second_opinion
            .map(|it| SecondOpinion {
                tier: it.tier.unwrap_or(Tier::Selector),
                when: it.when.unwrap_or_default(),
            })
            .or(defaults.second_opinion),
    })
}

/// The domain's own reasons to stop.
fn stop_reasons(file: &File, registry: &Registry) -> Result<Vec<OwnReason>, DomainError> {
    let mut reasons = Vec::new();
    for (written, config) in file.config.stop_reasons.iter() {
        let path = ["stop_reasons", written];
        let name: ReasonName =
            written.parse().map_err(|error| file.error(&path, format!("{error}; rename it")))?;
        let styles = [
            ErrorStyle::Plain,
            ErrorStyle::Quoted,
            ErrorStyle::Named,
            ErrorStyle::Prefixed,
            ErrorStyle::Tagged,
        ];
        let is_known = |reason: &StopReason| styles.iter().any(|style| reason.name_in(*style) == written);
        if StopReason::ALL.iter().any(is_known) {
            let message = format!("`{written}` is a reason of every run; choose another name");
            return Err(file.error(&path, message));
        }
        let says = config.description.trim();
        if says.is_empty() {
            let message = "say in a sentence what is so when a run ends for this reason";
            return Err(file.error(&[&path[..], &["description"]].concat(), message));
        }
        reasons.push(OwnReason {
            name,
            class: config.class.into(),
            says: says.into(),
            tool: tool_named(file, registry, &[&path[..], &["tool"]].concat(), &config.tool)?,
            status: config.status.into(),
        });
    }
    Ok(reasons)
}

fn breakers(config: &BreakersConfig, defaults: Breakers) -> Breakers {
    Breakers {
        tool_failures: config.tool_failures.unwrap_or(defaults.tool_failures),
        denied: config.denied.unwrap_or(defaults.denied),
        bad_arguments: config.bad_arguments.unwrap_or(defaults.bad_arguments),
    }
}

fn repeat_notes(config: &RepeatNotesConfig, defaults: RepeatNotes) -> RepeatNotes {
    RepeatNotes {
        failures: config.failures.unwrap_or(defaults.failures),
        same: config.same.unwrap_or(defaults.same),
        searches: config.searches.unwrap_or(defaults.searches),
    }
}

fn three_tier(
    config: &ThreeTierConfig,
    defaults: ThreeTier,
    error: impl Fn(&[&str], String) -> DomainError,
) -> Result<ThreeTier, DomainError> {
    let names = |names: &Option<Vec<String>>, defaults: Vec<Arc<str>>| match names {
        Some(names) => names.iter().map(|name| name.as_str().into()).collect(),
        None => defaults,
    };
    let similar_millis = match config.similar {
        Some(similar) if !(0.0..=1.0).contains(&similar) => {
            let message = format!("a likeness is a number from 0 to 1, and this is {similar}; write 0.75");
            return Err(error(&["gate", "three_tier", "similar"], message));
        }
        Some(similar) => (similar * 1_000.0).round() as u32,
        None => defaults.similar_millis,
    };
    let limits = config.limits.as_ref().map_or(defaults.limits, |limits| {
        limits.iter().map(|(name, limit)| (Arc::from(name), *limit)).collect()
    });
    Ok(ThreeTier {
        limits,
        other: config.other.unwrap_or(defaults.other),
        similar_millis,
        search: names(&config.search, defaults.search),
        query: names(&config.query, defaults.query),
        dangerous: names(&config.dangerous, defaults.dangerous),
        literal: config.literal.unwrap_or(defaults.literal),
    })
}

/// What is forbidden. It may be a name that no tool has, for a model can request it and the operator may add such a
/// tool later. A name that is very similar to a tool's is a slip, and would leave that tool allowed.
fn forbidden(file: &File, registry: &Registry, names: &[String]) -> Result<Vec<Arc<str>>, DomainError> {
    let tools = registry.specs();
    let is_slip = |name: &str| tools.iter().any(|tool| edits(name, &tool.name) <= SLIP);
    let named = names.iter().enumerate();
    let one = |(at, name): (usize, &String)| match registry.resolve(name) {
        Some(own) => Ok(own),
        None if name.trim().is_empty() || !name.contains('*') && name.len() <= LONGEST && is_slip(name) => {
            tool_named(file, registry, &["gate", "forbid", &at.to_string()], name)
        }
        None => Ok(name.as_str().into()),
    };
    named.map(one).collect()
}

/// So many letters apart, one name is a slip of the other.
pub(crate) const SLIP: usize = 2;

/// A name longer than this, in bytes, is near to nothing.
pub(crate) const LONGEST: usize = 128;

/// A pattern of names that some tool fits.
fn glob_of(file: &File, registry: &Registry, path: &[&str], glob: &str) -> Result<Arc<str>, DomainError> {
    if registry.specs().iter().any(|tool| loop_core::policy::fits(glob, &tool.name)) {
        return Ok(glob.into());
    }
    Err(file.error(path, format!("no tool's name fits `{glob}`; correct it or take it out")))
}

fn tool_named(file: &File, registry: &Registry, path: &[&str], name: &str) -> Result<Arc<str>, DomainError> {
    registry.resolve(name).ok_or_else(|| {
        let switched_off = file.config.tools.get(name).is_some();
        let message = if switched_off {
            format!("the tool `{name}` is switched off; switch it on, or take its name out")
        } else {
            let known: Vec<Arc<str>> = registry.specs().into_iter().map(|tool| tool.name).collect();
            format!(
                "there is no tool `{name}`; {}",
                hint(name, known.iter().map(|name| &**name), "there are")
            )
        };
        file.error(path, message)
    })
}

fn models(file: &File) -> Result<ModelSpecs, DomainError> {
    let config = &file.config.models;
    let of = |tier: &str, model: &Option<ModelConfig>| {
        model.as_ref().map(|model| model_spec(file, tier, model)).transpose()
    };
    Ok(ModelSpecs {
        selector: of("selector", &config.selector)?,
        base: model_spec(file, "base", &config.base)?,
        escalated: of("escalated", &config.escalated)?,
        fallback: of("fallback", &config.fallback)?,
    })
}

fn model_spec(file: &File, tier: &str, model: &ModelConfig) -> Result<ModelSpec, DomainError> {
    let provider = model.provider.as_str();
    let names = remote::names(file.config.providers.names());
    if !names.contains(&provider) {
        let message =
            format!("unknown provider `{provider}`; {}", hint(provider, names, "this version knows"));
        return Err(file.error(&["models", tier, "provider"], message));
    }
    if !LOCAL.contains(&provider) && model.model.as_ref().is_none_or(|name| name.trim().is_empty()) {
        let message = "no model is named; add `model` with its name at the server";
        return Err(file.error(&["models", tier, "provider"], message));
    }
    if model.timeout_ms == 0 {
        let message = "a call that may take no time always fails; write 1 or more";
        return Err(file.error(&["models", tier, "timeout_ms"], message));
    }
    let recorded = || models::recorded_name(file, tier, model);
    let name = model.model.clone().or_else(recorded).unwrap_or_else(|| format!("{provider}-1"));
    let price = match &model.price {
        Some(price) => Some(prices::price_of(price, |key, message| {
            file.error(&[&["models", tier, "price"][..], key].concat(), message)
        })?),
        None => {
            let model = file.replaced(tier).unwrap_or(model);
            if is_free(&model.provider) {
                Some(Price::flat(0, 0))
            } else {
                file.price_row(model).map(|row| row.dearest)
            }
        }
    };
    Ok(ModelSpec {
        provider: provider.into(),
        model: name.into(),
        base_model: model.base_model.as_deref().map(Into::into),
        price,
        context_tokens: model.context_tokens,
        max_output_tokens: model.max_output_tokens,
        timeout_ms: model.timeout_ms,
    })
}

/// Whether its calls cost nothing.
fn is_free(provider: &str) -> bool {
    LOCAL.contains(&provider)
}

/// The cost limit of a run with these models: one that was set needs the price of each.
fn cost_limit(file: &File, models: &ModelSpecs) -> Result<Option<PicoUsd>, DomainError> {
    let unpriced = unpriced(models);
    let limit = file.config.limits.cost_usd.map_or(CostLimit::Default, |limit| limit.0);
    limit.resolve(unpriced.is_none()).map_err(|_| {
        let (tier, model) = unpriced.unwrap_or(("base", &models.base));
        let (provider, name) = (&model.provider, &model.model);
        let message = format!(
            "the price of {provider}/{name} is not known, so that the limit cannot be kept; add `price` to [models.{tier}], or write limits.cost_usd = \"none\""
        );
        file.error(&["limits", "cost_usd"], message)
    })
}

/// The budgets that the runs of a domain share: each needs the price of each model.
pub(crate) fn budgets(file: &File, spec: &RunSpec) -> Result<Vec<SharedBudget>, DomainError> {
    let config = &file.config.budget;
    let spans = [("day_usd", Span::Day, config.day_usd), ("month_usd", Span::Month, config.month_usd)];
    let mut budgets = Vec::new();
    for (key, span, usd) in spans {
        let Some(Usd(limit)) = usd else { continue };
        let path = ["budget", key];
        if limit == PicoUsd(0) {
            let message = "a budget of 0 lets no run call a model; give an amount, or leave the key out";
            return Err(file.error(&path, message));
        }
        if let Some((tier, model)) = unpriced(&spec.models) {
            let (provider, name) = (&model.provider, &model.model);
            let message = format!(
                "the price of {provider}/{name} is not known, so that the budget cannot be kept; add `price` to [models.{tier}], or leave the key out"
            );
            return Err(file.error(&path, message));
        }
        budgets.push(SharedBudget { span, of: Arc::clone(&spec.domain), limit });
    }
    Ok(budgets)
}

/// The first model whose price is unknown, with the name of its table.
fn unpriced(models: &ModelSpecs) -> Option<(&'static str, &ModelSpec)> {
    let tiers = [
        ("base", Some(&models.base)),
        ("selector", models.selector.as_ref()),
        ("escalated", models.escalated.as_ref()),
        ("fallback", models.fallback.as_ref()),
    ];
    let mut tiers = tiers.into_iter().filter_map(|(tier, model)| Some((tier, model?)));
    tiers.find(|(_, model)| model.price.is_none())
}

pub(crate) fn limits(config: &LimitsConfig, cost: Option<PicoUsd>, defaults: Limits) -> Limits {
    Limits {
        passes: config.passes.unwrap_or(defaults.passes),
        cost,
        cost_mode: config.cost_mode.unwrap_or(defaults.cost_mode),
        tokens: config.tokens.or(defaults.tokens),
        tool_calls: config.tool_calls.unwrap_or(defaults.tool_calls),
        requested_calls: config.requested_calls.unwrap_or(defaults.requested_calls),
        model_calls: config.model_calls.unwrap_or(defaults.model_calls),
        wall_ms: config.wall_ms.unwrap_or(defaults.wall_ms),
        selected: config.selected.unwrap_or(defaults.selected),
        selector_ms: config.selector_ms.unwrap_or(defaults.selector_ms),
        output_tokens: config.output_tokens.unwrap_or(defaults.output_tokens),
        markdown_chars: config.markdown_chars.unwrap_or(defaults.markdown_chars),
        sub_call_ms: config.sub_call_ms.unwrap_or(defaults.sub_call_ms),
        sub_call_tokens: config.sub_call_tokens.unwrap_or(defaults.sub_call_tokens),
        sub_call_bytes: config.sub_call_bytes.unwrap_or(defaults.sub_call_bytes),
        person_ms: config.person_ms.or(defaults.person_ms),
        messages: config.messages.or(defaults.messages),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn model(price: Option<u64>) -> ModelSpec {
        ModelSpec { price: price.map(|input| Price::flat(input, input)), ..ModelSpec::new("x", "x") }
    }

    #[test]
    fn a_limit_of_money_needs_the_price_of_every_model() {
        // S0-45, S0-119
        let unknown =
            ModelSpecs { selector: Some(model(None)), base: model(Some(1)), escalated: None, fallback: None };
        let known = ModelSpecs {
            selector: None,
            base: model(Some(1)),
            escalated: Some(model(Some(0))),
            fallback: None,
        };
        assert_eq!(unpriced(&known), None);
        assert_eq!(unpriced(&unknown).map(|(tier, _)| tier), Some("selector"));
        let unset = limits(&LimitsConfig::default(), Some(CostLimit::DEFAULT), Limits::default());
        assert_eq!(unset, Limits::default());
    }
}

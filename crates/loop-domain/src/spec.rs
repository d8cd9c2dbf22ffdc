//! Makes the spec of a run from the typed file: sections, models, limits, gate and tool selection.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::policy;
use loop_core::reply::PREAMBLE;
use loop_core::spec::{
    CostLimit, DefaultCall, ErrorStyle, GateSettings, GroundingRule, Limits, ModelSpec, ModelSpecs,
    OpinionWhen, OwnReason, ReasonName, SectionSpec, Selection, ToolSpec,
};
use loop_core::types::{PicoUsd, Price, Tier, edits};
use loop_core::{RunSpec, StopReason};
use loop_llm::http::{base_url_of, shown};
use loop_llm::prices::{ChargedBy, list_of, names};
use loop_llm::profile::Profile;
use loop_runtime::budget::{SharedBudget, Span};
use loop_tools::Registry;
use serde_json::Value;

use crate::calibration::{CalibrationFile, Levels};
use crate::config::{ModelConfig, ProtocolKind};
use crate::error::DomainError;
use crate::file::File;
use crate::models;
use crate::money::Usd;
use crate::prices;
use crate::protocol;
use crate::remote::{self, LOCAL};
use crate::similar::{hint, similar};

/// The spec of the file with the tools of the registry, and the warnings about its calibration.
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
    let limits = Limits { cost, ..file.limits(&defaults.limits)? };
    let spec = RunSpec {
        goal: config.goal.trim().into(),
        profile: profile.map(Arc::from),
        selection: if is_document { selection(file, registry, &tools)? } else { defaults.selection },
        gate: GateSettings {
            calibration: calibration.as_ref().map(|taken| Arc::new(taken.calibration.clone())),
            ..gate(file, registry, defaults.gate)?
        },
        limits,
        tools,
        models,
        plan: config.plan.clone(),
        save: config.save.is_some(),
        stop_reasons: stop_reasons(file, registry)?,
        ..defaults
    };
    if let Some((at, problem)) = policy::plan_problems(&spec).into_iter().next() {
        return Err(file.error(&["plan", &at.to_string()], problem));
    }
    Ok((spec, calibration.map(|taken| taken.warnings).unwrap_or_default()))
}

/// Fails for a second opinion that could never be requested.
fn check_opinion(file: &File) -> Result<(), DomainError> {
    let Some(opinion) = file.config.gate.second_opinion else { return Ok(()) };
    if !file.config.section.iter().any(|section| section.verify) {
        let message = "no section is marked, so it is never asked for; write `verify = true` in a [[section]], or take it out";
        return Err(file.error(&["gate", "second_opinion"], message));
    }
    let of_gate = file.config.gate.grounding;
    let mut verified = file.config.section.iter().filter(|section| section.verify);
    if opinion.when == OpinionWhen::Ungrounded
        && verified.all(|section| section.grounding.unwrap_or(of_gate) == GroundingRule::Off)
    {
        let message = "values are not looked for with `grounding = \"off\"`, so it is never asked for; write when = \"always\"";
        return Err(file.error(&["gate", "second_opinion", "when"], message));
    }
    Ok(())
}

/// The value of `gate.calibration` that means no calibration.
pub(crate) const NO_CALIBRATION: &str = "none";

/// The measured confidence of the domain's models. `None`: the file names no calibration, or the caller ignores it.
fn calibration(file: &File, models: &ModelSpecs, is_document: bool) -> Result<Option<Levels>, DomainError> {
    let path = ["gate", "calibration"];
    let named = file.calibration.as_deref().filter(|named| *named != NO_CALIBRATION);
    let Some(named) = named.filter(|_| is_document) else {
        if file.has(&["gate", "allow_raise"]) && file.calibration.is_none() {
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
    let taken = CalibrationFile::taken(&place, &file.config.name, models, file.is_base_model_given());
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
        let id = &*section.id;
        let is_id = id.starts_with(|c: char| c.is_ascii_lowercase())
            && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
        if !is_id {
            return error(
                "id",
                format!("`{id}` is not a section id; use small letters, digits, `_` and `-`"),
            );
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
        heading: section.heading.trim().into(),
        describe: section.describe.trim().into(),
        ..section.clone()
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
    let is_document = file.config.protocol.kind == ProtocolKind::Document;
    let mut gate =
        file.gate(&GateSettings { min_words: if is_document { MIN_WORDS } else { 0 }, ..defaults })?;
    if gate.allow.is_empty() && file.has(&["gate", "allow"]) {
        return Err(file.error(&["gate", "allow"], NONE_ALLOWED));
    }
    let named = |path: &[&str], name: &str| tool_named(file, registry, path, name);
    let fits = |path: &[&str], name: &str| match name.contains('*') {
        true => glob_of(file, registry, path, name),
        false => named(path, name),
    };
    each("required_tools", &mut gate.required_tools, named)?;
    each("allow", &mut gate.allow, fits)?;
    each("forbid", &mut gate.forbid, |path, name| forbidden(file, registry, path, name))?;
    each("approved", &mut gate.approved, fits)?;
    each("repeats_for", &mut gate.repeats_for, fits)?;
    if !is_document && !gate.validators.is_empty() {
        let message = "only documents have them; what checks an output is named in `output.validate`";
        return Err(file.error(&["gate", "validators", "0"], message));
    }
    each("validators", &mut gate.validators, named)?;
    let of_output = file.config.output.as_ref().map_or(&[][..], |output| output.validate.as_slice());
    for (at, name) in of_output.iter().enumerate() {
        gate.validators.push(named(&["output", "validate", &at.to_string()], name)?);
    }
    let (table, key) = if is_document { ("gate", "validators") } else { ("output", "validate") };
    let at_validator = |at: usize, message: &str| file.error(&[table, key, &at.to_string()], message);
    let tools = if gate.validators.is_empty() { Vec::new() } else { registry.specs() };
    for (at, name) in gate.validators.iter().enumerate() {
        let tool = tools.iter().find(|tool| tool.name == *name);
        if let Some(message) = no_validator(is_document, tool) {
            return Err(at_validator(at, message));
        }
    }
    let GateSettings { required_tools, forbid, approved, .. } = &gate;
    let output = file.config.output.as_ref().map(|output| output.name.as_str());
    for (key, names) in [("required_tools", required_tools), ("forbid", forbid), ("approved", approved)] {
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
    if let Some(at) = gate.validators.iter().position(|name| required_tools.contains(name)) {
        let message =
            "the tool is required as well, and is not offered to the model; take it out of one list";
        return Err(at_validator(at, message));
    }
    let hidden: Vec<_> = gate.validators.iter().filter(|name| !gate.forbid.contains(name)).cloned().collect();
    gate.forbid.extend(hidden);
    Ok(gate)
}

/// Why a tool cannot check documents or outputs. `None`: it can.
fn no_validator(is_document: bool, tool: Option<&ToolSpec>) -> Option<&'static str> {
    let tool = tool?;
    let call = serde_json::json!({ (if is_document { "document" } else { "output" }): "{}" });
    if !tool.effect.is_read() {
        Some("the tool does not only read: a check changes nothing; name one that reads")
    } else if tool.args.rebuild(&call).is_err() {
        Some(if is_document {
            "the tool is called with the text `document` alone, which does not fit its parameters; declare that one"
        } else {
            "the tool is called with the text `output` alone, which does not fit its parameters; declare that one"
        })
    } else {
        None
    }
}

/// The error of an empty `gate.allow`.
pub(crate) const NONE_ALLOWED: &str =
    "no tool could ever run; name those that may, or take it out where all may";

/// The fewest words of its own in a section that must cite.
const MIN_WORDS: u32 = 3;

/// Resolves aliases of tools in a list of `[gate]`. `named` is called with the position and text of each entry.
pub(crate) fn each(
    key: &str,
    names: &mut [Arc<str>],
    named: impl Fn(&[&str], &str) -> Result<Arc<str>, DomainError>,
) -> Result<(), DomainError> {
    for (at, name) in names.iter_mut().enumerate() {
        *name = named(&["gate", key, &at.to_string()], name)?;
    }
    Ok(())
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
        if StopReason::all().iter().any(is_known) {
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

/// Checks a forbidden name. It may be a name that no tool has, since a model can request it and the operator may add
/// such a tool later. A name that is similar to a tool's name is an error, since a typo would leave that tool allowed.
fn forbidden(file: &File, registry: &Registry, path: &[&str], name: &str) -> Result<Arc<str>, DomainError> {
    let is_slip = || registry.specs().iter().any(|tool| edits(name, &tool.name) <= SLIP);
    match registry.resolve(name) {
        Some(own) => Ok(own),
        None if name.trim().is_empty() || !name.contains('*') && name.len() <= LONGEST && is_slip() => {
            tool_named(file, registry, path, name)
        }
        None => Ok(name.into()),
    }
}

/// The edit distance up to which a name counts as a typo of another.
pub(crate) const SLIP: usize = 2;

/// The most bytes of a name that is compared with others.
pub(crate) const LONGEST: usize = 128;

/// A pattern that at least one tool matches.
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
        let hint = match model.base_url {
            Some(_) => "a server of your own that speaks Chat Completions is `compatible`".to_owned(),
            None => hint(provider, names, "this version knows"),
        };
        let message = format!("unknown provider `{provider}`; {hint}");
        return Err(file.error(&["models", tier, "provider"], message));
    }
    if !LOCAL.contains(&provider) && model.model.as_ref().is_none_or(|name| name.trim().is_empty()) {
        let message = "no model is named; add `model` with its name at the server";
        return Err(file.error(&["models", tier, "provider"], message));
    }
    // Before anything about its price: that depends on the server.
    let is_nowhere = |it: &Profile| it.base_url.is_none() && model.base_url.is_none();
    if remote::profile(file, model.server_model().spoken())?.is_some_and(|it| is_nowhere(&it)) {
        let message =
            format!("`{provider}` has no server of its own; give --base-url URL, or add `base_url`");
        return Err(file.error(&["models", tier, "provider"], message));
    }
    if model.timeout_ms == 0 {
        let message = "a call that may take no time always fails; write 1 or more";
        return Err(file.error(&["models", tier, "timeout_ms"], message));
    }
    let recorded = || models::recorded_name(file, tier, model);
    if let Some(Err(message)) = model.base_url.as_deref().map(base_url_of) {
        return Err(file.error(&["models", tier, "base_url"], message));
    }
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
                file.price_row(model).map(|(row, _)| row.dearest)
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

/// Whether calls to this provider cost nothing.
fn is_free(provider: &str) -> bool {
    LOCAL.contains(&provider)
}

/// The cost limit of a run with these models. If the file sets one, each model needs a price.
fn cost_limit(file: &File, models: &ModelSpecs) -> Result<Option<PicoUsd>, DomainError> {
    let unpriced = unpriced(models);
    let limit = file.cost_limit().map_or(CostLimit::Default, CostLimit::from);
    limit.resolve(unpriced.is_none()).map_err(|_| {
        let (tier, model) = unpriced.unwrap_or((Tier::Base, &models.base));
        no_price(file, tier, model, "limits.cost_usd cannot be kept", ", or write limits.cost_usd = \"none\"")
    })
}

/// The error of a model without a known price, at the place of the probable mistake: its name or its server.
pub(crate) fn no_price(file: &File, tier: Tier, model: &ModelSpec, so: &str, or: &str) -> DomainError {
    let (like, name) = (file.like(&model.provider), model.base_model.as_deref().unwrap_or(&model.model));
    let (names, tier) = (names(like, name), tier.name());
    let (key, what, cure) = match (similar(name, names.iter().map(String::as_str)), server_of(file, tier)) {
        (Some(similar), _) if similar != name => (
            "model",
            format!("did you mean `{similar}`? The price of {name}"),
            "correct the name, or".to_owned(),
        ),
        (_, Some((url, server))) if list_of(like, Some(&url)).is_none() => {
            let cure = "name the listed model that it passes on as `base_model`, or".to_owned();
            ("base_url", format!("what {server} charges for {name}"), cure)
        }
        _ => {
            let list = format!(
                "`loopgate model list --provider {like}` lists the known models: correct the name, or"
            );
            ("model", format!("the price of {like}/{name}"), list)
        }
    };
    let path = ["models", tier, key];
    let path = if file.has(&path) { &path[..] } else { &path[..2] };
    file.error(path, format!("{what} is not known, so {so}; {cure} add `price` to [models.{tier}]{or}"))
}

/// Notes on each model whose price is not from its own provider's list.
pub(crate) fn price_notes(file: &File, spec: &RunSpec) -> Vec<String> {
    let tiers = [Tier::Selector, Tier::Base, Tier::Escalated, Tier::Fallback];
    let note = |tier: Tier| {
        let (model, tier) = (spec.model(tier), tier.name());
        let config = file.config.models.of(tier).filter(|config| !is_free(&config.provider))?;
        let ((row, by), (_, server)) = (file.price_row(config)?, server_of(file, tier)?);
        let of_list = &row.model;
        let says = match by {
            ChargedBy::List => return None,
            ChargedBy::Local => format!("local server: cost 0 ({server})"),
            ChargedBy::Gateway => format!(
                "at the price of {}/{} ({}); where {server} charges another, add `price` to [models.{tier}]",
                of_list.provider, of_list.id, of_list.source
            ),
        };
        Some(format!("{}/{}: {says}", model.provider, model.model))
    };
    tiers.into_iter().filter_map(note).collect()
}

/// The URL of the server of a tier's model, and a form of it without credentials.
fn server_of(file: &File, tier: &str) -> Option<(String, String)> {
    let config = file.config.models.of(tier)?;
    let profile = remote::profile(file, &config.provider).ok().flatten();
    let url = config.base_url.as_deref().or(profile.as_ref()?.base_url.as_deref())?;
    Some((url.to_owned(), shown(&base_url_of(url).ok()?)))
}

/// The budgets that the runs of a domain share. Each model needs a price.
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
            let so = format!("budget.{key} cannot be kept");
            return Err(no_price(file, tier, model, &so, ", or leave the budget out"));
        }
        budgets.push(SharedBudget { span, of: Arc::clone(&spec.domain), limit });
    }
    Ok(budgets)
}

/// The first model without a known price, with its tier.
pub(crate) fn unpriced(models: &ModelSpecs) -> Option<(Tier, &ModelSpec)> {
    let tiers = [
        (Tier::Base, Some(&models.base)),
        (Tier::Selector, models.selector.as_ref()),
        (Tier::Escalated, models.escalated.as_ref()),
        (Tier::Fallback, models.fallback.as_ref()),
    ];
    let mut tiers = tiers.into_iter().filter_map(|(tier, model)| Some((tier, model?)));
    tiers.find(|(_, model)| model.price.is_none())
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
        assert_eq!(unpriced(&unknown).map(|(tier, _)| tier), Some(Tier::Selector));
    }
}

//! Makes a runner and a work item from a case.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loop_core::types::Tier;
use loop_core::{RunSpec, WorkItem};
use loop_domain::{Domain, DomainError, LoadOptions};
use loop_llm::scripted::{ScriptedCall, ScriptedReply};
use loop_llm::{ChatModel, EventStream, LlmError, ModelRequest, Scripted};
use loop_prompts::Prompts;
use loop_runtime::{
    Runner,
    journal::MemoryJournal,
    models::{Models, Offline},
    tools::{Registry, ToolDeclaration},
};
use loop_tools::{Credentials, Tool, files};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::case::{Case, CaseError, CaseRecording, MockedOutcome, escaped, unknown_reason};
use crate::eval::configuration::RunOptions;
use crate::eval::mock::{DryTool, MockedTool, Surplus};
use crate::eval::result::Against;

/// A case that is ready to run.
pub(crate) struct PreparedCase {
    pub(crate) runner: Runner,
    pub(crate) item: WorkItem,
    pub(crate) journal: Arc<MemoryJournal>,
    pub(crate) beyond: Surplus,
    /// Digests and JSON of everything else that determines the run, besides case and domain.
    pub(crate) made: Value,
    /// The folders that the domain's tools search.
    pub(crate) searched: Vec<PathBuf>,
    /// The spec and tools of a recorded run: those of today or the recorded ones. `None`: the case is not a recorded
    /// run.
    pub(crate) against: Option<Against>,
    /// The folder of an inline spec. It is deleted after the run.
    _folder: Option<TempDir>,
}

/// Domains that several cases share. Each is loaded once.
#[derive(Debug, Default)]
pub(crate) struct Domains(Mutex<BTreeMap<String, Arc<Domain>>>);

impl Domains {
    /// The domain in a folder. If the domain's own model is used, it is loaded for this case alone, since a model may
    /// have state.
    fn load(&self, case: &Case, folder: &Path, options: &LoadOptions) -> Result<Arc<Domain>, DomainError> {
        if case.model.as_deref().is_some_and(|model| model != "offline")
            || !options.models.is_empty()
            || !options.base_urls.is_empty()
        {
            return Domain::load(folder, options).map(Arc::new);
        }
        if options.set.iter().any(|(key, _)| key.starts_with("models.")) {
            return Domain::load(folder, options).map(Arc::new);
        }
        let key = format!("{}\n{:?}\n{:?}", folder.display(), options.profile, options.set);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(domain) = known {
            return Ok(domain);
        }
        let domain = Arc::new(Domain::load(folder, options)?);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&domain));
        Ok(domain)
    }
}

/// The parts of a runner, from a domain, an inline spec or a recording.
struct Parts {
    spec: RunSpec,
    registry: Registry,
    models: Models,
    prompts: Arc<Prompts>,
    credentials: Arc<Credentials>,
    item: WorkItem,
    searched: Vec<PathBuf>,
    folder: Option<TempDir>,
    against: Option<Against>,
}

impl PreparedCase {
    /// Makes everything that the case needs.
    pub(crate) fn new(case: &Case, domains: &Domains, options: &RunOptions) -> Result<Self, CaseError> {
        let mut parts = match &case.recorded {
            Some(recording) => recorded(case, recording)?,
            None => loaded(case, domains, options)?,
        };
        // What is not in the domain any more is a finding.
        if parts.against != Some(Against::Domain) {
            named_tools(case, &parts.registry)?;
        }
        named_sections(case, &parts.spec)?;
        let beyond = Surplus::default();
        parts.registry = mocked(case, &parts.registry, &beyond)?;
        let made = json!({
            "spec": parts.spec,
            "tools": parts.registry.manifest_hash().to_string(),
            "prompts": parts.prompts.hash().to_string(),
            "item": parts.item,
        });
        let journal = Arc::new(MemoryJournal::new());
        let mut runner = Runner::new(parts.spec, parts.registry, parts.models)
            .with_prompts(parts.prompts)
            .with_credentials(parts.credentials)
            .with_journal(Arc::clone(&journal) as Arc<_>);
        if !case.people.is_empty() {
            runner = runner.with_people();
        }
        Ok(Self {
            runner,
            item: parts.item,
            journal,
            beyond,
            made,
            searched: parts.searched,
            against: parts.against,
            _folder: parts.folder,
        })
    }
}

/// Makes what a case needs to run in a domain under the domain's own settings: the work item, the models, and the tools
/// with the case's mocks.
pub(crate) fn own_work(
    case: &Case,
    domain: &Domain,
    beyond: &Surplus,
) -> Result<(WorkItem, Models, Registry), CaseError> {
    named_tools(case, &domain.registry)?;
    let registry = mocked(case, &domain.registry, beyond)?;
    Ok((item(case, domain)?, models(case, domain)?, registry))
}

/// Loads a domain, or the spec in the case.
fn loaded(case: &Case, domains: &Domains, given: &RunOptions) -> Result<Parts, CaseError> {
    let profile = given.profile.clone().or_else(|| case.profile.clone());
    let mut options = LoadOptions { profile, ..LoadOptions::default() };
    options.base_urls.clone_from(&given.base_urls);
    options.prices.clone_from(&given.prices);
    options.uncalibrated = given.uncalibrated;
    options.cwd = case.folder().to_owned();
    for (key, value) in case.set.iter() {
        options.set.push((
            key.to_owned(),
            toml_of(value).map_err(|error| case.error(format!("/set/{key}"), error))?,
        ));
    }
    options.set.extend(given.set.iter().cloned());
    if let Some(model) = case.model.as_deref().filter(|model| model.contains('/')) {
        options.models.push((Tier::Base, model.to_owned()));
    }
    for (tier, model) in case.models.iter() {
        let tier = match tier {
            "selector" => Tier::Selector,
            "escalated" => Tier::Escalated,
            _ => Tier::Fallback,
        };
        options.models.push((tier, model.clone()));
    }
    let (domain, folder) = match &case.domain {
        Some(named) => {
            let folder = case.folder().join(named);
            let domain =
                domains.load(case, &folder, &options).map_err(|error| misread(case, "/domain", &error))?;
            (domain, None)
        }
        None => {
            let folder = written(case)?;
            let domain = Domain::load(folder.path(), &options);
            (Arc::new(domain.map_err(|error| misread(case, "/spec", &error))?), Some(folder))
        }
    };
    domain.ready(/*saves*/ false).map_err(|error| misread(case, "/domain", &error))?;
    let own: Vec<&str> = domain.spec.stop_reasons.iter().map(|own| own.name.as_str()).collect();
    if let Some((pointer, message)) = unknown_reason(case, &own) {
        return Err(case.error(pointer, message));
    }
    let item = item(case, &domain)?;
    let models = models(case, &domain)?;
    Ok(Parts {
        spec: (*domain.spec).clone(),
        registry: (*domain.registry).clone(),
        models,
        prompts: Arc::clone(&domain.prompts),
        credentials: Arc::new(domain.credentials.clone()),
        item,
        searched: domain.searched_folders().collect(),
        folder,
        against: None,
    })
}

/// The error of a domain, at the place in the case that names it.
fn misread(case: &Case, pointer: &str, error: &DomainError) -> CaseError {
    match error {
        // This program wrote the file itself, so its lines mean nothing to the author of the case.
        DomainError::Invalid { message, .. } if case.domain.is_none() => case.error(pointer, message),
        DomainError::Option { option, message } => {
            let key = option.strip_prefix("--set ").and_then(|set| set.split('=').next());
            case.error(key.map_or_else(|| pointer.to_owned(), |key| format!("/set/{key}")), message)
        }
        error => case.error(pointer, error),
    }
}

/// A temporary folder with the case's spec as `loopgate.toml`.
fn written(case: &Case) -> Result<TempDir, CaseError> {
    let mut tree = case.spec.clone().unwrap_or_else(|| {
        // S4's own form says nothing of how its loop works: it is the one of the preset.
        Map::from_iter([("preset".to_owned(), json!("step"))])
    });
    let mut put = |key: &str, value: Value| {
        tree.entry(key).or_insert(value);
    };
    put("version", json!(1));
    put("name", json!("eval"));
    if !case.goal.is_empty() {
        put("goal", json!(case.goal));
    }
    put("tools", json!({}));
    let Some(Value::Object(tools)) = tree.get_mut("tools") else {
        return Err(case.error("/spec/tools", "the tools have to be an object, by their names"));
    };
    for tool in tools.values_mut().filter_map(Value::as_object_mut) {
        tool.entry("kind").or_insert_with(|| json!("mock"));
        if tool.get("kind") == Some(&json!("mock")) {
            tool.entry("effect").or_insert_with(|| json!("read"));
        }
    }
    for (name, _) in case.mocked_tools.iter() {
        let name = tool_name(name);
        let is_known = tools.contains_key(&name) || tools.values().any(|tool| has_alias(tool, &name));
        if !is_known && case.spec.as_ref().is_none_or(|spec| !spec.contains_key("tools")) {
            tools.insert(
                name,
                json!({ "kind": "mock", "effect": "read", "description": "As its name says." }),
            );
        }
    }
    without_nulls(&mut tree);
    let text = toml::to_string(&tree).map_err(|error| case.error("/spec", error))?;
    let failed = |error: std::io::Error| case.error("/spec", format!("no folder to read it from: {error}"));
    let folder = tempfile::Builder::new().prefix("loopgate-eval-").tempdir().map_err(failed)?;
    fs::write(folder.path().join("loopgate.toml"), text).map_err(failed)?;
    Ok(folder)
}

fn has_alias(tool: &Value, name: &str) -> bool {
    let aliases = tool.get("aliases").and_then(Value::as_array);
    aliases.is_some_and(|aliases| aliases.iter().any(|alias| alias == name))
}

/// Removes members that are null, since TOML has no null.
fn without_nulls(members: &mut Map<String, Value>) {
    members.retain(|_, value| !value.is_null());
    for value in members.values_mut() {
        if let Value::Object(members) = value {
            without_nulls(members);
        }
    }
}

/// A value as the text of a setting.
fn toml_of(value: &Value) -> Result<String, toml::ser::Error> {
    toml::Value::try_from(value).map(|value| value.to_string())
}

/// A tool's name in a form that providers accept: names in a case may have dots.
pub(crate) fn tool_name(name: &str) -> String {
    name.replace('.', "_")
}

fn item(case: &Case, domain: &Domain) -> Result<WorkItem, CaseError> {
    let own = format!("{}.json", case.case_id);
    let (pointer, text, origin) = match (&case.item, &case.text) {
        (Some(Value::String(file)), _) => {
            let path = case.folder().join(file);
            let text = files::text(&path, files::MAX_BYTES).map_err(|error| {
                case.error("/item", format!("{}: cannot be read: {error}; correct the path", path.display()))
            })?;
            ("/item", text, path.display().to_string())
        }
        (Some(item), _) => ("/item", item.to_string(), own),
        (None, Some(text)) => ("/text", text.clone(), own),
        (None, None) => ("/goal", case.goal.clone(), own),
    };
    domain.item(&text, &origin).map_err(|error| case.error(pointer, error))
}

fn models(case: &Case, domain: &Domain) -> Result<Models, CaseError> {
    let replies = match (&case.replies, &case.script, case.model.as_deref()) {
        (_, _, Some("offline")) => return Ok(with_tiers(case, domain, Arc::new(Offline::new()))),
        (_, _, Some(_)) => return Ok(domain.models.clone()),
        (Some(replies), _, _) => replied(replies, case.exhausted.as_ref()),
        (None, Some(script), _) => {
            let path = case.folder().join(script);
            let text = files::text(&path, files::MAX_BYTES).map_err(|error| {
                case.error(
                    "/script",
                    format!("{}: cannot be read: {error}; correct the path", path.display()),
                )
            })?;
            let script = || {
                Scripted::from_json(&text)
                    .map_err(|error| case.error("/script", format!("{}: {error}", path.display())))
            };
            // The selector reads the file from its beginning as well, as it does for `loopgate run`.
            let (base, selector): (Arc<dyn ChatModel>, Arc<dyn ChatModel>) =
                (Arc::new(script()?), Arc::new(script()?));
            return Ok(Models {
                selector: own(case, "selector", &domain.models.selector, selector),
                ..with_tiers(case, domain, base)
            });
        }
        (None, None, None) => replied(&by_outcomes(case), None),
    };
    Ok(with_tiers(case, domain, replies))
}

/// The models of a run. `base` is used for each tier without a model in the case.
fn with_tiers(case: &Case, domain: &Domain, base: Arc<dyn ChatModel>) -> Models {
    let models = &domain.models;
    Models {
        selector: own(case, "selector", &models.selector, Arc::clone(&base)),
        escalated: own(case, "escalated", &models.escalated, Arc::clone(&base)),
        fallback: own(case, "fallback", &models.fallback, Arc::clone(&base)),
        base,
    }
}

fn own(
    case: &Case,
    tier: &str,
    given: &Arc<dyn ChatModel>,
    otherwise: Arc<dyn ChatModel>,
) -> Arc<dyn ChatModel> {
    let keys = [format!("models.{tier}.provider"), format!("models.{tier}.script")];
    let is_own = case.models.get(tier).is_some() || keys.iter().any(|key| case.set.get(key).is_some());
    if is_own { Arc::clone(given) } else { otherwise }
}

fn replied(replies: &[ScriptedReply], exhausted: Option<&ScriptedReply>) -> Arc<dyn ChatModel> {
    let scripted = Scripted::new(replies.iter().cloned());
    match exhausted {
        None => Arc::new(scripted),
        Some(last) => Arc::new(RepeatLast { scripted, last: last.clone() }),
    }
}

/// The replies of a model if the case has none: it calls each mocked tool as often as it has outcomes, and then
/// answers.
fn by_outcomes(case: &Case) -> Vec<ScriptedReply> {
    let calls = case.mocked_tools.iter().flat_map(|(tool, outcomes)| {
        outcomes.iter().map(move |outcome: &MockedOutcome| {
            let arguments = Value::Object(outcome.parameters.clone().unwrap_or_default());
            let call = ScriptedCall { id: None, name: tool_name(tool), arguments };
            ScriptedReply { calls: vec![call], ..ScriptedReply::default() }
        })
    });
    calls.chain([ScriptedReply::text("That is all there is to look up.")]).collect()
}

/// A scripted model that repeats one reply once its replies are used up.
#[derive(Debug)]
struct RepeatLast {
    scripted: Scripted,
    last: ScriptedReply,
}

#[async_trait]
impl ChatModel for RepeatLast {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        if self.scripted.left() > 0 {
            return self.scripted.stream(request).await;
        }
        Scripted::new([self.last.clone()]).stream(request).await
    }
}

/// The domain of a recorded run as it is today, if the case lies in its folder and is not frozen.
fn live_domain(case: &Case, recording: &CaseRecording) -> Result<Option<Domain>, CaseError> {
    let folder = case.folder().canonicalize().unwrap_or_else(|_| case.folder().to_owned());
    let folder = folder.ancestors().find(|folder| folder.join("loopgate.toml").is_file());
    let Some(folder) = folder.filter(|_| !recording.frozen) else { return Ok(None) };
    let (profile, set) = recording.overridden.iter().partition::<Vec<_>, _>(|(key, _)| *key == "profile");
    let owned = |(key, value): (&str, &String)| (key.to_owned(), value.clone());
    let options = LoadOptions {
        profile: profile.first().map(|(_, name)| (*name).clone()),
        set: set.into_iter().map(owned).collect(),
        cwd: folder.to_owned(),
        ..LoadOptions::default()
    };
    let domain = Domain::load(folder, &options).map_err(|error| misread(case, "/recorded", &error))?;
    Ok(Some(domain).filter(|domain| domain.spec.domain == recording.spec.domain))
}

/// The parts of a recorded run, from the recording.
fn recorded(case: &Case, recording: &CaseRecording) -> Result<Parts, CaseError> {
    let mut builder = Registry::builder();
    let domain = live_domain(case, recording)?;
    match &domain {
        Some(domain) => {
            let declared = domain.registry.declarations().cloned();
            builder = declared.fold(builder, |builder, declared| builder.tool(DryTool(declared)));
        }
        None => {
            for (at, declared) in recording.tools.iter().enumerate() {
                let declaration = declaration_of(declared)
                    .map_err(|error| case.error(format!("/recorded/tools/{at}"), error))?;
                builder = builder.tool(DryTool(declaration));
            }
        }
    }
    let registry = builder.build().map_err(|error| case.error("/recorded/tools", error))?;
    let scope = serde_json::from_value(Value::Object(recording.scope.clone()))
        .map_err(|error| case.error("/recorded/scope", error))?;
    let text = case.text.as_deref().unwrap_or(&case.goal);
    let or_text = |part: &str| if part.is_empty() { text.into() } else { part.into() };
    let item = WorkItem {
        id: if recording.id.is_empty() { case.case_id.as_str().into() } else { recording.id.as_str().into() },
        kind: if recording.kind.is_empty() { "item".into() } else { recording.kind.as_str().into() },
        title: or_text(&recording.title),
        full: text.into(),
        compact: or_text(&recording.compact),
        scope,
        form: recording.form,
        caller: None,
        trace: None,
        traceparent: None,
    };
    let model = match case.model.as_deref() {
        None => replied(case.replies.as_deref().unwrap_or_default(), case.exhausted.as_ref()),
        Some("offline") => Arc::new(Offline::new()),
        Some(_) => {
            let message =
                "a recorded run has no domain whose model could be used; write `offline`, or give `replies`";
            return Err(case.error("/model", message));
        }
    };
    let (spec, prompts, against) = match domain {
        // The replies are those of the recorded models, at their prices.
        Some(domain) => {
            let spec = RunSpec { models: recording.spec.models.clone(), ..(*domain.spec).clone() };
            (spec, domain.prompts, Against::Domain)
        }
        None => (recording.spec.clone(), Arc::new(Prompts::builtin()), Against::Frozen),
    };
    Ok(Parts {
        spec,
        registry,
        models: Models::one(model),
        prompts,
        credentials: Arc::new(Credentials::none()),
        item,
        searched: Vec::new(),
        folder: None,
        against: Some(against),
    })
}

/// The declaration of a tool, from a journal's manifest.
fn declaration_of(declared: &Value) -> Result<ToolDeclaration, String> {
    let text = |key: &str| declared.get(key).and_then(Value::as_str).unwrap_or_default();
    let read = |key: &str| declared.get(key).cloned().unwrap_or_default();
    let name = text("name");
    let mut made =
        ToolDeclaration::new(name).description(text("description")).when(text("when")).schema(read("schema"));
    let wrong = |key: &str, error: serde_json::Error| format!("`{key}` of `{name}`: {error}");
    made.title = text("title").into();
    made.aliases = serde_json::from_value(read("aliases")).map_err(|error| wrong("aliases", error))?;
    made.effect = serde_json::from_value(read("effect")).map_err(|error| wrong("effect", error))?;
    made.timeout_ms =
        serde_json::from_value(read("timeout_ms")).map_err(|error| wrong("timeout_ms", error))?;
    made.attempts = serde_json::from_value(read("attempts")).map_err(|error| wrong("attempts", error))?;
    made.smart = serde_json::from_value(read("smart")).map_err(|error| wrong("smart", error))?;
    made.definition =
        serde_json::from_value(read("definition")).map_err(|error| wrong("definition", error))?;
    if let Some(policy) = declared.get("policy") {
        made.policy = serde_json::from_value(policy.clone()).map_err(|error| wrong("policy", error))?;
    }
    Ok(made)
}

/// The registry with mocks: for each tool that the case names, and for each tool that would change something.
fn mocked(case: &Case, registry: &Registry, beyond: &Surplus) -> Result<Registry, CaseError> {
    let mut builder = Registry::builder();
    for declared in registry.declarations() {
        let declaration = declared.clone();
        let outcomes = case
            .mocked_tools
            .iter()
            .find(|(name, _)| registry.resolve(&tool_name(name)).as_ref() == Some(&declared.name));
        let changes = declared.effect.is_none_or(|effect| !effect.is_read());
        let tool: Arc<dyn Tool> = match (outcomes, registry.tool(&declared.name)) {
            (Some((_, outcomes)), _) => Arc::new(MockedTool::new(declaration, outcomes, beyond.clone())),
            (None, Some(tool)) if !changes && case.recorded.is_none() => tool,
            (None, _) if case.recorded.is_some() => {
                Arc::new(MockedTool::new(declaration, &[], beyond.clone()))
            }
            (None, _) => Arc::new(DryTool(declaration)),
        };
        builder = builder.shared(tool);
    }
    builder.build().map_err(|error| case.error("/mocked_tools", error))
}

/// Fails for names of tools that do not exist, since expectations of them could never fail.
fn named_tools(case: &Case, registry: &Registry) -> Result<(), CaseError> {
    let expected = &case.expected;
    let at = |list: &str, at: usize| format!("/{list}/{at}");
    let mut named: Vec<(String, &str)> = case
        .mocked_tools
        .iter()
        .map(|(name, _)| (format!("/mocked_tools/{}", escaped(name)), name))
        .collect();
    let required = expected.required_tools.iter().enumerate();
    named.extend(required.map(|(n, name)| (at("expected/required_tools", n), name.as_str())));
    let evidence = expected.evidence.iter().enumerate();
    named.extend(evidence.map(|(n, check)| (format!("/expected/evidence/{n}/tool"), check.tool.as_str())));
    let people = case.people.iter().enumerate();
    named.extend(people.filter_map(|(n, line)| Some((format!("/people/{n}/tool"), line.tool.as_deref()?))));
    let absent = expected.actions.iter().enumerate().filter(|(_, check)| {
        // What a model makes up is an unknown tool; of any other none is counted because of the name alone.
        check.count == Some(0) && check.verdict.as_deref() != Some("unknown_tool")
    });
    named.extend(absent.map(|(n, check)| (format!("/expected/actions/{n}/tool"), check.tool.as_str())));
    let declares = case.spec.as_ref().is_some_and(|spec| spec.contains_key("tools"));
    if case.domain.is_some() || case.recorded.is_some() || declares {
        // Of S4's own form some exist nowhere but in a model's head.
        let forbidden = expected.forbidden_tools.iter().enumerate();
        named.extend(forbidden.map(|(n, name)| (at("expected/forbidden_tools", n), name.as_str())));
    }
    for (pointer, name) in named {
        let own = tool_name(name);
        if registry.resolve(&own).is_none() {
            let similar = registry.similar(&own);
            let known: Vec<&str> = registry.declarations().map(|tool| &*tool.name).collect();
            let hint = match similar.first() {
                Some(similar) => format!("did you mean `{similar}`?"),
                None if known.is_empty() => "there is none".to_owned(),
                None => format!("there are {}", known.join(", ")),
            };
            return Err(case.error(pointer, format!("there is no tool `{name}`; {hint}")));
        }
    }
    let mut mocked: BTreeMap<_, &str> = BTreeMap::new();
    for (name, _) in case.mocked_tools.iter() {
        if let Some(other) = mocked.insert(registry.resolve(&tool_name(name)), name) {
            let pointer = format!("/mocked_tools/{}", escaped(name));
            return Err(
                case.error(pointer, format!("`{other}` is the same tool; put all its outcomes in one"))
            );
        }
    }
    Ok(())
}

/// Fails for expected missing sections that do not exist.
fn named_sections(case: &Case, spec: &RunSpec) -> Result<(), CaseError> {
    let known: Vec<&str> = spec.sections().iter().map(|section| &*section.id).chain(["preamble"]).collect();
    let absent = case.expected.document.iter().filter(|(_, check)| check.present == Some(false));
    for (id, _) in absent {
        if !known.contains(&id) {
            let message = format!("there is no section `{id}`; there are {}", known.join(", "));
            return Err(case.error(format!("/expected/document/{}", escaped(id)), message));
        }
    }
    Ok(())
}

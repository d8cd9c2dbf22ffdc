//! An agent put together, and what may be wrong with it.

use std::any::Any;
use std::fmt::{self, Display};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use loop_core::{
    CostLimit, ErrorStyle, Execution, GateSettings, LimitWithoutPrice, Limits, ModelSpec, OutputSpec,
    PicoUsd, Price, ProtocolSpec, Repeats, RunSpec,
};
use loop_llm::{ChatModel, Scripted};
#[cfg(feature = "offline")]
use loop_offline::Offline;
use loop_prompts::Prompts;
use loop_tools::{
    Credentials, KeptTool, Registry, RegistryBuilder, RegistryError, Tool, ToolContext, ToolDeclaration,
    ToolResult,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::output::{OutputParts, submit_declaration};
use crate::agent::{Agent, Text};
use crate::callbacks::Callbacks;
use crate::journal::{Journal, NoJournal};
use crate::model::Models;
use crate::parts::Loop;

/// A model, and what is known of it. The price stands in its [`ModelSpec`]; the offline and the scripted model cost nothing.
#[derive(Clone, Debug)]
pub struct AgentModel {
    client: Arc<dyn ChatModel>,
    spec: ModelSpec,
}

impl AgentModel {
    /// A model of one's own.
    pub fn new(client: impl ChatModel + 'static, spec: ModelSpec) -> Self {
        Self { client: Arc::new(client), spec }
    }
}

impl From<(Arc<dyn ChatModel>, ModelSpec)> for AgentModel {
    fn from((client, spec): (Arc<dyn ChatModel>, ModelSpec)) -> Self {
        Self { client, spec }
    }
}

#[cfg(feature = "offline")]
impl From<Offline> for AgentModel {
    fn from(model: Offline) -> Self {
        Self::new(model, ModelSpec::new("offline", "offline-1").with_price(Price::flat(0, 0)))
    }
}

impl From<Scripted> for AgentModel {
    fn from(model: Scripted) -> Self {
        Arc::new(model).into()
    }
}

/// A test that keeps its script can ask it afterwards what it was asked.
impl From<Arc<Scripted>> for AgentModel {
    fn from(client: Arc<Scripted>) -> Self {
        Self { client, spec: ModelSpec::new("scripted", "script").with_price(Price::flat(0, 0)) }
    }
}

/// Collects what an agent is made of; what is wrong with it is said by [`build`](Self::build).
#[must_use = "an agent is made by `build`"]
pub struct AgentBuilder<Output> {
    model: AgentModel,
    name: Arc<str>,
    instructions: Arc<str>,
    tools: RegistryBuilder,
    names: Vec<Arc<str>>,
    output: Option<OutputParts>,
    attempts: Option<u32>,
    passes_per_attempt: Option<u32>,
    validate_ms: Option<u64>,
    execution: Execution,
    errors: ErrorStyle,
    gate: GateSettings,
    limits: Option<Limits>,
    /// Whether the limit of money was taken away.
    /// What was said of the limit of money, apart from `limits`.
    cost: Option<CostLimit>,
    journal: Arc<dyn Journal>,
    callbacks: Callbacks,
    credentials: Credentials,
    prompts: Option<Arc<Prompts>>,
    types: PhantomData<fn() -> Output>,
}

/// Why an agent cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A tool is not sound.
    #[error(transparent)]
    Tool(#[from] RegistryError),
    /// A helper has the name of the output tool (S2-d3).
    #[error("the helper `{name}` has the name of the output tool; rename one of them")]
    HelperIsOutput {
        /// The name.
        name: Arc<str>,
    },
    /// A helper has the name of the tool that submits (S2-d3).
    #[error(
        "the helper `{name}` has the name of the tool that submits; rename the helper, or the other with submit_as"
    )]
    HelperIsSubmit {
        /// The name.
        name: Arc<str>,
    },
    /// The output tool and the tool that submits have one name.
    #[error(
        "the output tool and the tool that submits are both called `{name}`; give the latter another name with submit_as"
    )]
    OutputIsSubmit {
        /// The name.
        name: Arc<str>,
    },
    /// A tool is approved that there is not.
    #[error("`{name}` is approved, and no tool has that name; {}", there_are(.known))]
    ApprovedUnknown {
        /// The name.
        name: Arc<str>,
        /// The tools.
        known: String,
    },
    /// A tool is demanded that there is not, so that no answer could ever do.
    #[error("gate.required_tools: `{name}` is demanded, and no tool has that name; {}", there_are(.known))]
    RequiredUnknown {
        /// The name.
        name: Arc<str>,
        /// The tools.
        known: String,
    },
    /// A setting is 0 with which there could never be an output.
    #[error("{setting} is 0, so that there could never be an output; set 1 or more")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// The model's price is unknown, so no limit of money could be kept.
    #[error(
        "the price of `{model}` is unknown, so the limit of {limit} for a run cannot be kept; give the price with ModelSpec::with_price, or run without a limit of money with AgentBuilder::without_cost_limit"
    )]
    CostWithoutPrice {
        /// The limit: the one that was set, or the default.
        limit: PicoUsd,
        /// The model.
        model: Arc<str>,
    },
}

fn there_are(known: &str) -> String {
    if known.is_empty() { "there are none".to_owned() } else { format!("there are: {known}") }
}

impl AgentBuilder<Text> {
    pub(super) fn conversation(model: AgentModel) -> Self {
        Self::of(model, None)
    }
}

impl<Output> AgentBuilder<Output> {
    pub(super) fn ending_with(model: AgentModel, output: OutputParts) -> Self {
        Self::of(model, Some(output))
    }

    fn of(model: AgentModel, output: Option<OutputParts>) -> Self {
        Self {
            model,
            name: "agent".into(),
            instructions: "".into(),
            tools: Registry::builder(),
            names: Vec::new(),
            output,
            attempts: None,
            passes_per_attempt: None,
            validate_ms: None,
            execution: Execution::default(),
            errors: ErrorStyle::default(),
            gate: GateSettings { ..RunSpec::conversation("", ModelSpec::new("", "")).gate },
            limits: None,
            cost: None,
            journal: Arc::new(NoJournal),
            callbacks: Callbacks::new(),
            credentials: Credentials::none(),
            prompts: None,
            types: PhantomData,
        }
    }

    /// The agent with a name, for journals.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// The agent with what its model is told to do, as the system prompt begins with it.
    pub fn instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// The agent with one more tool: a closure over typed arguments, whose type gives the schema.
    ///
    /// A text goes to the model as it is, a [`ToolResult`] as it says, any other value as JSON (S2-32). An error is told
    /// to the model, which may try again or explain (S1-29).
    pub fn tool<Args, F, Fut, T, E>(mut self, declaration: ToolDeclaration, call: F) -> Self
    where
        Args: JsonSchema + DeserializeOwned + Send + 'static,
        F: Fn(Args, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + 'static,
        E: Display,
    {
        let declared = Arc::new(declaration.clone());
        self.names.push(Arc::clone(&declaration.name));
        self.tools = self.tools.typed(declaration, move |args: Args, context| {
            let (declared, called) = (Arc::clone(&declared), call(args, context));
            async move { told(&declared, called.await) }
        });
        self
    }

    /// The same: what an agent that ends with an output calls the tools beside it (S2-29).
    pub fn helper<Args, F, Fut, T, E>(self, declaration: ToolDeclaration, call: F) -> Self
    where
        Args: JsonSchema + DeserializeOwned + Send + 'static,
        F: Fn(Args, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + 'static,
        E: Display,
    {
        self.tool(declaration, call)
    }

    /// The agent with one more tool that is a value.
    pub fn with_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.names.push(Arc::clone(&tool.spec().name));
        self.tools = self.tools.shared(tool);
        self
    }

    /// The agent with consent given: this tool may change something without anybody being asked.
    pub fn approve(mut self, tool: impl Into<Arc<str>>) -> Self {
        self.gate.approved.push(tool.into());
        self
    }

    /// The agent asking people: a tool that changes something and is not approved waits until somebody answers through
    /// its [`Remote`](crate::Remote), within `limits.person_ms`.
    pub fn ask_people(mut self) -> Self {
        self.gate.people = true;
        self
    }

    /// The agent running the calls of one reply side by side (S2-101); those that change something run one after
    /// another even so.
    pub fn parallel(self) -> Self {
        self.execution(Execution::Parallel)
    }

    /// The agent running the calls of one reply in this way: one after another otherwise.
    pub fn execution(mut self, execution: Execution) -> Self {
        self.execution = execution;
        self
    }

    /// The agent giving a result again where a call that only looks is made a second time in one attempt and nothing was
    /// changed since (S2-100).
    pub fn reuse_results(mut self) -> Self {
        self.gate.repeats = Some(Repeats::Reuse);
        self
    }

    /// The agent telling of failures in these words (C8).
    pub fn errors(mut self, errors: ErrorStyle) -> Self {
        self.errors = errors;
        self
    }

    /// The agent within these limits, in place of those of its kind.
    ///
    /// Each limit binds as it stands here, `cost` as well: USD 0.10 in [`Limits::default`], no limit where it is `None`. A
    /// limit of money needs the price of the model, and [`build`](Self::build) refuses a model without one.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// The agent without a limit of money, whatever [`limits`](Self::limits) says: for a model whose price is unknown. Its
    /// limits of passes, calls, tokens and time bind all the same, and the cost of a run is shown as unknown.
    ///
    /// ```
    /// # use loop_runtime::{Agent, AgentModel, BuildError, ModelSpec, Scripted};
    /// # let client = Scripted::replies(["Hello."]);
    /// # let again = Scripted::replies(["Hello."]);
    /// let own = |client| AgentModel::new(client, ModelSpec::new("compatible", "own-model"));
    /// assert!(matches!(Agent::new(own(client)).build(), Err(BuildError::CostWithoutPrice { .. })));
    /// let agent = Agent::new(own(again)).without_cost_limit().build()?;
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn without_cost_limit(mut self) -> Self {
        self.cost = Some(CostLimit::None);
        self
    }

    /// The agent with its gate changed in some settings; all others, and what was set before, stay as they are.
    ///
    /// ```
    /// # use loop_runtime::{Agent, Offline, ToolDeclaration};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Search { name: String }
    /// let agent = Agent::new(Offline::new())
    ///     .tool(ToolDeclaration::read("search_user", "Search users"), |by: Search, _| async move {
    ///         Ok::<_, String>(by.name)
    ///     })
    ///     .gate(|gate| gate.required_tools = vec!["search_user".into()]);
    /// # assert_eq!(agent.build()?.looping().spec().gate.no_progress, 3);
    /// # Ok::<(), loop_runtime::BuildError>(())
    /// ```
    pub fn gate(mut self, change: impl FnOnce(&mut GateSettings)) -> Self {
        change(&mut self.gate);
        self
    }

    /// The agent writing its runs down; without a journal nothing is kept, and no run can be taken up again.
    pub fn with_journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = journal;
        self
    }

    /// The agent with callbacks.
    pub fn with_callbacks(mut self, callbacks: Callbacks) -> Self {
        self.callbacks = callbacks;
        self
    }

    /// The agent with credentials for its tools.
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// The agent with other prompts.
    pub fn with_prompts(mut self, prompts: Arc<Prompts>) -> Self {
        self.prompts = Some(prompts);
        self
    }

    /// The agent.
    ///
    /// # Errors
    /// What is wrong with its tools or its settings, in a sentence that tells what to do.
    pub fn build(self) -> Result<Agent<Output>, BuildError> {
        let (mut tools, mut validators) = (self.tools, Vec::new());
        let mut spec = match self.output {
            None => RunSpec::conversation(self.name, self.model.spec),
            Some(parts) => {
                let submit = parts.reflection.as_ref().map(|(_, submit)| submit);
                check_names(&self.names, &parts.declaration.name, submit.map(|submit| &*submit.name))?;
                let mut output = OutputSpec::new(Arc::clone(&parts.declaration.name));
                output.submit = submit.map(|submit| (&*submit.name).into());
                output.attempts = self.attempts.unwrap_or(output.attempts);
                output.passes_per_attempt = self.passes_per_attempt.unwrap_or(output.passes_per_attempt);
                output.validate_ms = self.validate_ms.unwrap_or(output.validate_ms);
                let settings = [
                    ("attempts", u64::from(output.attempts)),
                    ("passes_per_attempt", output.passes_per_attempt.into()),
                    ("validate_ms", output.validate_ms),
                ];
                if let Some((setting, _)) = settings.into_iter().find(|(_, value)| *value == 0) {
                    return Err(BuildError::Zero { setting });
                }
                tools = tools.shared(parts.tool());
                if let Some(submit) = submit {
                    tools = tools.tool(KeptTool::new(submit_declaration(submit)));
                }
                validators = parts.validators;
                RunSpec::output(self.name, output, self.model.spec)
            }
        };
        match &mut spec.protocol {
            ProtocolSpec::Document(_) => {}
            ProtocolSpec::Conversation(conversation) => {
                (conversation.execution, conversation.errors) = (self.execution, self.errors);
            }
            ProtocolSpec::Output(output) => {
                (output.execution, output.errors) = (self.execution, self.errors);
            }
        }
        let registry = tools.build()?;
        let mut gate = self.gate;
        let own = own_names(&mut gate.approved, &registry, &self.names);
        own.map_err(|(name, known)| BuildError::ApprovedUnknown { name, known })?;
        let own = own_names(&mut gate.required_tools, &registry, &self.names);
        own.map_err(|(name, known)| BuildError::RequiredUnknown { name, known })?;
        spec.goal = self.instructions;
        spec.gate = gate;
        let base = &spec.models.base;
        let of_limits = || self.limits.as_ref().map_or(CostLimit::Default, |limits| limits.cost.into());
        // An agent has no limit of money only where that was said.
        let cost = self.cost.unwrap_or_else(of_limits).explicit().resolve(base.price.is_some());
        let cost = cost.map_err(|LimitWithoutPrice { limit }| BuildError::CostWithoutPrice {
            limit,
            model: Arc::clone(&base.model),
        })?;
        spec.limits = Limits { cost, ..self.limits.unwrap_or(spec.limits) };
        let mut looping = Loop::new(spec, registry, Models::one(self.model.client))
            .with_journal(self.journal)
            .with_callbacks(self.callbacks)
            .with_validators(validators)
            .with_credentials(Arc::new(self.credentials));
        if let Some(prompts) = self.prompts {
            looping = looping.with_prompts(prompts);
        }
        Ok(Agent::over(looping))
    }
}

/// What an agent that ends with a value can be told beside. In a conversation there is nothing to attempt:
///
/// ```compile_fail
/// # use loop_runtime::{Agent, Offline};
/// // error: the trait bounds were not satisfied: `Text: serde::de::DeserializeOwned`
/// let agent = Agent::new(Offline::new()).attempts(2);
/// ```
impl<Output: DeserializeOwned> AgentBuilder<Output> {
    /// The agent with so many attempts at an output: 3 otherwise.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// The agent with so many passes an attempt: 15 otherwise (S2-37, S2-38).
    pub fn passes_per_attempt(mut self, passes: u32) -> Self {
        self.passes_per_attempt = Some(passes);
        self
    }

    /// The agent with so many milliseconds for one validation: 30,000 otherwise.
    pub fn validate_ms(mut self, ms: u64) -> Self {
        self.validate_ms = Some(ms);
        self
    }
}

impl<Output> fmt::Debug for AgentBuilder<Output> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("name", &self.name)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

fn check_names(helpers: &[Arc<str>], output: &Arc<str>, submit: Option<&str>) -> Result<(), BuildError> {
    if submit.is_some_and(|submit| *submit == **output) {
        return Err(BuildError::OutputIsSubmit { name: Arc::clone(output) });
    }
    for name in helpers {
        if name == output {
            return Err(BuildError::HelperIsOutput { name: Arc::clone(name) });
        }
        if submit.is_some_and(|submit| *submit == **name) {
            return Err(BuildError::HelperIsSubmit { name: Arc::clone(name) });
        }
    }
    Ok(())
}

/// Puts a tool's own name in the place of each alias; otherwise the name that no tool has which can be chosen, and the
/// names that there are. Patterns stay as they are.
fn own_names(
    names: &mut [Arc<str>],
    registry: &Registry,
    tools: &[Arc<str>],
) -> Result<(), (Arc<str>, String)> {
    for name in names.iter_mut().filter(|name| !name.contains('*')) {
        match registry.resolve(name).filter(|own| tools.contains(own)) {
            Some(own) => *name = own,
            None => return Err((Arc::clone(name), tools.join(", "))),
        }
    }
    Ok(())
}

fn told<T: Serialize + 'static, E: Display>(tool: &ToolDeclaration, result: Result<T, E>) -> ToolResult {
    let value = match result.map(own::<T, ToolResult>) {
        Ok(Ok(made)) => return made,
        Ok(Err(value)) => match own::<T, String>(value) {
            Ok(text) => Ok(Ok(Value::String(text))),
            Err(value) => Ok(serde_json::to_value(value)),
        },
        Err(error) => Err(error),
    };
    let is_blank =
        |value: &Value| value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
    match value {
        // A write that has nothing to tell is done, and a model that reads nothing would do it again.
        Ok(Ok(value)) if is_blank(&value) && tool.effect.is_some_and(|effect| !effect.is_read()) => {
            ToolResult::ok(&*tool.name, "done", "Done.", value)
        }
        Ok(Ok(value)) => ToolResult::told(&*tool.name, value),
        Ok(Err(error)) => {
            ToolResult::failed(&*tool.name, &tool.title, format!("its result is no JSON: {error}"))
        }
        Err(error) => ToolResult::failed(&*tool.name, &tool.title, error),
    }
}

/// `value` as an `As`, where that is what it is; otherwise `value`.
fn own<T: 'static, As: 'static>(value: T) -> Result<As, T> {
    let mut value = Some(value);
    match (&mut value as &mut dyn Any).downcast_mut::<Option<As>>().and_then(Option::take) {
        Some(own) => Ok(own),
        None => Err(value.expect("nothing was taken out")),
    }
}

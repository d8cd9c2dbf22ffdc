//! An agent put together, and what may be wrong with it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::FutureExt;
use loop_core::RunSpec;
use loop_core::run::{PersonAnswer, PersonRequest};
use loop_core::spec::{
    CostLimit, ErrorStyle, Execution, GateSettings, LimitWithoutPrice, Limits, ModelSpec, NotUsd, OutputSpec,
    ProtocolSpec, Repeats,
};
use loop_core::types::PicoUsd;
use loop_journal::{Journal, NoJournal};
use loop_prompts::Prompts;
use loop_tools::tool::KeptTool;
use loop_tools::{Credentials, Registry, RegistryBuilder, RegistryError, Tool, ToolContext, ToolDeclaration};
use serde::de::DeserializeOwned;

use crate::agent::function::{ToolFunction, ToolReturn};
#[cfg(all(feature = "mcp", unix))]
use crate::agent::mcp::McpServer;
use crate::agent::model::AgentModel;
use crate::agent::output::{OutputParts, submit_declaration};
use crate::agent::{Agent, Text};
use crate::drive::model::Models;
use crate::drive::parts::Approver;
use crate::drive::runner::Runner;
use crate::watch::observer::Observer;

/// Collects the parts of an agent. [`build`](Self::build) reports what is wrong with them.
#[must_use = "an agent is made by `build`"]
pub struct AgentBuilder<Output, Deps = ()> {
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
    /// The cost limit as it was set, separately from `limits`.
    cost: Option<Result<CostLimit, NotUsd>>,
    journal: Arc<dyn Journal>,
    observers: Vec<Arc<dyn Observer>>,
    credentials: Credentials,
    prompts: Option<Arc<Prompts>>,
    approver: Option<Approver>,
    #[cfg(all(feature = "mcp", unix))]
    servers: Vec<McpServer>,
    deps: Arc<Deps>,
    types: PhantomData<fn() -> Output>,
}

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name of a model is not of the form `PROVIDER/MODEL`.
    #[error(
        "the model `{name}` names no provider; write PROVIDER/MODEL, for example anthropic/claude-haiku-4-5"
    )]
    ModelName {
        /// The name.
        name: Arc<str>,
    },
    /// No profile has the provider's name.
    #[error("unknown provider `{name}`; {suggestion}this version knows {known}")]
    UnknownProvider {
        /// The name.
        name: Arc<str>,
        /// A similar name, as a question. Empty if no name is similar.
        suggestion: String,
        /// All names, separated by commas.
        known: String,
    },
    /// The environment has no key for the provider.
    #[error("the environment variable `{variable}` is not set; set it to the key of {provider}")]
    NoKey {
        /// The variable.
        variable: Arc<str>,
        /// The provider.
        provider: Arc<str>,
    },
    /// The model's client cannot be made.
    #[error("the model `{name}`: {message}")]
    Model {
        /// The provider and the model.
        name: Arc<str>,
        /// What is wrong.
        message: Arc<str>,
    },
    /// An MCP server cannot be used.
    #[error("the MCP server `{server}`: {message}")]
    Mcp {
        /// The program with its arguments, or the URL.
        server: Arc<str>,
        /// What is wrong.
        message: Arc<str>,
    },
    /// The cost limit is not an amount of US dollars.
    #[error(transparent)]
    CostLimit(#[from] NotUsd),
    /// A tool is invalid.
    #[error(transparent)]
    Tool(#[from] RegistryError),
    /// A helper has the name of the output tool.
    #[error("the helper `{name}` has the name of the output tool; rename one of them")]
    HelperIsOutput {
        /// The name.
        name: Arc<str>,
    },
    /// A helper has the name of the tool that submits.
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
    /// An approval names a tool that does not exist.
    #[error("`{name}` is approved, and no tool has that name; {}", there_are(.known))]
    ApprovedUnknown {
        /// The name.
        name: Arc<str>,
        /// The tools.
        known: String,
    },
    /// A required tool does not exist, so no answer could be complete.
    #[error("gate.required_tools: `{name}` is demanded, and no tool has that name; {}", there_are(.known))]
    RequiredUnknown {
        /// The name.
        name: Arc<str>,
        /// The tools.
        known: String,
    },
    /// A setting is 0, which makes an output impossible.
    #[error("{setting} is 0, so that there could never be an output; set 1 or more")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// The model's price is unknown, so a cost limit cannot be enforced.
    #[error(
        "the price of `{model}` is unknown, so the limit of {limit} for a run cannot be kept; give the price with ModelSpec::with_price, or run without a limit of money with AgentBuilder::no_cost_limit"
    )]
    CostWithoutPrice {
        /// The limit in pico-dollars: the one that was set, or the default.
        limit: PicoUsd,
        /// The model.
        model: Arc<str>,
    },
}

/// A cost limit for [`AgentBuilder::limit`]: a [`CostLimit`], or the result of [`CostLimit::usd`].
pub trait ToCostLimit {
    /// The limit.
    ///
    /// # Errors
    /// If the text was not an amount of dollars.
    fn to_cost_limit(self) -> Result<CostLimit, NotUsd>;
}

impl ToCostLimit for CostLimit {
    fn to_cost_limit(self) -> Result<CostLimit, NotUsd> {
        Ok(self)
    }
}

impl ToCostLimit for Result<CostLimit, NotUsd> {
    fn to_cost_limit(self) -> Result<CostLimit, NotUsd> {
        self
    }
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
            observers: Vec::new(),
            credentials: Credentials::none(),
            prompts: None,
            approver: None,
            #[cfg(all(feature = "mcp", unix))]
            servers: Vec::new(),
            deps: Arc::new(()),
            types: PhantomData,
        }
    }

    /// Sets dependencies, for example a client and a database. Each function tool that is added after this may borrow
    /// them as its first argument.
    ///
    /// ```
    /// # use loop_runtime::{Agent, models::Offline, read, tools::ToolContext};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Search { name: String }
    /// struct Users(Vec<&'static str>);
    ///
    /// impl Users {
    ///     async fn named(&self, name: &str) -> usize {
    ///         self.0.iter().filter(|user| user.contains(name)).count()
    ///     }
    /// }
    ///
    /// let agent = Agent::new(Offline::new())
    ///     .with(Users(vec!["Alice Brown", "Bob Brown"]))
    ///     .tool(read("search_user", "Counts users"), async |users: &Users, it: Search| users.named(&it.name).await)
    ///     .build()?;
    /// # Ok::<(), loop_runtime::agent::BuildError>(())
    /// ```
    ///
    /// A function that needs other dependencies does not compile.
    pub fn with<Deps>(self, deps: Deps) -> AgentBuilder<Output, Deps> {
        AgentBuilder {
            model: self.model,
            name: self.name,
            instructions: self.instructions,
            tools: self.tools,
            names: self.names,
            output: self.output,
            attempts: self.attempts,
            passes_per_attempt: self.passes_per_attempt,
            validate_ms: self.validate_ms,
            execution: self.execution,
            errors: self.errors,
            gate: self.gate,
            limits: self.limits,
            cost: self.cost,
            journal: self.journal,
            observers: self.observers,
            credentials: self.credentials,
            prompts: self.prompts,
            approver: self.approver,
            #[cfg(all(feature = "mcp", unix))]
            servers: self.servers,
            deps: Arc::new(deps),
            types: PhantomData,
        }
    }
}

impl<Output, Deps> AgentBuilder<Output, Deps> {
    /// Names the agent, for journals.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the instructions for the model. The system prompt begins with them.
    pub fn instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// Adds a tool: a function of typed arguments, whose type gives the schema. It may take the [`ToolContext`] after
    /// them, and the agent's [dependencies](Self::with) before them.
    ///
    /// It returns a value that serializes, or a `Result` of one. The model receives a text unchanged, the text of a
    /// [`ToolResult`](loop_tools::ToolResult), and any other value as JSON. It also receives an error, and may try
    /// again or explain.
    ///
    /// ```
    /// # use loop_runtime::{Agent, models::Offline, read, tools::{ToolContext, write_idempotent}};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Add { a: i64, b: i64 }
    ///
    /// let agent = Agent::new(Offline::new())
    ///     .tool(read("add", "Adds two numbers"), |it: Add| async move { it.a + it.b })
    ///     .tool(read("divide", "Divides two numbers"), |it: Add| async move {
    ///         it.a.checked_div(it.b).ok_or("there is no such number")
    ///     })
    ///     .tool(write_idempotent("note", "Notes a number"), |it: Add, context: ToolContext| async move {
    ///         format!("{} is noted for {}", it.a, context.item_title)
    ///     })
    ///     .build()?;
    /// # Ok::<(), loop_runtime::agent::BuildError>(())
    /// ```
    pub fn tool<F, Form, Returned>(mut self, declaration: ToolDeclaration, function: F) -> Self
    where
        F: ToolFunction<Form, Deps>,
        F::Return: ToolReturn<Returned>,
        Deps: Send + Sync + 'static,
    {
        let declared = Arc::new(declaration.clone());
        self.names.push(Arc::clone(&declared.name));
        let (function, deps) = (Arc::new(function), Arc::clone(&self.deps));
        self.tools = self.tools.typed(declaration, move |args: F::Args, context: ToolContext| {
            let called = Arc::clone(&function).call(Arc::clone(&deps), args, context);
            let declared = Arc::clone(&declared);
            async move { called.await.into_result(&declared) }
        });
        self
    }

    /// The same as [`tool`](Self::tool), for a tool besides the output tool of an agent that ends with an output.
    pub fn helper<F, Form, Returned>(self, declaration: ToolDeclaration, function: F) -> Self
    where
        F: ToolFunction<Form, Deps>,
        F::Return: ToolReturn<Returned>,
        Deps: Send + Sync + 'static,
    {
        self.tool(declaration, function)
    }

    /// Adds a tool that is a value: one of your own types, or another agent.
    pub fn with_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.names.push(Arc::clone(&tool.spec().name));
        self.tools = self.tools.shared(tool);
        self
    }

    /// Adds the tools of a server of the Model Context Protocol, under their own names. Their results are untrusted.
    /// The first call starts the server.
    ///
    /// ```no_run
    /// # use loop_runtime::{Agent, models::Offline, tools::{Effect, McpServer}};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = McpServer::stdio("uvx", ["mcp-server-time"]);
    /// // Once, and again whenever the server has changed: look at the file before it is used.
    /// std::fs::write("time.lock", server.lock().await?)?;
    ///
    /// let server = server.trusted(std::fs::read_to_string("time.lock")?).effect("get_current_time", Effect::Read);
    /// let agent = Agent::new(Offline::new()).mcp(server).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(all(feature = "mcp", unix))]
    pub fn mcp(mut self, server: McpServer) -> Self {
        self.servers.push(server);
        self
    }

    /// Approves a tool in advance: it may change something without asking an approver.
    pub fn approve(mut self, tool: impl Into<Arc<str>>) -> Self {
        self.gate.approved.push(tool.into());
        self
    }

    /// Sets a function that answers for a person: for a tool that changes something and is not approved, and for a tool
    /// whose call is a question. The run continues with the answer. Other calls of the same reply do not wait for it.
    /// `limits.person_ms` bounds the time of the function, and a call without an answer by then is denied.
    ///
    /// ```
    /// # use loop_runtime::{Agent, models::{Scripted, ScriptedReply}, people::PersonAnswer, tools::write};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Pay { euros: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let model = Scripted::new([ScriptedReply::call("pay", serde_json::json!({"euros": 7})), ScriptedReply::text("Paid.")]);
    /// let agent = Agent::new(model)
    ///     .tool(write("pay", "Pays an amount"), |it: Pay| async move { format!("{} euros are paid", it.euros) })
    ///     .on_approval(|request| async move {
    ///         println!("{} {}: {}", request.tool, request.parameters, request.why);
    ///         PersonAnswer::Approved
    ///     })
    ///     .build()?;
    /// # assert_eq!(&*agent.prompt("Pay 7 euros").await?.text, "Paid.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is called for every request of this agent, whether awaited, started or read as a stream. A run that its
    /// [`runner`](Agent::runner) drives is answered through its [`Remote`](crate::run::Remote).
    pub fn on_approval<F, Fut>(mut self, approver: F) -> Self
    where
        F: Fn(PersonRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = PersonAnswer> + Send + 'static,
    {
        self.approver = Some(Arc::new(move |request| approver(request).boxed()));
        self.ask_people()
    }

    /// Lets people answer from elsewhere: a tool that changes something and is not approved waits until an approver
    /// answers through the run's [`Remote`](crate::run::Remote), within `limits.person_ms`.
    pub fn ask_people(mut self) -> Self {
        self.gate.people = true;
        self
    }

    /// Runs the calls of one reply in parallel. Calls that change something still run one after another.
    pub fn parallel(self) -> Self {
        self.execution(Execution::Parallel)
    }

    /// Sets how the calls of one reply run. Default: one after another.
    pub fn execution(mut self, execution: Execution) -> Self {
        self.execution = execution;
        self
    }

    /// Returns the earlier result if a read is called a second time in one attempt and nothing was changed since.
    pub fn reuse_results(mut self) -> Self {
        self.gate.repeats = Some(Repeats::Reuse);
        self
    }

    /// Sets the style of the error results that the model reads.
    pub fn errors(mut self, errors: ErrorStyle) -> Self {
        self.errors = errors;
        self
    }

    /// Sets the limits of a run, in place of the defaults for this kind of agent.
    ///
    /// Each limit applies as it is given here, `cost` too: it is USD 0.10 in [`Limits::default`], and `None` is no
    /// limit. A cost limit needs the price of the model, and [`build`](Self::build) refuses a model without one.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets the cost limit of a run, whatever [`limits`](Self::limits) says. Default: USD 0.10.
    ///
    /// [`build`](Self::build) refuses an amount that cannot be represented exactly, and a model without a price.
    ///
    /// ```
    /// # use loop_runtime::{Agent, CostLimit, models::Offline};
    /// let agent = Agent::new(Offline::new()).limit(CostLimit::usd("0.25")).build()?;
    /// assert_eq!(agent.runner().spec().limits.cost.unwrap().to_string(), "$0.250000");
    ///
    /// let error = Agent::new(Offline::new()).limit(CostLimit::usd("a quarter")).build().unwrap_err();
    /// assert_eq!(error.to_string(), "`a quarter` is not an amount of dollars; write dollars such as 0.10");
    /// # Ok::<(), loop_runtime::agent::BuildError>(())
    /// ```
    pub fn limit(mut self, limit: impl ToCostLimit) -> Self {
        self.cost = Some(limit.to_cost_limit());
        self
    }

    /// Removes the cost limit, whatever [`limits`](Self::limits) says, for a model whose price is unknown. The limits
    /// of passes, calls, tokens and time still apply, and the cost of a run is shown as unknown.
    ///
    /// ```
    /// # use loop_runtime::{Agent, agent::{AgentModel, BuildError}, models::{ModelSpec, Scripted}};
    /// # let client = Scripted::replies(["Hello."]);
    /// # let again = Scripted::replies(["Hello."]);
    /// let own = |client| AgentModel::new(client, ModelSpec::new("compatible", "own-model"));
    /// assert!(matches!(Agent::new(own(client)).build(), Err(BuildError::CostWithoutPrice { .. })));
    /// let agent = Agent::new(own(again)).no_cost_limit().build()?;
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn no_cost_limit(self) -> Self {
        self.limit(CostLimit::None)
    }

    /// Changes settings of the gate. All others stay as they are.
    ///
    /// ```
    /// # use loop_runtime::{Agent, models::Offline, tools::ToolDeclaration};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Search { name: String }
    /// let agent = Agent::new(Offline::new())
    ///     .tool(ToolDeclaration::read("search_user", "Search users"), |by: Search, _| async move {
    ///         Ok::<_, String>(by.name)
    ///     })
    ///     .gate(|gate| gate.required_tools = vec!["search_user".into()]);
    /// # assert_eq!(agent.build()?.runner().spec().gate.no_progress, 3);
    /// # Ok::<(), loop_runtime::agent::BuildError>(())
    /// ```
    pub fn gate(mut self, change: impl FnOnce(&mut GateSettings)) -> Self {
        change(&mut self.gate);
        self
    }

    /// Sets the journal of its runs. Without one nothing is recorded, and no run can be resumed.
    pub fn with_journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = journal;
        self
    }

    /// Adds an observer: see [`Runner::with_observer`].
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets the credentials for its tools.
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Sets the prompts, in place of the built-in ones.
    pub fn with_prompts(mut self, prompts: Arc<Prompts>) -> Self {
        self.prompts = Some(prompts);
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// What is wrong with its tools or its settings, and how to fix it.
    #[cfg_attr(not(all(feature = "mcp", unix)), expect(unused_mut, reason = "servers add tools"))]
    pub fn build(mut self) -> Result<Agent<Output>, BuildError> {
        #[cfg(all(feature = "mcp", unix))]
        for server in std::mem::take(&mut self.servers) {
            for tool in server.tools()? {
                self = self.with_tool(tool);
            }
        }
        let (client, model) = self.model.resolve()?;
        let (mut tools, mut validators) = (self.tools, Vec::new());
        let mut spec = match self.output {
            None => RunSpec::conversation(self.name, model),
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
                RunSpec::output(self.name, output, model)
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
        let cost = self.cost.transpose()?.unwrap_or_else(of_limits).explicit().resolve(base.price.is_some());
        let cost = cost.map_err(|LimitWithoutPrice { limit }| BuildError::CostWithoutPrice {
            limit,
            model: Arc::clone(&base.model),
        })?;
        spec.limits = Limits { cost, ..self.limits.unwrap_or(spec.limits) };
        let mut runner = Runner::new(spec, registry, Models::one(client))
            .with_journal(self.journal)
            .with_validators(validators)
            .with_credentials(Arc::new(self.credentials));
        for observer in self.observers {
            runner = runner.with_observer(observer);
        }
        if let Some(prompts) = self.prompts {
            runner = runner.with_prompts(prompts);
        }
        Ok(Agent::over(runner.with(|parts| parts.approver = self.approver)))
    }
}

/// Settings for an agent that ends with a value. A conversation has no attempts:
///
/// ```compile_fail
/// # use loop_runtime::{Agent, models::Offline};
/// // error: the trait bounds were not satisfied: `Text: serde::de::DeserializeOwned`
/// let agent = Agent::new(Offline::new()).attempts(2);
/// ```
impl<Output: DeserializeOwned, Deps> AgentBuilder<Output, Deps> {
    /// Sets the maximum number of attempts at an output. Default: 3.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// Sets the maximum number of passes of one attempt. Default: 15.
    pub fn passes_per_attempt(mut self, passes: u32) -> Self {
        self.passes_per_attempt = Some(passes);
        self
    }

    /// Sets the time limit of one validation, in milliseconds. Default: 30,000.
    pub fn validate_ms(mut self, ms: u64) -> Self {
        self.validate_ms = Some(ms);
        self
    }
}

impl<Output, Deps> fmt::Debug for AgentBuilder<Output, Deps> {
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

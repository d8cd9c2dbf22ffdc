//! The runs that are killed: each protocol, each kind of effect, and what a driver does at the same time.

use std::sync::Arc;

use async_trait::async_trait;
use loop_core::WorkItem;
use loop_core::spec::{Execution, OutputSpec, ProtocolSpec, SectionSpec};
use loop_core::types::{Effect, Price, Scope};
use loop_runtime::{
    RunSpec, Runner,
    models::{ModelSpec, Models},
    run::Validator,
    save::{HttpTarget, SaveTarget},
    spec::Repeats,
    tools::{Registry, ToolContext, ToolDeclaration, ToolResult},
};
use loop_tools::connectors::{CommandSettings, CommandTool, HttpDefinition, HttpTool};
use loop_tools::tool::KeptTool;
use loop_tools::{Credentials, Tool};
use serde_json::{Value, json};

use crate::journal::{CrashJournal, Plant};
use crate::model::{Keyed, Says, calls, contract, draft, text};

/// A scenario by its name.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// The items that one process runs at the same time.
    pub items: &'static [&'static str],
    form: Form,
    says: fn(&str) -> Says,
    change: fn(&mut RunSpec),
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Document,
    Conversation,
    Output,
}

const ONE: &[&str] = &["A"];
const fn scenario(name: &'static str, form: Form, says: fn(&str) -> Says) -> Scenario {
    Scenario { name, items: ONE, form, says, change: |_| {} }
}

fn parallel(spec: &mut RunSpec) {
    if let ProtocolSpec::Conversation(conversation) = &mut spec.protocol {
        conversation.execution = Execution::Parallel;
    }
}

pub const ALL: &[Scenario] = &[
    // W5, I-6: writes of every kind, one after another.
    scenario("keyed", Form::Conversation, |key| match key {
        "1/main" => calls(&[("note", "n1"), ("note", "n2")]),
        "2/main" => calls(&[("note", "n3")]),
        _ => text("It is done."),
    }),
    scenario("idempotent", Form::Conversation, |key| match key {
        "1/main" => calls(&[("put", "a"), ("put", "b"), ("find", "c")]),
        "2/main" => calls(&[("put", "c")]),
        _ => text("It is done."),
    }),
    scenario("irreversible", Form::Conversation, |key| match key {
        "1/main" => calls(&[("pay", "p1"), ("pay", "p2")]),
        "2/main" => calls(&[("mail", "m1")]),
        _ => text("It is done."),
    }),
    // Reads next to each other, and a write behind them.
    Scenario {
        change: parallel,
        ..scenario("parallel", Form::Conversation, |key| match key {
            "1/main" => calls(&[("find", "a"), ("find", "b"), ("find", "c"), ("find", "d"), ("note", "n1")]),
            "2/main" => calls(&[("find", "e"), ("pay", "p1"), ("find", "f")]),
            _ => text("It is done."),
        })
    },
    // Reads that start while the reply is received.
    Scenario {
        change: parallel,
        ..scenario("eager", Form::Conversation, |key| match key {
            "1/main" => Says { open_ms: 15, ..calls(&[("peek", "a"), ("peek", "b"), ("pay", "p1")]) },
            "2/main" => Says { open_ms: 15, ..calls(&[("peek", "c")]) },
            _ => text("It is done."),
        })
    },
    // U3, I-26: the run is left, and continues with what a person answers.
    Scenario {
        change: |spec| {
            spec.gate.approved = vec!["note".into()];
            spec.gate.people = true;
        },
        ..scenario("approval", Form::Document, |key| match key {
            "1/main" => draft("low", &[("find", "a"), ("pay", "p1"), ("note", "n1")]),
            "2/main" => draft("medium", &[("pay", "p2")]),
            _ => draft("high", &[]),
        })
    },
    scenario("document", Form::Document, |key| match key {
        "1/main" => draft("low", &[("find", "a"), ("note", "n1")]),
        "2/main" => draft("medium", &[("find", "b"), ("pay", "p1")]),
        _ => draft("high", &[]),
    }),
    scenario("conversation", Form::Conversation, |key| match key {
        "1/main" => calls(&[("find", "a")]),
        "2/main" => calls(&[("find", "b"), ("find", "c")]),
        "3/main" => calls(&[("mail", "m1")]),
        "4/main" => calls(&[("find", "d")]),
        _ => text("It is done."),
    }),
    // The first output is rejected by its validator, the second is what is wanted.
    scenario("output", Form::Output, |key| match key {
        "1/main" => calls(&[("find", "a"), ("note", "n1")]),
        "2/main" => calls(&[("record", "wrong")]),
        _ => calls(&[("record", "right")]),
    }),
    // The outcome is sent to the server under a key.
    Scenario {
        change: |spec| spec.save = true,
        ..scenario("save", Form::Document, |key| match key {
            "1/main" => draft("low", &[("note", "n1")]),
            _ => draft("high", &[]),
        })
    },
    // The contract of the first reply cannot be read, and is asked for again.
    scenario("repair", Form::Document, |key| match key {
        "1/main" => {
            let garbled = draft("low", &[("find", "a")]).text.replace("because", "because\" oh");
            text(&garbled)
        }
        "1/repair" => text(&contract("medium", &[("find", "b"), ("note", "n1")])),
        _ => draft("high", &[]),
    }),
    // Two passes at low confidence: the dearer model takes over.
    Scenario {
        change: |spec| spec.models.escalated = Some(model()),
        ..scenario("escalation", Form::Document, |key| match key {
            "1/main" => draft("low", &[("find", "a")]),
            "2/main" => draft("low", &[("find", "b"), ("note", "n1")]),
            "3/main" => draft("low", &[("pay", "p1")]),
            _ => draft("high", &[]),
        })
    },
    // Two runs share the thread that writes, and their commits.
    Scenario {
        items: &["A", "B"],
        ..scenario("two", Form::Conversation, |key| match key {
            "1/main" => calls(&[("find", "a"), ("note", "n1"), ("pay", "p1")]),
            "2/main" => calls(&[("mail", "m1")]),
            _ => text("It is done."),
        })
    },
    // A selector, and default tools of the domain before the first pass.
    Scenario {
        change: |spec| spec.selection.enabled = true,
        ..scenario("select", Form::Document, |key| match key {
            "0/select" => text(r#"[{"tool": "find", "params": {"target": "s1"}, "reason": "to know"}]"#),
            "1/main" => draft("medium", &[("note", "n1")]),
            _ => draft("high", &[]),
        })
    },
    // The server refuses the first request, and takes the next one under the same key.
    Scenario {
        change: |spec| spec.gate.repeats = Some(Repeats::NeverRerun),
        ..scenario(RETRY, Form::Conversation, |key| match key {
            "1/main" => calls(&[("busy", "b1"), ("find", "a")]),
            "2/main" => calls(&[("busy", "b1")]),
            _ => text("It is done."),
        })
    },
    // Effects of programs that the run starts.
    scenario("command", Form::Conversation, |key| match key {
        "1/main" => calls(&[("run_keyed", "k1"), ("run_once", "o1")]),
        _ => text("It is done."),
    }),
];

/// The scenario whose evidence depends on where it is interrupted: a process that resumes it makes the request that the
/// server refused before the model asks for it again.
pub const RETRY: &str = "retry";

/// Whether an effect of this tool may be requested again under its key.
pub fn is_repeatable(tool: &str) -> bool {
    !matches!(tool, "pay" | "mail" | "run_once")
}

/// Whether a tool changes something.
pub fn is_effect(tool: &str) -> bool {
    !matches!(tool, "find" | "peek" | "record")
}

pub fn by_name(name: &str) -> &'static Scenario {
    ALL.iter().find(|scenario| scenario.name == name).unwrap()
}

fn model() -> ModelSpec {
    ModelSpec::new("scripted", "m").with_price(Price::flat(100_000, 400_000))
}

/// Where a child finds the world.
#[derive(Clone, Debug)]
pub struct World {
    pub address: String,
    /// What marks the processes of a case.
    pub mark: String,
    pub plant: Plant,
}

impl Scenario {
    pub fn item(&self, id: &str) -> WorkItem {
        let scope = Scope { item: Some(id.into()), account: Some("acme".into()), ..Scope::default() };
        WorkItem { scope, ..WorkItem::new(id, "ticket", "Do it", "Do what has to be done.") }
    }

    fn spec(&self) -> RunSpec {
        let sections = [SectionSpec::new("findings", "Findings").required()];
        let mut spec = match self.form {
            Form::Document => RunSpec::document("crash", sections, model()),
            Form::Conversation => RunSpec::conversation("crash", model()),
            Form::Output => RunSpec::output("crash", OutputSpec::new("record"), model()),
        };
        spec.selection.enabled = false;
        spec.limits.passes = 8;
        spec.limits.model_calls = 60;
        spec.gate.approved = vec!["*".into()];
        (self.change)(&mut spec);
        spec
    }

    pub fn runner(&self, world: &World, journal: CrashJournal) -> Runner {
        let spec = self.spec();
        let (saves, people) = (spec.save, spec.gate.people);
        let mut runner = Runner::new(spec, tools(world), Models::one(Arc::new(Keyed(self.says))))
            .with_journal(Arc::new(journal))
            .with_validators([Arc::new(Right) as Arc<dyn Validator>]);
        if saves {
            let target = HttpTarget::new(&format!("http://{}/save", world.address)).unwrap();
            runner = runner.with_saver(Arc::new(SaveTarget::Http(target)));
        }
        if people { runner.with_people().leave_when_waiting() } else { runner }
    }
}

/// The rule of the output: its target is `right`.
#[derive(Debug)]
struct Right;

#[async_trait]
impl Validator for Right {
    fn name(&self) -> &str {
        "right"
    }

    async fn validate(&self, output: &Value) -> Result<(), String> {
        // A document has no target, and is checked all the same.
        let is_right = output.get("target").is_none_or(|target| target == "right");
        if is_right { Ok(()) } else { Err("the target has to be `right`".to_owned()) }
    }
}

fn declared(name: &str, effect: Effect) -> ToolDeclaration {
    ToolDeclaration::new(name)
        .description("Does one thing.")
        .schema(
            json!({"type": "object", "required": ["target"], "properties": {"target": {"type": "string"}}}),
        )
        .effect(effect)
}

fn http(world: &World, name: &str, effect: Effect) -> HttpTool {
    let address = &world.address;
    let of_all = HttpDefinition {
        url: format!("http://{address}/{name}"),
        private: vec![address.clone()],
        plain_http: true,
        ..HttpDefinition::default()
    };
    let declaration = declared(name, effect).attempts(3);
    if effect.is_read() {
        let query =
            vec![("item".to_owned(), json!("{scope.item}")), ("target".to_owned(), json!("{target}"))];
        let declaration = if name == "peek" { declaration.cheap() } else { declaration };
        return HttpTool::new(declaration, &HttpDefinition { query, ..of_all }).unwrap();
    }
    let body = Some(json!({"item": "{scope.item}", "target": "{target}"}));
    HttpTool::new(declaration, &HttpDefinition { method: Some("POST".to_owned()), body, ..of_all }).unwrap()
}

fn command(world: &World, name: &str, effect: Effect) -> CommandTool {
    let program = std::env::current_exe().unwrap().display().to_string();
    let args = ["effect", &world.address, name, "{scope.item}", "{target}", "{call_key}"].map(str::to_owned);
    let settings = CommandSettings {
        args: args.to_vec(),
        set: vec![(crate::case::MARK.to_owned(), world.mark.clone())],
        ..CommandSettings::new(program, std::env::temp_dir())
    };
    CommandTool::new(declared(name, effect), settings).unwrap()
}

/// A tool that does everything twice: a fault that the harness has to find.
#[derive(Debug)]
struct Doubled(HttpTool);

#[async_trait]
impl Tool for Doubled {
    fn spec(&self) -> &ToolDeclaration {
        self.0.spec()
    }

    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult {
        self.0.call(parameters.clone(), context, credentials).await;
        self.0.call(parameters, context, credentials).await
    }
}

fn tools(world: &World) -> Registry {
    let pay = http(world, "pay", Effect::WriteIrreversible);
    let registry = Registry::builder();
    let registry = if world.plant == Plant::Twice { registry.tool(Doubled(pay)) } else { registry.tool(pay) };
    registry
        .tool(http(world, "find", Effect::Read))
        .tool(http(world, "peek", Effect::Read))
        .tool(http(world, "note", Effect::WriteKeyed))
        .tool(http(world, "busy", Effect::WriteKeyed))
        .tool(http(world, "put", Effect::WriteIdempotent))
        .tool(http(world, "mail", Effect::Egress))
        .tool(KeptTool::new(declared("record", Effect::Read)))
        .tool(command(world, "run_keyed", Effect::WriteKeyed))
        .tool(command(world, "run_once", Effect::WriteIrreversible))
        .build()
        .unwrap()
}

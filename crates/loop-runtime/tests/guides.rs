//! The programs that `docs/how-to/conversation.md` and `docs/how-to/output.md` quote, run.

#![expect(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use loop_runtime::{
    Agent, CostLimit, Message, StopReason, WorkItem,
    agent::{AgentError, AgentEvent, AgentModel, Answer, BuildError, Extracted, OutputTool},
    journal::{Journal, MemoryJournal, replay},
    models::{HttpModel, ModelSpec, Offline, Price, Profile, Scripted, ScriptedReply},
    observe::{RunEvent, Step, steps},
    people::PersonAnswer,
    read,
    run::{CancellationToken, DriveResult, EventKind},
    spec::{ErrorStyle, Limits, Repeats},
    tools::{Effect, ToolDeclaration, ToolPolicy, ToolResult},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

type Tested = Result<(), Box<dyn std::error::Error>>;

#[derive(Deserialize, JsonSchema)]
struct Search {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Update {
    id: u32,
    company: String,
}

fn search() -> ToolDeclaration {
    ToolDeclaration::read("search_user", "Search users by name")
}

fn update() -> ToolDeclaration {
    ToolDeclaration::new("update_user").description("Change a user's company").effect(Effect::WriteIdempotent)
}

async fn found(search: Search) -> Result<serde_json::Value, String> {
    Ok(json!([{"id": 42, "name": format!("{} Brown", search.name)}]))
}

fn finds_users() -> Agent {
    Agent::new(Offline::new()).tool(search(), |search: Search, _| found(search)).build().unwrap()
}

fn updates(
    replies: impl IntoIterator<Item = ScriptedReply>,
) -> loop_runtime::agent::AgentBuilder<loop_runtime::agent::Text> {
    Agent::new(Scripted::new(replies)).tool(update(), |update: Update, _| async move {
        Ok::<_, String>(format!("{}: {}", update.id, update.company))
    })
}

fn wants_an_update() -> [ScriptedReply; 2] {
    let call = ScriptedReply::call("update_user", json!({"id": 42, "company": "EPAM"}));
    [call, ScriptedReply::text("Updated Bob's company to EPAM.")]
}

#[tokio::test]
async fn a_second_question_goes_on_from_the_first() -> Tested {
    // S1-7, S1-21
    let agent = finds_users();
    let mut messages = vec![Message::user("Search user Bob")];
    let first = agent.chat(&mut messages).await?;
    messages.push(Message::user("Search user Alice"));
    let second = agent.chat(&mut messages).await?;
    assert_eq!((first.meta.totals.passes, second.meta.totals.passes, messages.len()), (2, 2, 8));
    Ok(())
}

#[test]
fn a_model_behind_http_takes_the_same_place() -> Tested {
    let key = "sk-…".to_owned();
    let profile = Profile::named("anthropic").ok_or("there is a row for it")?;
    let client = HttpModel::new(profile, None)?.with_key(key.into())?;
    // USD 3 and USD 15 for a million tokens of input and output, in pico-dollars a token.
    let spec = ModelSpec::new("anthropic", "NAME").with_price(Price::flat(3_000_000, 15_000_000));
    let model = AgentModel::new(client, spec);
    let agent = Agent::new(model).instructions("You answer in one sentence.").build()?;
    assert_eq!(&*agent.runner().spec().models.base.model, "NAME");
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// Asks a real model, so no test calls it; `door` runs the same over loopback.
#[expect(dead_code)]
async fn a_model_by_name_is_enough() -> Tested {
    let agent = Agent::new("anthropic/claude-haiku-4-5")
        .instructions("You calculate with the tools.")
        .limit(CostLimit::usd("0.10"))
        .tool(read("add", "Adds two numbers"), |it: Add| async move { it.a + it.b })
        .build()?;
    let answer = agent.prompt("2 + 5?").await?;
    println!("{}", answer.text);
    Ok(())
}

#[tokio::test]
async fn a_tool_says_how_it_fails() -> Tested {
    // S1-29, S2-32
    let get = ToolDeclaration::read("get_user_by_id", "Fetch one user by id");
    let call = ScriptedReply::call("get_user_by_id", json!({"name": "7"}));
    let builder = Agent::new(Scripted::new([call, ScriptedReply::text("There is none.")]));
    let builder = builder.tool(get, |by: Search, _| async move {
        let known = BTreeMap::from([("42", "Bob Brown")]);
        known.get(by.name.as_str()).copied().ok_or("there is no such user")
    });
    let mut messages = vec![Message::user("Who is 7?")];
    builder.build()?.chat(&mut messages).await?;
    let Message::Tool { results } = &messages[2] else { panic!("{messages:?}") };
    assert_eq!((results[0].is_error, &*results[0].text), (true, "Error: there is no such user"));
    Ok(())
}

#[tokio::test]
async fn a_closure_s_result_is_told_as_the_guide_says() -> Tested {
    // S1-25, S1-29, S2-32
    let kinds = ["text", "json", "list", "blank", "null", "retry", "error", "panic"];
    let call = |reply: ScriptedReply, kind: &&str| reply.and_call("try", json!({"name": kind}));
    let calls = kinds.iter().fold(ScriptedReply::default(), call);
    let builder = Agent::new(Scripted::new([calls, ScriptedReply::text("Done.")]));
    let tool = ToolDeclaration::read("try", "Answers in some way");
    let builder = builder.tool(tool, |kind: Search, _| async move {
        let of = |value: serde_json::Value| Ok(ToolResult::value("try", value));
        match &*kind.name {
            "text" => of(json!("two\nlines")),
            "json" => of(json!({"id": 7})),
            "list" => of(json!([])),
            "blank" => of(json!("")),
            "null" => of(json!(null)),
            "retry" => Ok(ToolResult::retryable("try", "Try", "no route")),
            "error" => Err("no route"),
            _ => panic!("what now"),
        }
    });
    let mut messages = vec![Message::user("Try")];
    builder.build()?.chat(&mut messages).await?;
    let Message::Tool { results } = &messages[2] else { panic!("{messages:?}") };
    let reported: Vec<_> = results.iter().map(|result| (&*result.text, result.is_error)).collect();
    let expected = [
        ("two\nlines", false),
        (r#"{"id":7}"#, false),
        ("No data found", false),
        ("No data found", false),
        ("No data found", false),
        ("Error: no route", true),
        ("Error: no route", true),
        ("Error: the tool panicked: what now", true),
    ];
    assert_eq!(reported, expected);
    Ok(())
}

#[tokio::test]
async fn a_change_runs_once_it_is_approved() -> Tested {
    // S1-43
    let mut messages = vec![Message::user("Update Bob's company to EPAM")];
    let builder = updates(wants_an_update());
    let agent = builder.approve("update_user").build()?;
    let answer = agent.chat(&mut messages).await?;
    assert_eq!(&*answer.text, "Updated Bob's company to EPAM.");
    let error = updates([]).approve("udpate_user").build().unwrap_err();
    assert!(matches!(error, BuildError::ApprovedUnknown { .. }), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_person_is_requested() -> Tested {
    let builder = updates(wants_an_update());
    let mut messages = vec![Message::user("Update Bob's company to EPAM")];
    let requested = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&requested);
    let is_wanted = move |question: String| {
        asked.lock().unwrap().push(question);
        std::future::ready(true)
    };
    let builder = builder.on_approval(move |request| {
        let is_wanted = is_wanted.clone();
        async move {
            match is_wanted(format!("{} {}", request.tool, request.parameters)).await {
                true => PersonAnswer::Approved,
                false => PersonAnswer::Denied { why: "not today".into() },
            }
        }
    });
    let answer = builder.build()?.chat(&mut messages).await?;
    assert_eq!(answer.meta.reason(), StopReason::Completed);
    assert_eq!(*requested.lock().unwrap(), [r#"update_user {"company":"EPAM","id":42}"#]);
    Ok(())
}

#[tokio::test]
async fn limits_are_numbers() -> Tested {
    // S1-48
    let builder = updates(wants_an_update()).approve("update_user");
    let mut messages = vec![Message::user("Update Bob's company to EPAM")];
    let limits = Limits { passes: 1, wall_ms: 60_000, tokens: Some(200_000), ..Limits::agent() };
    let agent = builder.limits(limits).build()?;
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(error.code().as_ref(), "MAX_ITERATIONS");
    Ok(())
}

#[tokio::test]
async fn whatever_ends_it_there_is_a_bill() -> Tested {
    // S1-47, S2-93
    let calls = (0..4).map(|n| ScriptedReply::call("update_user", json!({"id": n, "company": "EPAM"})));
    let builder = updates(calls).approve("update_user");
    let limits = Limits { passes: 3, ..Limits::agent() };
    let agent = builder.limits(limits).build()?;
    let mut messages = vec![Message::user("Update everybody")];
    let line = match agent.chat(&mut messages).await {
        Ok(Answer { text, .. }) => format!("{text}"),
        Err(AgentError::MaxIterations { iterations, limit, meta, .. }) => {
            let best = meta.outcome.answer.as_deref().unwrap_or("nothing");
            format!("no end after {iterations} of {limit} passes; so far: {best}")
        }
        Err(AgentError::Cancelled { phase, pass, .. }) => format!("cancelled in {phase} of pass {pass}"),
        Err(error) => match error.meta() {
            Some(meta) => format!("{}: {error} ({} tokens)", error.code(), meta.totals.usage.total()),
            None => format!("it did not begin: {error}"),
        },
    };
    assert_eq!(line, "no end after 3 of 3 passes; so far: nothing");
    Ok(())
}

#[tokio::test]
async fn it_is_cancelled_from_elsewhere() -> Tested {
    // S2-49, C31
    let agent = finds_users();
    let mut messages = vec![Message::user("Search user Bob")];
    let cancel = CancellationToken::new();
    let elsewhere = cancel.clone();
    elsewhere.cancel();
    let ended = agent.chat(&mut messages).until(&cancel).await;
    assert!(matches!(ended, Err(AgentError::Cancelled { phase: "start", .. })), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn it_is_driven_in_each_way() -> Tested {
    // S1-2, S1-3, S1-45, C1
    let agent = finds_users();
    let mut messages = vec![Message::user("Search user Bob")];
    assert_eq!(agent.chat(&mut messages).await?.meta.totals.passes, 2);

    let mut messages = vec![Message::user("Search user Bob")];
    let (mut text, mut last) = (String::new(), None);
    let mut run = agent.chat(&mut messages).events().await?;
    while let Some(event) = run.next().await {
        match event {
            AgentEvent::Text { key, attempt, text: piece } => {
                if last.replace((key, attempt)) != Some((key, attempt)) {
                    text.clear(); // another reply begins, or another try of one that broke off
                }
                text.push_str(&piece);
            }
            AgentEvent::Tool { tool, input, result: None } => println!("{tool} {input} …"),
            AgentEvent::Tool { tool, result: Some(result), .. } => println!("{tool}: {result}"),
            AgentEvent::Run(RunEvent::Call { news, .. }) => eprintln!("{news:?}"), // a retry, a rate limit, silence
            AgentEvent::Run(_) => {}
        }
    }
    let meta = run.finish().await;
    assert_eq!(meta.outcome.answer.as_deref(), Some(text.as_str()));

    let questions = ["Search user Alice", "Search user Bob"];
    let conversations = futures::stream::iter(questions.map(|text| vec![Message::user(text)]));
    let mut ended = agent.queue(conversations, 8).collect::<Vec<_>>().await;
    ended.sort_by_key(|(place, _, _)| *place);
    for (place, messages, answer) in ended {
        println!("{place}: {} ({} messages)", answer?.text, messages.len());
    }
    Ok(())
}

#[tokio::test]
async fn an_observer_in_place_hears_of_each_step() -> Tested {
    // S2-43, S2-44, S2-89, S2-90
    let builder = Agent::new(Offline::new()).tool(search(), |search: Search, _| found(search));
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    let watching = steps(move |at, step| {
        match step {
            Step::ToolCall { tool, input } => seen.lock().unwrap().push(format!("using {tool} {input}")),
            Step::ToolResult { tool, .. } => return Err(format!("{tool} is not shown")),
            Step::Pass => seen.lock().unwrap().push(format!("{} tokens", at.totals.usage.total())),
            _ => {}
        }
        Ok(())
    });
    let agent = builder.with_observer(watching).build()?;
    let answer = agent.chat(&mut vec![Message::user("Search user Bob")]).await?;
    assert_eq!(answer.meta.observer_errors.len(), 1);
    assert_eq!(answer.meta.observer_errors[0].to_string(), "tool_result: search_user is not shown");
    let seen = shown.lock().unwrap();
    assert_eq!((seen.len(), seen[1].as_str()), (3, r#"using search_user {"name":"Bob"}"#));
    Ok(())
}

#[tokio::test]
async fn a_run_is_taken_up_from_its_journal() -> Tested {
    // C20
    let builder = Agent::new(Offline::new()).tool(search(), |search: Search, _| found(search));
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let agent = builder.with_journal(Arc::clone(&journal)).build()?;
    let answer = agent.chat(&mut vec![Message::user("Search user Bob")]).await?;
    assert_eq!(journal.runs().await?.len(), 1);
    let mut messages = Vec::new();
    let again = agent.chat(&mut messages).resume(&answer.meta.run).await?;
    assert_eq!((&*again.text, messages.len()), (&*answer.text, 4));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_program_died_is_found_in_its_journal() -> Tested {
    // C20
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let agent = |replies: Vec<ScriptedReply>| {
        let builder = Agent::new(Scripted::new(replies)).tool(search(), |search: Search, _| found(search));
        builder.with_journal(Arc::clone(&journal)).build()
    };
    let slow = ScriptedReply { delay_ms: 60_000, ..ScriptedReply::text("Never.") };
    let call = || ScriptedReply::call("search_user", json!({"name": "Bob"}));
    let died = agent(vec![call(), slow])?;
    let mut requested = vec![Message::user("Hello"), Message::assistant("Hello"), Message::user("Find Bob")];
    let died = tokio::time::timeout(std::time::Duration::from_secs(1), died.chat(&mut requested)).await;
    assert!(died.is_err());
    let agent = agent(vec![call(), ScriptedReply::text("Here he is.")])?;
    let left = journal.runs().await?;
    for line in journal.runs().await?.iter().filter(|line| line.stop.is_none() && !line.is_written) {
        let mut messages = Vec::new();
        let answer = agent.chat(&mut messages).resume(&line.run).await?;
        println!("{}: {} ({} messages)", line.title, answer.text, messages.len());
    }
    assert_eq!((left.len(), left[0].stop), (1, None));
    assert_eq!(journal.runs().await?[0].stop, Some(StopReason::Completed));
    let mut messages = Vec::new();
    agent.chat(&mut messages).resume(&left[0].run).await?;
    assert_eq!((messages.len(), messages[0].text()), (6, "Hello"));
    Ok(())
}

#[tokio::test]
async fn a_tool_may_be_demanded() -> Tested {
    let builder = Agent::new(Offline::new()).tool(search(), |search: Search, _| found(search));
    let agent = builder.gate(|gate| gate.required_tools = vec!["search_user".into()]).build()?;
    assert!(agent.chat(&mut vec![Message::user("Search user Bob")]).await.is_ok());
    Ok(())
}

#[tokio::test]
async fn a_run_that_waits_is_left_and_answered_later() -> Tested {
    // I-26, S4-37
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let builder = updates(wants_an_update());
    let agent = builder.ask_people().with_journal(Arc::clone(&journal)).build()?;
    let runner = agent.runner().clone().leave_when_waiting();
    let item = WorkItem::message("M-1", "A change", "Update Bob's company to EPAM");
    match runner.run(item).start().await?.driven().await {
        DriveResult::Ended(outcome) => println!("{}", outcome.stop.reason()),
        DriveResult::Waiting(waiting) => {
            for requested in &waiting.requested {
                println!("{} {} {}: {}", requested.key, requested.tool, requested.parameters, requested.why);
            }
        }
    }

    let agent = updates(wants_an_update()).ask_people().with_journal(Arc::clone(&journal)).build()?;
    for line in journal.runs().await?.iter().filter(|line| line.stop.is_none()) {
        let run = replay(&line.run, &journal.read(&line.run).await?)?;
        let yes = run.requested().into_iter().map(|requested| {
            let (key, binding) = (requested.key, Some(requested.binding));
            EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, binding }
        });
        agent.runner().note_down(&line.run, yes).await?;
        let mut messages = Vec::new();
        let answer = agent.chat(&mut messages).resume(&line.run).await?;
        println!("{} ({} messages)", answer.text, messages.len());
    }
    let line = &journal.runs().await?[0];
    let run = replay(&line.run, &journal.read(&line.run).await?)?;
    let outcome = run.outcome().ok_or("it has ended")?;
    assert_eq!(outcome.answer.as_deref(), Some("Updated Bob's company to EPAM."));
    assert_eq!((outcome.totals.tool_calls, outcome.evidence.len()), (1, 1));
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "a person reads it")]
struct Question {
    question: String,
}

#[tokio::test]
async fn a_person_is_asked_a_question() -> Tested {
    // S4-37
    let call = ScriptedReply::call("ask_person", json!({"question": "Which colour?"}));
    let builder = Agent::new(Scripted::new([call, ScriptedReply::text("Blue it is.")]));
    let ask = ToolDeclaration::read("ask_person", "Asks the person who knows")
        .policy(ToolPolicy { asks_person: true, ..ToolPolicy::default() });
    let builder = builder.tool(ask, |_: Question, _| async { Ok::<_, String>(()) });
    let runner = builder.ask_people().build()?.runner().clone();
    let runner = runner.with_journal(Arc::new(MemoryJournal::new())).leave_when_waiting();
    let item = WorkItem::message("M-1", "Paint", "Paint it");
    let DriveResult::Waiting(waiting) = runner.run(item).start().await?.driven().await else {
        panic!("it asks")
    };
    let requested = &waiting.requested[0];
    assert!(requested.is_question);
    let (key, answer) = (requested.key, PersonAnswer::Answered { text: "blue".into() });
    let activity = EventKind::PersonAnswered { key, answer, binding: Some(requested.binding) };
    let outcome = runner.resume_with(&waiting.outcome.run, [activity]).await?;
    assert_eq!(outcome.answer.as_deref(), Some("Blue it is."));
    assert!(outcome.evidence[0].observation.markdown.contains("blue"), "{:?}", outcome.evidence);
    Ok(())
}

#[tokio::test]
async fn errors_are_told_in_the_words_of_a_style() -> Tested {
    // C8
    let call = ScriptedReply::call("serch_user", json!({"name": "Bob"}));
    let builder = Agent::new(Scripted::new([call, ScriptedReply::text("I cannot.")]));
    let builder = builder.tool(search(), |search: Search, _| found(search));
    let agent = builder.errors(ErrorStyle::Named).build()?;
    let mut messages = vec![Message::user("Find Bob")];
    agent.chat(&mut messages).await?;
    let Message::Tool { results } = &messages[2] else { panic!("{messages:?}") };
    assert_eq!(&*results[0].text, "Error executing serch_user: Unknown tool");
    Ok(())
}

/// What a mail asks for
#[derive(Debug, Deserialize, JsonSchema)]
struct Lead {
    /// The person who asks
    name: String,
    company: String,
    /// What can be spent, in US dollars
    budget_usd: u32,
}

fn lead(budget: u32) -> ScriptedReply {
    ScriptedReply::call("save_lead", json!({"name": "Ann Lee", "company": "Acme", "budget_usd": budget}))
}

const MAIL: &str = "Ann Lee of Acme has 5000 USD for a new roof";

#[tokio::test]
async fn a_value_of_a_type_comes_out() -> Tested {
    // S2-57, S2-96
    let save = OutputTool::<Lead>::new("save_lead", "Save the lead");
    let agent =
        Agent::output(Offline::new(), save).instructions("You read mails and record leads.").build()?;
    let Extracted { value, meta } = agent.prompt("name: Ann Lee, company: Acme, budget: 5000 USD").await?;
    println!(
        "{} of {} has ${} ({} tokens)",
        value.name,
        value.company,
        value.budget_usd,
        meta.totals.usage.total()
    );
    assert_eq!((value.budget_usd, meta.attempts), (5000, 1));
    Ok(())
}

#[tokio::test]
async fn rules_are_asked_in_order() -> Tested {
    // S2-4, S2-78, S2-93
    let model = Scripted::new([lead(20), lead(20)]);
    let save = OutputTool::<Lead>::new("save_lead", "Save the lead")
        .validator("has_a_name", |lead: Lead| async move {
            if lead.name.is_empty() { Err("`name` is empty; take it from the signature") } else { Ok(()) }
        })
        .validator("worth_it", |lead: Lead| async move {
            let least = 1_000; // a real program may ask a database here, and wait for it
            if lead.budget_usd < least {
                return Err(format!("`budget_usd` is {}, and leads begin at {least}", lead.budget_usd));
            }
            Ok(())
        });
    let agent = Agent::output(model, save).attempts(2).passes_per_attempt(5).build()?;
    let mut messages = vec![Message::user(MAIL)];
    let line = match agent.chat(&mut messages).await {
        Ok(found) => format!("{:?} in {} attempts", found.value, found.meta.attempts),
        Err(AgentError::MaxAttempts { attempts, message, meta }) => {
            let last = meta.outcome.output.as_ref().map_or("none", |output| &*output.value);
            format!("{attempts} attempts; {message}; the last output: {last}")
        }
        Err(AgentError::MaxIterations { attempt, iterations, limit, .. }) => {
            format!("no output in attempt {attempt} after {iterations} of {limit} passes")
        }
        Err(error) => format!("{}: {error}", error.code()),
    };
    let output = r#"{"name":"Ann Lee","company":"Acme","budget_usd":20}"#;
    let rejected = "worth_it: `budget_usd` is 20, and leads begin at 1000";
    assert_eq!(line, format!("2 attempts; {rejected}; the last output: {output}"));
    // S2-84: one conversation for both.
    let activity: Vec<&str> = messages.iter().map(Message::text).filter(|text| !text.is_empty()).collect();
    assert_eq!(activity[0], MAIL);
    assert!(
        activity[1].starts_with("The output was not accepted. worth_it: `budget_usd` is 20"),
        "{activity:?}"
    );
    Ok(())
}

#[tokio::test]
async fn an_output_is_shown_and_submitted() -> Tested {
    // S2-20, S2-103
    let submit = ScriptedReply::call("done", json!({}));
    let model = Scripted::new([lead(20), lead(5_000), submit]);
    let save = OutputTool::<Lead>::new("save_lead", "Save the lead")
        .reflect(|lead: &Lead| format!("Lead: {} of {}, ${}", lead.name, lead.company, lead.budget_usd))
        .submit_as("done", "Ends the work; call it once the lead reads well");
    let agent = Agent::output(model, save).build()?;
    let found = agent.prompt(MAIL).await?;
    assert_eq!((found.value.budget_usd, found.meta.attempts, found.meta.totals.passes), (5_000, 1, 3));
    Ok(())
}

#[tokio::test]
async fn helpers_go_before_the_output() -> Tested {
    // S2-29, S2-100, S2-102
    let again = || ScriptedReply::call("search_user", json!({"name": "Ann"}));
    let model = Scripted::new([again(), again(), lead(5_000)]);
    let save = OutputTool::<Lead>::new("save_lead", "Save the lead");
    let agent = Agent::output(model, save)
        .helper(search(), |search: Search, _| found(search))
        .reuse_results()
        .parallel()
        .build()?;
    let found = agent.prompt(MAIL).await?;
    for tool in &found.meta.tools {
        println!(
            "{}: {} calls, {} failed, {} not run, {} ms",
            tool.tool, tool.calls, tool.failures, tool.refused, tool.ms
        );
    }
    assert_eq!(agent.runner().spec().repeats(), Repeats::Reuse);
    assert_eq!((found.meta.tools[0].calls, found.meta.tools[0].refused), (1, 1));
    Ok(())
}

#[tokio::test]
async fn rejections_are_received() -> Tested {
    // S2-91
    let save = OutputTool::<Lead>::new("save_lead", "Save the lead")
        .validator("worth_it", |lead: Lead| async move {
            if lead.budget_usd < 1_000 { Err("too small") } else { Ok(()) }
        });
    let builder = Agent::output(Scripted::new([lead(20), lead(5_000)]), save);
    let received = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&received);
    let watching = steps(move |at, step| {
        match step {
            Step::AttemptStart => seen.lock().unwrap().push(format!("attempt {}", at.attempt)),
            Step::ValidationFailure { by, message } => seen.lock().unwrap().push(format!("{by}: {message}")),
            _ => {}
        }
        Ok(())
    });
    let agent = builder.with_observer(watching).build()?;
    agent.prompt(MAIL).await?;
    assert_eq!(*received.lock().unwrap(), ["attempt 1", "worth_it: too small", "attempt 2"]);
    Ok(())
}

#[tokio::test]
async fn errors_cancelling_observers_and_validation_go_together() -> Tested {
    // S2-9, S2-90, S2-91
    let cancel = CancellationToken::new();
    let elsewhere = cancel.clone();
    let save = OutputTool::<Lead>::new("save_lead", "Save the lead")
        .validator("worth_it", |_: Lead| async { Err::<(), _>("too small") });
    let watching = steps(move |_, step| {
        let Step::ValidationFailure { by, .. } = step else { return Ok(()) };
        elsewhere.cancel();
        Err(format!("{by} was heard"))
    });
    let agent = Agent::output(Scripted::new([lead(20), lead(20)]), save).with_observer(watching).build()?;
    let error = agent.chat(&mut vec![Message::user(MAIL)]).until(&cancel).await.unwrap_err();
    assert_eq!(error.code().as_ref(), "EXECUTION_CANCELLED");
    let meta = error.meta().unwrap();
    assert_eq!(meta.observer_errors[0].to_string(), "validation_failure: worth_it was heard");
    assert_eq!(meta.outcome.rejection.as_ref().unwrap().to_string(), "worth_it: too small");
    assert_eq!(meta.totals.passes, 1);
    Ok(())
}

#[test]
fn what_cannot_work_is_refused_when_it_is_built() {
    // S2-d3, S2-98
    let helper = ToolDeclaration::read("save_lead", "Search users by name");
    let save = OutputTool::<Lead>::new("save_lead", "Save the lead");
    let refused =
        Agent::output(Offline::new(), save).helper(helper, |search: Search, _| found(search)).build();
    let error = refused.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the helper `save_lead` has the name of the output tool; rename one of them"
    );
}

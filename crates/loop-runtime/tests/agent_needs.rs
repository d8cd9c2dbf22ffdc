//! What an agent borrows, asks and shows: dependencies of its tools, a function that approves, one stream of events, and a script
//! that continues after a resume.

use crate::agents;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agents::{Activity, Target, ask, looks, says, scripted, shape, target, texts};
use futures::StreamExt;
use loop_llm::scripted::ScriptedReply;
use loop_runtime::{
    Agent, StopReason,
    agent::{AgentBuilder, AgentEvent, Text},
    journal::{Journal, MemoryJournal},
    models::Scripted,
    people::PersonAnswer,
    read,
    spec::Limits,
    tools::{ToolContext, ToolDeclaration, ToolPolicy},
};
use serde_json::json;

struct Users(AtomicU32);

impl Users {
    async fn named(&self, name: &str) -> String {
        tokio::task::yield_now().await;
        format!("{name} is number {}", self.0.fetch_add(1, Ordering::SeqCst))
    }
}

async fn number(users: &Users, it: Target) -> Result<String, std::num::ParseIntError> {
    users.0.store(it.target.parse()?, Ordering::SeqCst);
    Ok("set".to_owned())
}

#[tokio::test]
async fn tools_borrow_the_dependencies_of_their_agent() {
    let reply = ScriptedReply::call("set", json!({"target": "7"}))
        .and_call("set", json!({"target": "x"}))
        .and_call("find", json!({"target": "Ann"}))
        .and_call("key", json!({"target": "Bob"}))
        .and_call("plain", json!({"target": "Eve"}));
    let agent = Agent::new(Scripted::new([reply, says("Done.")]))
        .with(Users(AtomicU32::new(1)))
        .tool(read("set", "Sets the number"), number)
        .tool(read("find", "Finds a user"), async |users: &Users, it: Target| users.named(&it.target).await)
        .tool(read("key", "Says the key"), async |users: &Users, it: Target, context: ToolContext| {
            format!("{} {}", users.named(&it.target).await, context.key.split_once('/').unwrap().1)
        })
        .tool(read("plain", "Needs nothing"), |it: Target| async move { it.target })
        .build()
        .unwrap();
    let mut messages = ask("Go");
    agent.chat(&mut messages).await.unwrap();
    let expected = [
        "set",
        "!Error: invalid digit found in string",
        "Ann is number 7",
        "Bob is number 8 1/action-3",
        "Eve",
    ];
    assert_eq!(texts(&messages), expected);
}

fn changes(replies: impl IntoIterator<Item = ScriptedReply>) -> AgentBuilder<Text> {
    agents::with_tools(Agent::new(Scripted::new(replies)), &Activity::default())
}

fn wants_changes() -> [ScriptedReply; 2] {
    let call = ScriptedReply::call("change", target("a")).and_call("change", target("b"));
    [call.and_call("look", target("c")), says("Done.")]
}

/// Approves the change of `a`, after some time.
fn approving(asked: &Arc<Mutex<Vec<String>>>, builder: AgentBuilder<Text>) -> AgentBuilder<Text> {
    let asked = Arc::clone(asked);
    builder.on_approval(move |request| {
        asked.lock().unwrap().push(format!("{} {}", request.tool, request.parameters));
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            match request.parameters.contains("\"a\"") {
                true => PersonAnswer::Approved,
                false => PersonAnswer::Denied { why: "not b".into() },
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_function_approves_in_each_way_of_driving() {
    // S1-43
    let expected = ["saw a", "!Error: A person denied it: not b", "saw c"];
    for way in ["awaited", "started", "events", "unread", "resumed"] {
        let asked = Arc::default();
        let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
        let agent = approving(&asked, changes(wants_changes())).with_journal(Arc::clone(&journal));
        let agent = agent.build().unwrap();
        let mut messages = ask("Go");
        let request = agent.chat(&mut messages);
        match way {
            "awaited" => drop(request.await),
            "started" => drop(request.start().await.unwrap().wait().await),
            "unread" => drop(request.events().await.unwrap().finish().await),
            "events" => {
                let mut run = request.events().await.unwrap();
                while run.next().await.is_some() {}
                run.finish().await;
            }
            _ => {
                // Its program ends while it asks; another asks again.
                tokio::time::timeout(Duration::from_millis(20), request).await.unwrap_err();
                let run = journal.runs().await.unwrap()[0].run.clone();
                assert_eq!(std::mem::take(&mut *asked.lock().unwrap()).len(), 2);
                let again = approving(&asked, changes(wants_changes())).with_journal(Arc::clone(&journal));
                again.build().unwrap().chat(&mut messages).resume(&run).await.unwrap_err();
            }
        }
        assert_eq!(texts(&messages), expected, "{way}");
        let asked: Vec<String> = std::mem::take(&mut *asked.lock().unwrap());
        assert_eq!(asked, [r#"change {"target":"a"}"#, r#"change {"target":"b"}"#], "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_approver_that_panics_or_is_late_says_no_and_one_that_is_asked_answers() {
    // S4-37
    let one = || [ScriptedReply::call("change", target("a")), says("Done.")];
    let mut messages = ask("Go");
    let agent = changes(one()).on_approval(|_| async { panic!("no terminal") }).build().unwrap();
    agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(texts(&messages), ["!Error: A person denied it: the approver panicked: no terminal"]);

    let mut messages = ask("Go");
    let agent = changes(one()).on_approval(|_| std::future::pending());
    let agent = agent.limits(Limits { person_ms: Some(1_000), ..Limits::agent() }).build().unwrap();
    agent.chat(&mut messages).await.unwrap_err();
    assert!(texts(&messages)[0].starts_with("!Error: "), "{messages:?}");

    let question = ToolDeclaration::read("ask", "Asks the person who knows")
        .policy(ToolPolicy { asks_person: true, ..ToolPolicy::default() });
    let agent = Agent::new(Scripted::new([ScriptedReply::call("ask", target("colour")), says("Blue.")]))
        .tool(question, |_: Target| async {})
        .on_approval(|request| async move {
            assert!(request.is_question);
            PersonAnswer::Answered { text: "blue".into() }
        });
    let mut messages = ask("Which colour?");
    agent.build().unwrap().chat(&mut messages).await.unwrap();
    assert!(texts(&messages)[0].contains("blue"), "{messages:?}");
}

#[tokio::test(start_paused = true)]
async fn the_stream_has_text_tools_and_everything_else() {
    let agent = changes(wants_changes()).approve("change").reuse_results().build().unwrap();
    let mut run = agent.prompt("Go").events().await.unwrap();
    let (mut lines, mut entries) = (Vec::new(), 0);
    while let Some(event) = run.next().await {
        match &event {
            AgentEvent::Text { text, .. } => lines.push(text.to_string()),
            AgentEvent::Tool { tool, input, result } => {
                lines.push(format!("{tool} {input} {}", result.as_deref().unwrap_or("…")));
            }
            AgentEvent::Run(_) => entries += 1,
        }
        assert_eq!(event.clone().into_run().is_none(), matches!(event, AgentEvent::Tool { .. }));
    }
    let expected = [
        r#"change {"target":"a"} …"#,
        r#"change {"target":"a"} saw a"#,
        r#"change {"target":"b"} …"#,
        r#"change {"target":"b"} saw b"#,
        r#"look {"target":"c"} …"#,
        r#"look {"target":"c"} saw c"#,
        "Done.",
    ];
    assert_eq!(lines, expected);
    assert!(entries > 8, "{entries}");

    // What is refused is never run.
    let agent =
        changes([ScriptedReply::call("chnge", target("a")).and_call("look", target("b")), says("No.")])
            .build()
            .unwrap();
    let mut run = agent.prompt("Go").events().await.unwrap();
    let mut tools = Vec::new();
    while let Some(event) = run.next().await {
        if let AgentEvent::Tool { tool, result, .. } = event {
            tools.push((tool.to_string(), result.is_some()));
        }
    }
    assert_eq!(tools, [("look".to_owned(), false), ("look".to_owned(), true)]);
}

#[tokio::test(start_paused = true)]
async fn a_script_continues_behind_what_the_journal_has() {
    // C20
    let slow = |text: &str| ScriptedReply { delay_ms: 1_000, ..says(text) };
    let script = || scripted([looks(&["a"]), looks(&["b"]), slow("Done."), says("Of another run.")]);
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let agent = |model| {
        let builder = agents::conversation(&model, &Activity::default());
        builder.with_journal(Arc::clone(&journal)).build().unwrap()
    };
    let first = script();
    let died = tokio::time::timeout(Duration::from_millis(500), agent(Arc::clone(&first)).prompt("Go"));
    died.await.unwrap_err();
    let run = journal.runs().await.unwrap()[0].run.clone();
    // What was given and not heard is given again, by the script that gave it and by another.
    for model in [Arc::clone(&first), script()] {
        let recorded = journal.read(&run).await.unwrap();
        let copy = crate::common::world::journal_of(&recorded, &recorded.entries).await;
        let builder = agents::conversation(&model, &Activity::default()).with_journal(copy);
        let mut messages = Vec::new();
        let answer = builder.build().unwrap().chat(&mut messages).resume(&run).await.unwrap();
        assert_eq!((&*answer.text, &*shape(&messages), model.left()), ("Done.", "UCTCTA", 1));
        assert_eq!(answer.meta.reason(), StopReason::Completed);
    }
}

#[cfg(all(feature = "mcp", unix))]
mod mcp {
    use loop_runtime::agent::BuildError;
    use loop_runtime::tools::{Effect, McpServer};

    use super::*;

    const CLOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/clock.sh");

    fn clock() -> McpServer {
        McpServer::stdio(CLOCK, ["--24-hours"])
    }

    #[track_caller]
    fn check_refused(server: McpServer, expected: &str) {
        let error = Agent::new(Scripted::replies(["Hello."])).mcp(server).build().unwrap_err();
        assert!(matches!(error, BuildError::Mcp { .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
    }

    #[tokio::test]
    async fn tools_of_a_server_that_is_not_trusted_as_it_is_do_not_run() {
        let lock = clock().lock().await.unwrap();
        check_refused(clock(), "nothing of it is trusted; write what McpServer::lock gives");
        check_refused(clock().trusted("[tools]"), "its lock, line 1: it is not a file of trusted tools");
        check_refused(clock().trusted(r#"{"version": 9}"#), "written by a newer loopgate");
        check_refused(
            McpServer::stdio(CLOCK, ["--12-hours"]).trusted(&*lock),
            "its lock is of another server",
        );
        check_refused(
            clock().trusted(lock.replace("a city", "a town")),
            "edited by hand at the tool `time_in`",
        );
        let other = clock().trusted(&*lock).effect("time", Effect::Read);
        check_refused(other, "it has no tool `time` to have an effect; it has: time_in");
        check_refused(McpServer::stdio("no-such-program", [""]).trusted(&*lock), "no-such-program");

        // What is not declared needs consent, and what it returns is untrusted.
        let call = || [ScriptedReply::call("time_in", json!({"city": "Graz"})), says("Done.")];
        let agent = Agent::new(Scripted::new(call())).mcp(clock().trusted(&*lock)).build().unwrap();
        let mut messages = ask("Go");
        agent.chat(&mut messages).await.unwrap_err();
        assert!(texts(&messages)[0].contains("needs a person's consent"), "{messages:?}");
        let read = clock().trusted(&*lock).effect("time_in", Effect::Read);
        let agent = Agent::new(Scripted::new(call())).mcp(read).build().unwrap();
        let spec = &agent.runner().spec().tools[0];
        assert!(spec.policy.returns_untrusted && spec.effect.is_read(), "{spec:?}");
        let mut messages = ask("Go");
        agent.chat(&mut messages).await.unwrap();
        assert_eq!(texts(&messages), ["14:05"]);
    }
}

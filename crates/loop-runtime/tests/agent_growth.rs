//! A conversation that grows: what goes back unchanged, what is made shorter when it no longer fits, and the end of that.

use crate::agents;

use std::sync::Arc;

use agents::{
    Target, ask, assert_growing, assert_valid, look, looks, meta_of, results, says, scripted, shape, texts,
};
use loop_core::Note;
use loop_llm::request::AssistantTurn;
use loop_llm::scripted::ScriptedReply;
use loop_llm::{ChatModel, ModelRequest, Scripted};
use loop_runtime::{
    Agent, Message, StopReason,
    agent::{AgentBuilder, AgentError, AgentModel, Text},
    journal::MemoryJournal,
    models::ModelSpec,
    run::RunId,
    spec::Limits,
};
use serde_json::json;

/// A model into which so many tokens fit, and a tool that tells 1,500 bytes each time.
fn narrow(model: &Arc<Scripted>, context_tokens: u64) -> AgentBuilder<Text> {
    let client: Arc<dyn ChatModel> = model.clone();
    let spec = ModelSpec { context_tokens, max_output_tokens: 256, ..ModelSpec::new("scripted", "script") };
    Agent::new(AgentModel::from((client, spec)))
        .tool(look(), |it: Target, _| async move { Ok::<_, String>(long(&it.target)) })
        .limits(Limits { passes: 40, model_calls: 80, ..Limits::agent() })
        .no_cost_limit()
        .with_journal(Arc::new(MemoryJournal::new()))
}

fn long(target: &str) -> String {
    format!("saw {target} {}", "and more of it ".repeat(100))
}

/// A reply with a provider's own turn and reasoning.
fn opaque(n: usize) -> ScriptedReply {
    let raw = Some(json!({"signature": format!("sealed {n}")}));
    ScriptedReply { raw, reasoning: format!("thought {n}"), ..looks(&[&n.to_string()]) }
}

fn turns(messages: &[Message]) -> Vec<&AssistantTurn> {
    let turns = messages.iter().filter_map(|message| match message {
        Message::Assistant(turn) => Some(turn),
        _ => None,
    });
    turns.filter(|turn| !turn.calls.is_empty()).collect()
}

async fn compactions(agent: &Agent, run: &RunId) -> Vec<(u32, bool)> {
    let entries = agent.runner().journal().read(run).await.unwrap().entries;
    let notes = entries.into_iter().flat_map(|entry| entry.notes);
    let through = notes.filter_map(|note| match note {
        Note::Compacted { through, history } => Some((through, history)),
        _ => None,
    });
    through.collect()
}

/// Everything that a provider would read fits into so many tokens, at four bytes each.
#[track_caller]
fn assert_fitting(requests: &[ModelRequest], context_tokens: usize) {
    for request in requests {
        assert!(request.bytes() / 4 < context_tokens, "{} bytes", request.bytes());
        let mut begun = vec![];
        begun.extend(request.messages.iter().cloned());
        assert_valid(&begun);
    }
}

#[tokio::test]
async fn opaque_turns_go_back_as_they_came() {
    // I-17
    let model = scripted([opaque(1), opaque(2), says("Done."), says("Again.")]);
    let agent = narrow(&model, 100_000).build().unwrap();
    let mut messages = ask("Go");
    agent.chat(&mut messages).await.unwrap();
    messages.push(Message::user("And?"));
    agent.chat(&mut messages).await.unwrap();
    let requests = model.requests();
    assert_growing(&requests);
    let last = turns(&requests[3].messages);
    for (turn, n) in last.iter().zip(1..) {
        let raw = turn.raw.as_ref().unwrap();
        assert_eq!(
            (raw.origin(), raw.json()),
            ("scripted/script/script", &*format!(r#"{{"signature":"sealed {n}"}}"#))
        );
        assert_eq!(*turn.reasoning, format!("thought {n}"));
    }
    assert_eq!(last.len(), 2);
}

#[tokio::test]
async fn what_no_longer_fits_is_made_shorter_and_stays_whole_for_the_caller() {
    // I-17, S1-12
    const CONTEXT: u64 = 5_000;
    let model = scripted((0..12).map(opaque).chain([says("Done.")]));
    let agent = narrow(&model, CONTEXT).build().unwrap();
    let mut messages = ask("Go");
    let answer = agent.chat(&mut messages).await.unwrap();
    assert_eq!((&*answer.text, answer.meta.totals.passes), ("Done.", 13));
    let through = compactions(&agent, &answer.meta.run).await;
    assert!(!through.is_empty() && through.iter().all(|(_, history)| !history), "{through:?}");
    assert!(through.windows(2).all(|two| two[0].0 < two[1].0), "further each time: {through:?}");
    let requests = model.requests();
    assert_fitting(&requests, CONTEXT as usize);
    // Where it was made shorter another prefix begins, and nowhere else.
    let grows = |two: &&[ModelRequest]| two[1].messages.starts_with(&two[0].messages);
    let breaks = requests.windows(2).filter(|two| !grows(two)).count();
    assert!((1..=through.len()).contains(&breaks), "{breaks} {through:?}");
    // Of a pass that was made shorter, calls, names and numbers stay, and what only its provider can read does not.
    let last = &requests[12].messages;
    let (cut, all) = (through.last().unwrap().0 as usize, texts(last));
    for (n, (turn, text)) in turns(last).into_iter().zip(&all).enumerate() {
        if n < cut {
            assert!(
                text.starts_with(&format!("[E{}] look: ok — saw {n}", n + 1)) && text.len() < 300,
                "{text}"
            );
            assert!(turn.raw.is_none() && turn.reasoning.is_empty(), "{turn:?}");
        } else {
            assert_eq!(text.trim_end(), long(&n.to_string()).trim_end());
            assert!(turn.raw.is_some() && !turn.reasoning.is_empty(), "{turn:?}");
        }
    }
    assert!(cut < 12, "the newest are whole");
    // The caller's messages are all there is.
    assert!(turns(&messages).iter().all(|turn| turn.raw.is_some()));
    assert!(results(&messages).iter().all(|result| result.text.len() > 1_000));
    assert_valid(&messages);
}

#[tokio::test]
async fn where_even_that_does_not_fit_it_ends_and_says_so() {
    // S2-104
    let model = scripted([says("Never.")]);
    let agent = narrow(&model, 2_000).build().unwrap();
    let mut messages = vec![Message::user("word ".repeat(4_000))];
    let error = agent.chat(&mut messages).await.unwrap_err();
    let AgentError::Stopped { reason, explanation, meta } = &error else { panic!("{error:?}") };
    assert_eq!((*reason, &*error.code(), model.requests().len()), (StopReason::TokenLimit, "TOKEN_LIMIT", 0));
    assert!(explanation.contains("context"), "{explanation}");
    assert_eq!((meta.totals.model_calls, messages.len()), (0, 1));
    // Later on, with what there was.
    let model = scripted((0..8).map(|n| looks(&[&n.to_string(), &"x".repeat(300)])));
    let agent = narrow(&model, 2_200).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(meta_of(&error).reason(), StopReason::TokenLimit, "{error}");
    let passes = meta_of(&error).totals.passes;
    assert!(passes >= 2, "{passes}");
    assert_eq!(results(&messages).len() as u32, 2 * passes, "nothing that was paid for is lost");
    assert_valid(&messages);
}

#[tokio::test]
async fn the_limit_of_messages_may_count_a_turn_alone() {
    // S1-39: for a person who goes on, and not for a run that does.
    let model = scripted((0..4).flat_map(|_| [looks(&["x"]), says("Done.")]));
    let limits = Limits { messages: Some(6), ..Limits::agent() };
    let agent = narrow(&model, 100_000).limits(limits).build().unwrap();
    let runner = agent.runner().clone().counting_own_messages();
    let mut messages = Vec::new();
    for _ in 0..3 {
        messages.push(Message::user("Go"));
        let meta = runner.chat(&mut messages).events().await.unwrap().finish().await;
        assert_eq!(meta.reason(), StopReason::Completed);
    }
    assert_eq!(shape(&messages), "UCTA".repeat(3));
    // Counted as a whole they are too many.
    messages.push(Message::user("Go"));
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(meta_of(&error).reason(), StopReason::MaxMessages);
}

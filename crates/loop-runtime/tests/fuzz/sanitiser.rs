//! Text from outside: no control or direction characters are left, and no fence is closed by what is inside. I-24, K6.

use loop_core::types::is_clean;
use loop_core::{Command, EventKind};
use loop_prompts::{Dialogue, Prompts};
use loop_testkit::fuzz::{FuzzRun, NONCE, document, found};
use loop_tools::text::clean;

/// The bytes are a text of a tool.
pub(crate) fn target(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (cleaned, dropped) = clean(&text);
    assert!(cleaned.chars().all(is_clean), "{cleaned:?}");
    let (again, none) = clean(&cleaned);
    assert_eq!((&*again, none), (&*cleaned, 0), "cleaning is idempotent");
    assert!(dropped <= text.chars().count(), "{dropped}");
    assert!(cleaned.len() <= text.len(), "it grew");
    rendered(&text);
}

/// The prompt behind a result with this text.
fn rendered(text: &str) {
    let mut driven = FuzzRun::start(document());
    let contract = format!(
        "## 🔍 Situation\n\nIt is so.\n\n```json\n{{\"nonce\": \"{NONCE}\", \"analysis_confidence\": \"low\", \"ai_actions\": \
         [{{\"action_id\": \"a\", \"action_type\": \"look\", \"parameters\": {{\"target\": \"x\"}}, \"priority\": \"required\"}}]}}\n```\n"
    );
    assert!(driven.replied(&contract));
    for command in driven.run.commands() {
        if let Command::RunTool(tool) = command {
            let observation = found(text).into();
            driven.apply(EventKind::ToolFinished { key: tool.key, attempt: tool.attempt, observation });
        }
    }
    let next = driven.run.commands().into_iter().find_map(|command| match command {
        Command::CallModel(call) => Some(call.key),
        _ => None,
    });
    let prompt = Dialogue::default().prompt(&Prompts::builtin(), &driven.run, next.unwrap()).unwrap();
    // Two fences of one label are two closings: of the evidence, in the one turn that shows it.
    let close = format!("<<<end E1 {NONCE}>>>");
    let closed: usize = prompt.turns.iter().map(|turn| turn.text().matches(&close).count()).sum();
    assert_eq!(closed, 1, "the fence of the result is closed {closed} times: {:?}", prompt.turns);
    for turn in &prompt.turns {
        assert!(turn.text().chars().all(is_clean), "I-24: {:?}", turn.text());
    }
}

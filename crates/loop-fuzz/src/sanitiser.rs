//! Text from outside: no control or direction characters are left, and no fence is closed by what is inside. I-24, K6.

use loop_core::{EventKind, is_clean};
use loop_prompts::{Prompts, Thread};
use loop_tools::clean;

use crate::drive::{Driven, NONCE, document, found};

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
    let mut driven = Driven::start(document());
    let contract = format!(
        "## 🔍 Situation\n\nIt is so.\n\n```json\n{{\"nonce\": \"{NONCE}\", \"analysis_confidence\": \"low\", \"ai_actions\": \
         [{{\"action_id\": \"a\", \"action_type\": \"look\", \"parameters\": {{\"target\": \"x\"}}, \"priority\": \"required\"}}]}}\n```\n"
    );
    assert!(driven.replied(&contract));
    for command in driven.run.commands() {
        if let loop_core::Command::RunTool(tool) = command {
            let observation = found(text).into();
            driven.apply(EventKind::ToolFinished { key: tool.key, attempt: tool.attempt, observation });
        }
    }
    let prompts = Prompts::builtin();
    for turn in Thread::whole(&prompts, &driven.run) {
        let shown = format!("{turn:?}");
        let ends = shown.matches(&format!("<<<end E1 {NONCE}>>>")).count();
        assert!(ends <= 1, "a fence is closed {ends} times: {shown}");
    }
}

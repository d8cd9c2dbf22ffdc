//! `loopgate show RUN --html`: a run as a page.

use std::path::Path;
use std::process::ExitCode;

use loop_core::{Outcome, PassRecord, Run, StopClass};
use loop_eval::page::{Page, PageCell};
use loop_runtime::people::PeopleReport;
use loop_runtime::report::CallReport;
use loop_runtime::report::explain;

use crate::failure::Failure;
use crate::places::ReportFile;
use crate::run::bill;
use crate::show::{decided, person_lines, time, totals_so_far};

/// Writes the page of a run into a file.
pub(crate) fn written(path: &Path, state: &Run, people: &PeopleReport) -> Result<ExitCode, Failure> {
    if let Some(file) = ReportFile::open("--html", Some(path))? {
        file.write(&page(state, people))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(state: &Run, people: &PeopleReport) -> String {
    let started = state.started();
    let item = &started.item;
    let mut page = Page::new(
        &format!("{} {}: {}", item.kind, item.id, item.title),
        &format!("run {} of {}, {} UTC", started.run, state.spec().domain, time(started.unix_ms)),
    );
    match state.outcome() {
        Some(outcome) => {
            let stop = &outcome.stop;
            let why = format!("{} ({}). {}", stop.reason(), stop.class.name(), explain(stop));
            page.verdict(&why, stop.class == StopClass::Answered);
            page.paragraph(&bill(&outcome.totals));
            if !outcome.missing.is_empty() {
                let missing: Vec<&str> = outcome.missing.iter().map(AsRef::as_ref).collect();
                page.verdict(&format!("missing: {}", missing.join(", ")), false);
            }
            result(&mut page, outcome);
        }
        None => {
            page.verdict(&format!("not ended: {}", state.phase().name()), false);
            page.paragraph(&bill(&totals_so_far(state)));
            page.heading("Document so far");
            page.markdown(&state.document().to_markdown());
        }
    }
    models(&mut page, state);
    passes(&mut page, state);
    actions(&mut page, state, people);
    evidence(&mut page, state);
    if !people.is_empty() {
        page.heading("People");
        page.list(person_lines(people));
    }
    conditions(&mut page, state);
    page.finish()
}

/// The document, the answer or the value that the run ended with.
fn result(page: &mut Page, outcome: &Outcome) {
    if let Some(answer) = &outcome.answer {
        page.heading("Answer");
        return page.markdown(answer);
    }
    let Some(output) = &outcome.output else {
        page.heading("Document");
        return page.markdown(&outcome.document.to_markdown());
    };
    page.heading("Output");
    if !output.valid {
        let why = outcome.rejection.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        page.verdict(&format!("invalid{why}"), false);
    }
    let value = serde_json::from_str::<serde_json::Value>(&output.value);
    let pretty = value.ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    page.preformatted(pretty.as_deref().unwrap_or(&output.value));
}

/// Which models wrote it.
fn models(page: &mut Page, state: &Run) {
    page.heading("Written by");
    let calls = state.model_calls();
    let rows = calls.iter().map(CallReport::new).map(|call| {
        let served = call.served_model.filter(|served| *served != call.model).unwrap_or_default();
        let served = if call.other_model { PageCell::bad(served) } else { PageCell::text(served) };
        vec![
            PageCell::text(call.call),
            PageCell::number(call.attempt),
            PageCell::text(call.tier),
            PageCell::text(format!("{} {}", call.provider, call.model)),
            served,
        ]
    });
    page.table(&["call", "try", "tier", "model", "served by"], rows);
}

fn passes(page: &mut Page, state: &Run) {
    page.heading("Passes");
    let confidence = |pass: &PassRecord| match state.spec().protocol.properties().states_confidence {
        true => pass.confidence.name(),
        false => "",
    };
    let rows = state.passes().iter().map(|pass| {
        vec![
            PageCell::number(pass.pass),
            PageCell::text(pass.tier.name()),
            PageCell::text(confidence(pass)),
            PageCell::text(pass.changed.join(", ")),
            PageCell::text(if pass.final_pass { "final pass" } else { "" }),
        ]
    });
    page.table(&["pass", "tier", "confidence", "changed", ""], rows);
}

fn actions(page: &mut Page, state: &Run, people: &PeopleReport) {
    page.heading("Actions");
    let rows = state.actions().iter().map(|action| {
        vec![
            PageCell::text(action.key.to_string()),
            PageCell::text(action.tool_name()),
            PageCell::text(&*action.parameters.to_string()),
            PageCell::text(action.verdict.name()),
            PageCell::text(decided(state, action, people)),
        ]
    });
    page.table(&["action", "tool", "parameters", "verdict", "why"], rows);
}

fn evidence(page: &mut Page, state: &Run) {
    page.heading("Evidence");
    let rows = state.evidence().iter().map(|evidence| {
        let observation = &evidence.observation;
        let status = observation.status.name();
        vec![
            PageCell::text(evidence.id.to_string()),
            PageCell::text(&*evidence.tool),
            PageCell::text(&*evidence.parameters.to_string()),
            PageCell::text(status),
            PageCell::text(&*observation.summary),
            PageCell::number(evidence.pass),
        ]
    });
    page.table(&["id", "tool", "parameters", "status", "summary", "pass"], rows);
}

fn conditions(page: &mut Page, state: &Run) {
    let Some(outcome) = state.outcome() else { return };
    page.heading("Conditions at the stop");
    let rows = std::iter::once(&outcome.stop.primary).chain(&outcome.stop.also).map(|condition| {
        let text = |part: &Option<_>| part.as_ref().map_or_else(String::new, ToString::to_string);
        let change = condition.change.as_ref().map_or_else(String::new, ToString::to_string);
        vec![
            PageCell::text(condition.reason.to_string()),
            PageCell::text(condition.value.to_string()),
            PageCell::text(text(&condition.threshold)),
            PageCell::text(change),
        ]
    });
    page.table(&["condition", "value", "threshold", "would have continued with"], rows);
}

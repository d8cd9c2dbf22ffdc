//! `loopgate report`: one run for an auditor, on one page.

use std::path::PathBuf;
use std::process::ExitCode;

use loop_core::types::PicoUsd;
use loop_inspect::RunReport;
use loop_inspect::report::{ApprovalRecord, EffectUse, EvidenceUse, ModelUse};
use loop_runtime::report::counted;
use loop_server::pages::{self, ReportPart};

use crate::args::{RecordedArgs, ReportArgs};
use crate::context::places::ReportFile;
use crate::history::in_words_of;
use crate::output::{Failure, cut, grouped, row, stream, time};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It answers: what did it cost, why did it stop, what did it do and read, who approved what, under which policy, \
                  and is the record whole. For the document: `loopgate show RUN`.\n\nExit codes: 0 the record is whole, \
                  1 it is not, or there is no such run, 2 wrong usage."
)]
pub(crate) struct ReportCommandArgs {
    #[command(flatten)]
    of: RecordedArgs,
    /// Write it as a page instead of printing it: one file, which loads nothing and can be printed
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
    #[command(flatten)]
    json: ReportArgs,
}

pub(crate) async fn report(args: ReportCommandArgs) -> Result<ExitCode, Failure> {
    let (_, line, recorded) = args.of.open().await?;
    let report = RunReport::of(&line.run, &recorded)?;
    let title = format!("Run {} of {}: {} {}", report.run, report.domain, report.item.kind, report.item.id);
    match ReportFile::open("--html", args.html.as_deref())? {
        Some(file) => {
            file.write(&pages::report(&title, &parts(&report)))?;
            stream::note(format!("written: {}", args.html.unwrap_or_default().display()));
        }
        None => args.json.print(&report, || in_words(&title, &parts(&report)))?,
    }
    Ok(if report.verify.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn in_words(title: &str, parts: &[ReportPart]) -> String {
    let mut text = String::new();
    row(&mut text, title);
    for ReportPart { title, entries } in parts {
        text.push('\n');
        row(&mut text, &format!("{title}:"));
        for (entry, lines) in entries {
            row(&mut text, &format!("  {entry}"));
            lines.iter().for_each(|line| row(&mut text, &format!("    {line}")));
        }
    }
    text
}

/// How many characters of parameters and of texts are shown; the JSON has them whole.
const MAX_CHARS: usize = 400;

fn parts(report: &RunReport) -> Vec<ReportPart> {
    let entry = |text: String| (text, Vec::new());
    let part = |title, entries: Vec<_>, none: &str| ReportPart {
        title,
        entries: if entries.is_empty() { vec![entry(none.to_owned())] } else { entries },
    };
    let RunReport { totals, policy, .. } = report;
    let mut run = vec![
        entry(cut(&report.item.title, MAX_CHARS)),
        entry(format!("begun {} UTC by {}", time(report.begun_unix_ms), report.program)),
    ];
    run.extend(report.instructions.iter().map(|it| {
        let text = cut(&it.text, MAX_CHARS);
        entry(format!("instruction of a person at {} UTC, from pass {} on: {text}", time(it.unix_ms), it.from_pass))
    }));
    let stop = report.stop.iter().map(|stop| {
        let also = stop.conditions.iter().map(|it| match &it.threshold {
            Some(threshold) => format!("{}: {} against {threshold}", it.reason, it.value),
            None => format!("{}: {}", it.reason, it.value),
        });
        (format!("{} ({}). {}", stop.reason, stop.class, stop.explanation), also.collect())
    });
    let cost = match totals.cost_usd {
        Some(_) => PicoUsd(totals.cost_pico_usd).to_string(),
        None => format!("{} and calls whose price is not known", PicoUsd(totals.cost_pico_usd)),
    };
    let mut spent = vec![entry(format!(
        "{cost}: {}, {}, {}, {}{}",
        counted(totals.passes, "pass"),
        counted(totals.model_calls, "model call"),
        counted(totals.tool_calls, "tool call"),
        counted(totals.tokens, "token"),
        if totals.estimated { " (in part estimated)" } else { "" },
    ))];
    spent.extend(report.models.iter().map(model));
    let mut decided = vec![entry(format!("digest {}", policy.digest))];
    decided.extend((!policy.label.is_empty()).then(|| entry(format!("label {}", policy.label))));
    decided.push(entry(format!("domain {} {}", report.domain, policy.domain_hash)));
    let set = |it: &loop_runtime::report::OverriddenReport| format!("set by the caller: {} = {}", it.setting, it.value);
    decided.extend(policy.overridden.iter().map(set).map(entry));
    let verified = in_words_of(&report.verify);
    let verified = verified.lines().map(|line| entry(line.trim().to_owned())).collect();
    vec![
        part("Work item", run, ""),
        part("Why it stopped", stop.collect(), "it has not ended"),
        part("What it cost", spent, ""),
        part("What it did", report.effects.iter().map(effect).collect(), "nothing but reads"),
        part("Who approved what", report.approvals.iter().map(approval).collect(), "no person was asked"),
        part("Under which policy", decided, ""),
        part("What it read", report.evidence.iter().map(evidence).collect(), "nothing but the work item"),
        part("Whether the record is whole: chain, decisions, invariants", verified, ""),
    ]
}

fn model(it: &ModelUse) -> (String, Vec<String>) {
    let ModelUse { tier, provider, model, served, calls, input_tokens, output_tokens, .. } = it;
    let cost = it.cost_usd.map_or_else(|| "price not known".to_owned(), |_| PicoUsd(it.cost_pico_usd).to_string());
    let tokens = format!("{} input and {} output tokens", grouped(*input_tokens), grouped(*output_tokens));
    let mut lines = vec![format!("calls {}", calls.join(", "))];
    lines.extend((!served.is_empty()).then(|| format!("served by {}", served.join(", "))));
    (format!("{tier} {provider} {model}: {cost}, {}, {tokens}", counted(calls.len() as u64, "call")), lines)
}

fn effect(it: &EffectUse) -> (String, Vec<String>) {
    let EffectUse { effect, connects_to, status, summary, action } = it;
    let ended = status.as_deref().unwrap_or("did not run");
    let mut lines: Vec<String> = connects_to.iter().map(|place| format!("target: {place}")).collect();
    lines.push(format!("parameters: {}", cut(&action.parameters.to_string(), MAX_CHARS)));
    lines.push(format!("verdict {}: {}", action.verdict, action.verdict_reason));
    let number = action.evidence.as_deref().unwrap_or_default();
    lines.extend(summary.iter().map(|summary| format!("result {number}: {}", cut(summary, MAX_CHARS))));
    (format!("{} {} ({effect}): {ended}", action.key, action.tool), lines)
}

fn approval(it: &ApprovalRecord) -> (String, Vec<String>) {
    let request = &it.request;
    let answer = request.answer.as_deref().unwrap_or("not answered");
    let at = request.answered_unix_ms.map_or_else(String::new, |at| format!(" at {} UTC", time(at)));
    let mut lines = vec![format!("parameters: {}", cut(&request.parameters.to_string(), MAX_CHARS))];
    for by in &request.approvers {
        let account = if by.account.is_empty() { "an account that was not checked" } else { &by.account };
        let user = if by.user.is_empty() { String::new() } else { format!(" ({})", by.user) };
        let claim = by.unverified_claim.iter().map(|claim| format!(", who claims to be {claim} (not checked)"));
        lines.push(format!("by {account}{user}{} at {} UTC", claim.collect::<String>(), time(by.unix_ms)));
    }
    if request.approvers.is_empty() && request.answer.as_deref() == Some("approved") {
        lines.push("by whoever may write the journal: no account was checked".to_owned());
    }
    lines.extend(request.text.iter().map(|text| format!("text: {}", cut(text, MAX_CHARS))));
    lines.push(format!("asked at {} UTC because: {}", time(request.requested_unix_ms), request.why));
    lines.push(format!("binding {}", it.binding));
    (format!("{} {}: {answer}{at}", request.action, request.tool), lines)
}

fn evidence(it: &EvidenceUse) -> (String, Vec<String>) {
    let EvidenceUse { id, tool, connects_to, parameters, status, summary, untrusted, private, digest } = it;
    let marks = [(*untrusted, " untrusted"), (*private, " private")];
    let marks: String = marks.iter().filter_map(|(is_so, mark)| is_so.then_some(*mark)).collect();
    let mut lines: Vec<String> = connects_to.iter().map(|place| format!("from: {place}")).collect();
    lines.push(format!("parameters: {}", cut(&parameters.to_string(), MAX_CHARS)));
    lines.push(format!("{}; digest {digest}", cut(summary, MAX_CHARS)));
    (format!("{id} {tool}: {status}{marks}"), lines)
}

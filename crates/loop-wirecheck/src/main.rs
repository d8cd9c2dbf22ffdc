//! `cargo xtask wire FILE.jsonl`: our codecs against recorded exchanges with providers. See `docs/reference/recorded-exchanges.md`.
#![expect(clippy::print_stderr, reason = "printing is what this binary is for")]

mod anthropic;
mod canon;
mod chat;
mod decoding;
mod exceptions;
mod exchange;
mod expected;
mod flags;
mod gemini;
mod judge;
mod options;
mod replay;
mod report;
mod request;
mod responses;
mod target;
#[cfg(test)]
mod tests;
mod workspace;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use loop_llm::{Api, Codec, ModelReply, ModelRequest};

use self::decoding::Decoded;
use self::exceptions::Row;
use self::exchange::Exchange;
use self::judge::{Column, Difference, Findings};
use self::replay::{Replayed, Step};
use self::report::{Judged, Report};
use self::request::{Encoded, Neutral};
use crate::workspace::Failure;

fn main() -> ExitCode {
    let flags = match flags::Wirecheck::from_vec(dashes_last(std::env::args_os().skip(1))) {
        Ok(flags) => flags,
        Err(error) => error.exit(),
    };
    match run(&flags.files, flags.differences, flags.json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Check(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Arguments with each `-` at the end, after `--`: only there it is taken for a name.
fn dashes_last(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (dashes, mut others): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument == OsStr::new("-"));
    if !dashes.is_empty() {
        others.push("--".into());
        others.extend(dashes);
    }
    others
}

/// Compares all exchanges of `files`, of which `-` is what comes in, and prints what came out.
///
/// # Errors
/// A file that cannot be read, or nothing in it that is ours: as a wrong command line. A difference: as a failed check.
fn run(files: &[PathBuf], differences: Option<usize>, as_json: bool) -> Result<(), Failure> {
    if files.is_empty() {
        return Err(Failure::Usage("name a file of exchanges, or `-`".to_owned()));
    }
    let mut exchanges = Vec::new();
    for file in files {
        let name = file.display().to_string();
        exchanges.extend(exchange::read(&name, &text(file)?).map_err(Failure::Usage)?);
    }
    let report = compare(&exchanges, &exceptions::load()?);
    let max = differences.unwrap_or(10);
    let lines = if as_json { vec![format!("{:#}", report.json(max))] } else { report.text(max) };
    workspace::print_lines(&lines);
    verdict(&report)
}

fn text(file: &Path) -> Result<String, Failure> {
    let failed = |what: &dyn std::fmt::Display| Failure::Usage(format!("{}: {what}", file.display()));
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    } else {
        bytes = std::fs::read(file).map_err(|error| failed(&error))?;
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::Usage(format!("{}:{line}: is no UTF-8", file.display()))
    })
}

fn verdict(report: &Report) -> Result<(), Failure> {
    let sums = report.sums();
    if sums.of == 0 {
        return Err(Failure::Usage(format!(
            "nothing was compared: of {} exchanges none is of a protocol of ours",
            sums.unsupported
        )));
    }
    if sums.differ > 0 {
        return Err(Failure::Check(format!("wire: {} of {} exchanges differ", sums.differ, sums.of)));
    }
    if sums.unjudged == sums.of {
        return Err(Failure::Usage(
            "nothing was compared: no exchange says what should be understood".to_owned(),
        ));
    }
    Ok(())
}

/// One exchange on its way.
struct Work<'a> {
    exchange: &'a Exchange,
    api: Api,
    codec: Codec,
    neutral: Option<Neutral>,
    lacks: BTreeSet<String>,
    decoded: Decoded,
    findings: Option<Findings>,
    notes: Vec<String>,
}

fn compare(exchanges: &[Exchange], rows: &[Row]) -> Report {
    compare_with(exchanges, rows, &decoding::decode)
}

/// The same with another way to decode, which tests break.
fn compare_with(
    exchanges: &[Exchange],
    rows: &[Row],
    decode: &dyn Fn(&Exchange, &Codec, &ModelRequest) -> Decoded,
) -> Report {
    let mut report = Report::default();
    let mut works: Vec<Work<'_>> = Vec::new();
    for exchange in exchanges {
        match target::api(exchange) {
            Some(api) => works.push(work(exchange, api, decode)),
            None => *report.unsupported.entry(exchange.endpoint.clone()).or_default() += 1,
        }
    }
    replay_all(&mut works);
    let mut is_used = vec![false; rows.len()];
    for work in &works {
        report.judged.push(judged(work, rows, &mut is_used));
    }
    for (row, is_used) in rows.iter().zip(is_used) {
        let Some(work) = works.iter().find(|work| work.exchange.id == row.id) else { continue };
        if !row.is_in(work.exchange) {
            report.exceptions.push(format!(
                "exception void, its bytes are not in the recording: {} {}",
                row.id, row.field
            ));
        } else if !is_used {
            report.exceptions.push(format!("exception not needed any more: {} {}", row.id, row.field));
        } else {
            report.exceptions.push(format!("exception: {} {}: {}", row.id, row.field, row.why));
        }
    }
    report
}

fn work<'a>(
    exchange: &'a Exchange,
    api: Api,
    decode: &dyn Fn(&Exchange, &Codec, &ModelRequest) -> Decoded,
) -> Work<'a> {
    let codec = Codec::new(target::profile(api, exchange));
    let mut lacks = BTreeSet::new();
    let neutral = match request::read(api, &codec, exchange) {
        Ok(neutral) => Some(neutral),
        Err(_) if exchange.request.is_none() => None,
        Err(why) => {
            lacks.insert(why);
            None
        }
    };
    let fallback = ModelRequest { model: exchange.model.as_str().into(), ..ModelRequest::default() };
    let requested = neutral.as_ref().map_or(&fallback, |neutral| &neutral.request);
    let decoded = decode(exchange, &codec, requested);
    let mut findings = judge::judge(api, exchange, &decoded);
    if findings.is_none() && !decoded.faults.is_empty() {
        let faults = decoded
            .faults
            .iter()
            .map(|fault| Difference::new("decoded", "one reply however it is cut", fault));
        findings.get_or_insert_default().add(Column::Decoded, faults);
    }
    if let Some(neutral) = &neutral {
        lacks.extend(neutral.lacks.iter().cloned());
        let stated = request::compare(api, &codec, neutral, &mut lacks);
        let differences = match stated {
            Encoded::Compared(differences) => differences,
            Encoded::NotAtAll => Vec::new(),
        };
        if let Some(findings) = &mut findings {
            findings.add(Column::Request, differences);
        } else if !differences.is_empty() {
            findings.get_or_insert_default().add(Column::Request, differences);
        }
    } else if let (Some(findings), false) = (&mut findings, lacks.is_empty()) {
        findings.add(Column::Request, None);
    }
    Work { exchange, api, codec, neutral, lacks, decoded, findings, notes: Vec::new() }
}

/// Each reply into the next request of its conversation.
fn replay_all(works: &mut [Work<'_>]) {
    let conversation = |work: &Work<'_>| {
        let id = &work.exchange.id;
        id.rsplit_once('#').map_or_else(|| id.clone(), |(name, _)| name.to_owned())
    };
    for at in 0..works.len() {
        let (head, tail) = works.split_at_mut(at + 1);
        let Some(first) = head.last_mut() else { continue };
        let Some(reply) = reply(&first.decoded) else { continue };
        let Some(neutral) = &first.neutral else { continue };
        let step = Step { api: first.api, codec: &first.codec, neutral };
        let mut following = tail.iter().take_while(|next| conversation(next) == conversation(first));
        let replayed = following.find_map(|next| {
            let next = Step { api: next.api, codec: &next.codec, neutral: next.neutral.as_ref()? };
            Some(replay::replay(step, reply, &first.exchange.body, next))
                .filter(|replayed| *replayed != Replayed::NotThere)
        });
        match replayed {
            Some(Replayed::Compared(differences, notes)) => {
                first.findings.get_or_insert_default().add(Column::Replay, differences);
                first.notes = notes;
            }
            Some(Replayed::Mixed) => first.notes = vec!["calls that the client put into the turn".to_owned()],
            Some(Replayed::NotThere) | None => {}
        }
    }
}

fn reply(decoded: &Decoded) -> Option<&ModelReply> {
    decoded.end.as_ref()?.as_ref().ok()
}

/// The outcome, without the differences that a row excuses.
fn judged(work: &Work<'_>, rows: &[Row], is_used: &mut [bool]) -> Judged {
    let mut findings = work.findings.clone();
    let mut excused = Vec::new();
    for (column, differences) in findings.iter_mut().flat_map(|findings| &mut findings.columns) {
        differences.retain(|difference| {
            let mut row = rows.iter().zip(is_used.iter_mut()).filter(|(row, _)| {
                row.id == work.exchange.id && row.field == difference.field && row.is_in(work.exchange)
            });
            match row.next() {
                Some((_, is_used)) => {
                    *is_used = true;
                    excused.push(*column);
                    false
                }
                None => true,
            }
        });
    }
    let mut features = work.exchange.features.clone();
    features.extend(
        work.neutral.iter().flat_map(|it| it.request.extra.keys().map(|key| format!("own member: {key}"))),
    );
    Judged {
        id: work.exchange.id.clone(),
        place: work.exchange.place.clone(),
        provider: work.exchange.provider.clone(),
        api: work.api.name(),
        is_streamed: work.exchange.is_streamed,
        features,
        findings,
        lacks: work.lacks.clone(),
        notes: work.notes.clone(),
        excused,
    }
}

//! The values of a document that are in no evidence, for people.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

use loop_claims::{Claim, ClaimTotals, Grounding};
use loop_core::reply::Document;
use loop_runtime::report::marked;

use crate::output::one_line;

/// How many values are named; the rest is counted.
const MAX_NAMED: usize = 5;

/// The document as it is printed: with marks at a terminal, and as it is for a program.
pub(crate) fn shown<'a>(document: &'a Document, claims: &[Claim]) -> Cow<'a, Document> {
    match std::io::stdout().is_terminal() {
        true => Cow::Owned(marked(document, claims)),
        false => Cow::Borrowed(document),
    }
}

/// How many values are where, and which are nowhere, in a line. `None`: there are none.
pub(crate) fn line(claims: &[Claim]) -> Option<String> {
    let ClaimTotals { grounded, elsewhere, ungrounded } = ClaimTotals::of(claims);
    if claims.is_empty() {
        return None;
    }
    let mut line =
        format!("{grounded} in the cited evidence, {elsewhere} elsewhere, {ungrounded} in no evidence");
    let nowhere: Vec<&Claim> = claims.iter().filter(|claim| claim.state == Grounding::Ungrounded).collect();
    for (at, claim) in nowhere.iter().take(MAX_NAMED).enumerate() {
        let sign = if at == 0 { ":" } else { "," };
        let _ = write!(line, "{sign} \"{}\" ({})", one_line(&claim.value), claim.section);
    }
    if nowhere.len() > MAX_NAMED {
        let _ = write!(line, " and {} more", nowhere.len() - MAX_NAMED);
    }
    Some(line)
}

/// Every value that is not in the cited evidence, a line each. Empty if there are none.
pub(crate) fn list(claims: &[Claim]) -> String {
    let mut text = String::new();
    for claim in claims.iter().filter(|claim| claim.state != Grounding::Grounded) {
        if text.is_empty() {
            text.push_str("\nValues that are not in the cited evidence:\n\n");
        }
        let evidence: Vec<String> = claim.evidence.iter().map(ToString::to_string).collect();
        let stands = match evidence.is_empty() {
            true => "in no evidence".to_owned(),
            false => format!("only in {}", evidence.join(", ")),
        };
        let (section, kind, value) = (&claim.section, claim.kind.name(), one_line(&claim.value));
        let _ = writeln!(text, "- {section}: {kind} \"{value}\", {stands}");
    }
    text
}

//! The claims of a document for people: which values are found in the evidence, contradicted or not checked.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

use loop_claims::{Claim, ClaimTotals, Grounding};
use loop_core::reply::Document;
use loop_runtime::report::marked;

use crate::output::one_line;

/// The most values that are named. The rest is counted.
const MAX_NAMED: usize = 5;

/// The document to print: with marks at a terminal, and unchanged for a program.
pub(crate) fn shown<'a>(document: &'a Document, claims: &[Claim]) -> Cow<'a, Document> {
    match std::io::stdout().is_terminal() {
        true => Cow::Owned(marked(document, claims)),
        false => Cow::Borrowed(document),
    }
}

/// The number of values in each state, and the contradicted ones, in a line. `None`: there are no values.
pub(crate) fn line(claims: &[Claim]) -> Option<String> {
    let ClaimTotals { found, contradicted, not_checked } = ClaimTotals::of(claims);
    if claims.is_empty() {
        return None;
    }
    let mut line = format!("{found} found, {contradicted} contradicted, {not_checked} not checked");
    let mut wrong = claims.iter().filter(|claim| claim.state == Grounding::Contradicted);
    for (at, claim) in wrong.by_ref().take(MAX_NAMED).enumerate() {
        let sign = if at == 0 { ":" } else { "," };
        let _ = write!(line, "{sign} \"{}\" ({})", one_line(&claim.value), claim.section);
    }
    let more = wrong.count();
    if more > 0 {
        let _ = write!(line, " and {more} more");
    }
    Some(line)
}

/// Each value that is contradicted or not checked, a line each with the reason. Empty if there are none.
pub(crate) fn list(claims: &[Claim]) -> String {
    let mut text = String::new();
    for (state, heading) in [
        (Grounding::Contradicted, "Values that the evidence contradicts"),
        (Grounding::NotChecked, "Values that were not checked"),
    ] {
        for (at, claim) in claims.iter().filter(|claim| claim.state == state).enumerate() {
            if at == 0 {
                let _ = write!(text, "\n{heading}:\n\n");
            }
            let evidence: Vec<String> = claim.evidence.iter().map(ToString::to_string).collect();
            let place =
                if evidence.is_empty() { String::new() } else { format!(" ({})", evidence.join(", ")) };
            let (section, kind, value) = (&claim.section, claim.kind.name(), one_line(&claim.value));
            let _ = writeln!(text, "- {section}: {kind} \"{value}\": {}{place}", one_line(&claim.why));
        }
    }
    text
}

//! `loopgate diff`: compares two runs.

use std::path::PathBuf;
use std::process::ExitCode;

use loop_inspect::diff::{RunDiff, ValueDiff};
use loop_runtime::journal::Journal;

use crate::args::{JournalArgs, ReportArgs};
use crate::context::{find, places, prompts_of, unverified};
use crate::output::{Failure, cut, row};

pub(crate) async fn diff(args: DiffArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let other = match &args.journal_b {
        Some(path) => places::existing_journal(&JournalArgs { journal: Some(path.clone()) })?,
        None => journal.clone(),
    };
    let a = find(journal.as_ref(), &args.a).await?.run;
    let b = find(other.as_ref(), &args.b).await?.run;
    let (recorded_a, recorded_b) = (journal.read(&a).await?, other.read(&b).await?);
    unverified(&a, &recorded_a);
    unverified(&b, &recorded_b);
    let mut diff = RunDiff::of((&a, &recorded_a), (&b, &recorded_b))?;
    let prompts = (prompts_of(journal, &recorded_a), prompts_of(other, &recorded_b));
    if let (Some(of_a), Some(of_b)) = prompts {
        diff = diff.with_prompts((&a, &recorded_a, &of_a), (&b, &recorded_b, &of_b));
    }
    args.json.print(&diff, || in_words(&diff))?;
    Ok(if diff.equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The most characters of a value.
const MAX_VALUE_CHARS: usize = 160;

fn in_words(diff: &RunDiff) -> String {
    let mut text = String::new();
    row(&mut text, &format!("- {}", diff.a));
    row(&mut text, &format!("+ {}", diff.b));
    if diff.equal {
        row(&mut text, "nothing differs but ids and times");
        return text;
    }
    for (title, values) in
        [("Work item", &diff.item), ("Versions", &diff.versions), ("Settings", &diff.settings)]
    {
        section(&mut text, title, values);
    }
    for pass in &diff.passes {
        let title = if pass.pass == 0 { "Before pass 1".to_owned() } else { format!("Pass {}", pass.pass) };
        section(&mut text, &title, &pass.differences);
    }
    section(&mut text, "Evidence", &diff.evidence);
    for change in &diff.document {
        row(&mut text, "");
        row(&mut text, &format!("Document, `{}`:", change.name));
        change.lines.iter().for_each(|line| row(&mut text, &format!("  {line}")));
    }
    if !diff.prompts.is_empty() {
        let calls: Vec<&str> = diff.prompts.iter().map(|change| change.name.as_str()).collect();
        row(&mut text, "");
        row(&mut text, "Prompts (--json has them word by word):");
        row(&mut text, &format!("  {}", cut(&calls.join(", "), MAX_VALUE_CHARS)));
    }
    section(&mut text, "Used", &diff.totals);
    section(&mut text, "Stop", &diff.stop);
    text
}

fn section(text: &mut String, title: &str, values: &[ValueDiff]) {
    if values.is_empty() {
        return;
    }
    row(text, "");
    row(text, &format!("{title}:"));
    for ValueDiff { name, a, b } in values {
        let shown = |value: &Option<String>| {
            value.as_ref().map_or_else(|| "(none)".to_owned(), |value| cut(value, MAX_VALUE_CHARS))
        };
        row(text, &format!("  {}: {} -> {}", cut(name, MAX_VALUE_CHARS), shown(a), shown(b)));
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ids, nonces and times never count as a difference.\n\nExit codes: 0 nothing differs, 1 something does, or a \
                  run could not be read, 2 wrong usage."
)]
pub(crate) struct DiffArgs {
    /// The first run: its id, the beginning of one, or `last`
    pub(crate) a: String,
    /// The second run
    pub(crate) b: String,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// The journal of the second run [default: that of the first]
    #[arg(long, value_name = "FILE")]
    pub(crate) journal_b: Option<PathBuf>,
}

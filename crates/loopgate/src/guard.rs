//! `loopgate guard`: policies of repeats over recorded trajectories.

use std::process::ExitCode;

use loop_eval::guard::{Policy, Table, ToolEffects, Trajectories, page};

use crate::args::GuardArgs;
use crate::failure::Failure;
use crate::places::ReportFile;
use crate::stream;

pub(crate) fn score(args: &GuardArgs) -> Result<ExitCode, Failure> {
    let effects = args.effects.as_deref().map(ToolEffects::read_file).transpose()?.unwrap_or_default();
    let html = ReportFile::open("--html", args.html.as_deref())?;
    let policies = if args.policies.is_empty() { &Policy::DEFAULT } else { &*args.policies };
    let mut table = Table::new(policies, effects, args.details);
    let mut runs = 0_u64;
    // What cannot be scored is reported, and what can be is scored all the same.
    let mut is_whole = true;
    let mut leave_out = |problem: &dyn std::fmt::Display| {
        is_whole = false;
        Failure::new(problem).report();
    };
    for file in &args.files {
        let lines = match Trajectories::open(file) {
            Ok(lines) => lines,
            Err(problem) => {
                leave_out(&problem);
                continue;
            }
        };
        for run in lines {
            match run {
                Ok(run) if args.split.is_none_or(|split| run.split == Some(split)) => {
                    runs += 1;
                    table.add(&run);
                }
                Ok(_) => {}
                Err(problem) => leave_out(&problem),
            }
        }
    }
    if runs == 0 {
        let files: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
        let which = if args.split.is_some() { "no run of this split" } else { "no run" };
        leave_out(&format!("{}: there is {which}", files.join(", ")));
    }
    let table = table.finish();
    match args.json {
        true => stream::print_json(&format!("{}\n", serde_json::to_string_pretty(&table.to_json())?)),
        false if args.details => stream::print(&format!("{table}\n{}", table.details())),
        false => stream::print(&table.to_string()),
    }
    if let Some(file) = html {
        file.write(&page(&table))?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

//! The settings that are tried: those that end a run earlier, with the values that recorded runs make sense of.

use loop_core::Totals;

/// A setting with a value, as a domain file writes both.
pub(super) type Set = (String, String);

/// How many values of a limit are tried: the deciles of what the runs used.
const STEPS: usize = 10;

/// The values to try, each a change of one setting or of two that belong together. `used` is what each recorded run used.
pub(super) fn single_changes(used: &[Totals]) -> Vec<Vec<Set>> {
    let mut changes: Vec<Vec<Set>> = Vec::new();
    let mut one = |key: &str, value: String| changes.push(vec![(key.to_owned(), value)]);
    let most = used.iter().map(|totals| totals.passes).max().unwrap_or_default();
    (1..most).for_each(|passes| one("limits.passes", passes.to_string()));
    for cost in steps(used.iter().map(|totals| totals.cost.known.0)) {
        // Rounded up to a millionth of a dollar, as amounts are shown.
        let micro = cost.div_ceil(1_000_000);
        one("limits.cost_usd", format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000));
    }
    for calls in steps(used.iter().map(|totals| u64::from(totals.tool_calls))) {
        one("limits.tool_calls", calls.to_string());
    }
    for calls in steps(used.iter().map(|totals| u64::from(totals.model_calls))) {
        one("limits.model_calls", calls.to_string());
    }
    for (key, values) in FIXED {
        values.iter().for_each(|value| one(key, (*value).to_owned()));
    }
    // Without its final pass a run ends where the change ends it, and that end is in the journal.
    let without = |change: &Vec<Set>| {
        let mut change = change.clone();
        change.push((FINAL_PASS.to_owned(), "false".to_owned()));
        change
    };
    let ended: Vec<Vec<Set>> = changes.iter().map(without).collect();
    changes.extend(ended);
    changes
}

const FINAL_PASS: &str = "gate.final_pass";

/// Settings of the gate with the values that are tried.
const FIXED: [(&str, &[&str]); 9] = [
    ("gate.high_is_final", &["true"]),
    ("gate.stale", &["\"not_improved\"", "\"equal\""]),
    ("gate.stale_unless_new_evidence", &["false"]),
    ("gate.no_progress", &["1", "2", "3"]),
    ("gate.revision_passes", &["0"]),
    ("gate.breakers.tool_failures", &["1", "2"]),
    ("gate.on_tool_error", &["\"stop\""]),
    ("gate.on_denied", &["\"stop\""]),
    ("gate.on_invalid", &["\"stop\""]),
];

/// The deciles of these amounts, each once and without 0, which would end every run before its first call.
fn steps(amounts: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sorted: Vec<u64> = amounts.collect();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let mut steps: Vec<u64> = (1..=STEPS)
        .filter_map(|step| sorted.get(last * step / STEPS).copied())
        .filter(|it| *it > 0)
        .collect();
    steps.dedup();
    steps
}

/// Both changes together; a setting that both name has the value of the second.
pub(super) fn together(first: &[Set], second: &[Set]) -> Vec<Set> {
    let mut both: Vec<Set> =
        first.iter().filter(|(key, _)| second.iter().all(|(other, _)| other != key)).cloned().collect();
    both.extend(second.iter().cloned());
    both
}

/// The settings as a policy file.
pub(super) fn toml(settings: &[Set]) -> String {
    let mut tables: Vec<(String, Vec<String>)> = Vec::new();
    for (path, value) in settings {
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        let line = format!("{key} = {value}");
        match tables.iter_mut().find(|(known, _)| known == table) {
            Some((_, lines)) => lines.push(line),
            None => tables.push((table.to_owned(), vec![line])),
        }
    }
    // A table precedes the tables within it.
    tables.sort();
    let written = tables.iter().map(|(table, lines)| format!("[{table}]\n{}\n", lines.join("\n")));
    written.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use loop_core::{Cost, PicoUsd};
    use loop_domain::PolicyFile;

    use super::*;

    fn used(passes: u32, cost: u64) -> Totals {
        let cost = Cost { known: PicoUsd(cost), unknown_calls: 0 };
        Totals { passes, cost, tool_calls: passes * 2, model_calls: passes + 1, ..Totals::default() }
    }

    #[test]
    fn each_change_is_a_policy_file() {
        let changes = single_changes(&[used(1, 900_000), used(3, 2_500_000), used(5, 0)]);
        for change in &changes {
            let text = toml(change);
            let file = PolicyFile::of_text("tuned.toml".into(), text.clone(), &[]).unwrap();
            let mut read = file.settings();
            let mut given = change.clone();
            read.sort();
            given.sort();
            assert_eq!(read, given, "{text}");
        }
        let passes: Vec<&str> = changes
            .iter()
            .filter(|change| change.len() == 1 && change[0].0 == "limits.passes")
            .map(|change| change[0].1.as_str())
            .collect();
        assert_eq!(passes, ["1", "2", "3", "4"]);
        // Rounded up, so that a run which used exactly this much is within it.
        assert!(changes.iter().any(|it| it[0] == ("limits.cost_usd".to_owned(), "0.000003".to_owned())));
    }

    #[test]
    fn the_second_of_two_changes_decides() {
        let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let both = together(
            &[set("limits.passes", "3"), set("gate.stale", "\"off\"")],
            &[set("limits.passes", "2")],
        );
        assert_eq!(toml(&both), "[gate]\nstale = \"off\"\n\n[limits]\npasses = 2\n");
    }
}

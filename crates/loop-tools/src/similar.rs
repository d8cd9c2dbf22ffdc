//! Known names that are similar to an unknown name.

use std::sync::Arc;

use loop_core::types::edits;

/// The most names that are offered.
const OFFERED: usize = 3;
/// A longer name is noise rather than a slip.
const LONGEST: usize = 128;
/// The fewest characters by which one name may be found inside another.
const SHORTEST_PART: usize = 3;

/// The tools whose name or alias comes near `name`: at most three, nearest first, then in the order given.
///
/// `known` are pairs of a name or alias and the tool that it means. A blank name is near to nothing.
pub(crate) fn similar<'a>(name: &str, known: impl Iterator<Item = (&'a str, &'a Arc<str>)>) -> Vec<Arc<str>> {
    let wanted = fold(name);
    if wanted.is_empty() || wanted.len() > LONGEST {
        return Vec::new();
    }
    let mut found: Vec<(usize, &Arc<str>)> = known
        .filter_map(|(candidate, tool)| {
            let candidate = fold(candidate);
            let distance = edits(&wanted, &candidate);
            let shorter = wanted.chars().count().min(candidate.chars().count());
            let is_slip = distance <= (wanted.chars().count() / 3).max(2) && distance < shorter;
            let is_part =
                shorter >= SHORTEST_PART && (candidate.contains(&wanted) || wanted.contains(&candidate));
            (is_slip || is_part).then_some((distance, tool))
        })
        .collect();
    found.sort_by_key(|(distance, _)| *distance);
    let mut names: Vec<Arc<str>> = Vec::new();
    for (_, tool) in found {
        if names.len() < OFFERED && !names.contains(tool) {
            names.push(Arc::clone(tool));
        }
    }
    names
}

/// Letters and digits in lower case: `Fetch-Device info` and `fetch_device_info` are one.
fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).take(LONGEST + 1).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [&str; 5] =
        ["fetch_device_info", "fetch_backup_status", "fetch_user_info", "fetch_sop_docs", "send_mail"];

    #[track_caller]
    fn check(name: &str, expected: &[&str]) {
        let tools: Vec<Arc<str>> = TOOLS.iter().map(|tool| Arc::from(*tool)).collect();
        let found = similar(name, tools.iter().map(|tool| (&**tool, tool)));
        assert_eq!(found.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), expected, "{name:?}");
    }

    #[test]
    fn slips_and_parts_are_offered() {
        // S0-87, S0-d2: what the founding dispatcher ran by chance is only suggested.
        check("fetch_device", &["fetch_device_info"]);
        check("fetchDeviceInfo", &["fetch_device_info"]);
        check("fetch_devise_inof", &["fetch_device_info"]);
        check("get_backup_status", &["fetch_backup_status"]);
        check("mail", &["send_mail"]);
        check("send_mail_now", &["send_mail"]);
    }

    #[test]
    fn an_ambiguous_name_offers_at_most_three() {
        // S0-d2: nearest first, ties in the order of registration.
        check("fetch_", &["fetch_sop_docs", "fetch_user_info", "fetch_device_info"]);
    }

    #[test]
    fn a_blank_or_foreign_name_offers_nothing() {
        // S0-d1
        for name in ["", "  ", "_", "\u{200b}", "zz", "reboot_server", &"fetch_".repeat(500)] {
            check(name, &[]);
        }
    }

    #[test]
    fn a_tool_is_offered_once_though_an_alias_is_near_as_well() {
        // S0-84
        let tool: Arc<str> = Arc::from("fetch_device_info");
        let known = [("fetch_device_info", &tool), ("fetch_devices", &tool)];
        assert_eq!(similar("fetch_device", known.into_iter()), [Arc::clone(&tool)]);
    }
}

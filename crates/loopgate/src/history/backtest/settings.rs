//! Parses the policies in `--set`: one, or one for each value of a setting with several values.

use crate::args::setting;
use crate::output::Failure;

/// A dotted key with its value, as `--set` gives it.
type KeyValue = (String, String);

/// The policies in these `--set` options, each with its name in the report.
pub(super) fn policies(set: &[String]) -> Result<Vec<(String, Vec<KeyValue>)>, Failure> {
    if set.is_empty() {
        return Ok(Vec::new());
    }
    let (mut fixed, mut several): (Vec<KeyValue>, Option<(String, Vec<&str>)>) = (Vec::new(), None);
    for text in set {
        let (key, value) = setting(text)?;
        let Some((_, written)) = text.split_once('=') else { continue };
        match (values(written), &several) {
            (values, _) if values.len() == 1 => fixed.push((key, value)),
            (values, None) => several = Some((key, values)),
            (_, Some((other, _))) => {
                return Err(Failure::new(format!(
                    "--set {text}: {other} has several values already; run one backtest for each key"
                )));
            }
        }
    }
    let Some((key, values)) = several else { return Ok(vec![(set.join(" "), fixed)]) };
    let policies = values.into_iter().map(|value| {
        let value = value.trim();
        let settings = fixed.iter().cloned().chain([(key.clone(), value.to_owned())]).collect();
        (format!("{key}={value}"), settings)
    });
    Ok(policies.collect())
}

/// The values of a setting, separated by commas outside of lists, tables and quoted texts.
fn values(text: &str) -> Vec<&str> {
    let (mut depth, mut quote) = (0_u32, None);
    text.split(|c: char| {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && quote.is_none()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn named(set: &[&str]) -> Vec<(String, Vec<KeyValue>)> {
        policies(&set.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn each_value_of_a_setting_is_a_policy() {
        let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(named(&[]), []);
        let both = vec![set("limits.passes", "2"), set("gate.final_pass", "false")];
        assert_eq!(
            named(&["limits.passes=2", "gate.final_pass=false"]),
            [("limits.passes=2 gate.final_pass=false".to_owned(), both)]
        );
        let of = |passes: &str| {
            let settings = vec![set("gate.final_pass", "false"), set("limits.passes", passes)];
            (format!("limits.passes={passes}"), settings)
        };
        assert_eq!(named(&["limits.passes=2, 3", "gate.final_pass=false"]), [of("2"), of("3")]);
    }

    #[test]
    fn a_comma_in_a_list_or_a_text_separates_no_values() {
        for whole in ["[\"a\",\"b\"]", "\"a,b.toml\"", "{ denied = 1, tool_failures = 2 }"] {
            assert_eq!(values(whole), [whole]);
        }
        assert_eq!(values("[\"a\",\"b\"],[]"), ["[\"a\",\"b\"]", "[]"]);
    }
}

//! Converts the package's rules for model names to ours.
//!
//! One of our rules is one or more patterns, separated by blanks, that must all match. `*` is any text, `#` is one
//! digit, and `!` negates a pattern. Otherwise a pattern is the literal name.

use serde_json::Value;

/// Our rules, one of which must match, and the parts of the package's rules that they cannot express.
pub(super) fn rules(clause: &Value) -> (Vec<String>, Vec<String>) {
    let (mut rules, mut schema_violations) = (Vec::new(), Vec::new());
    for clause in alternatives(clause) {
        match patterns(clause) {
            Ok(patterns) => {
                for pattern in patterns {
                    if !rules.contains(&pattern) {
                        rules.push(pattern);
                    }
                }
            }
            Err(schema_violation) => schema_violations.push(schema_violation),
        }
    }
    (rules, schema_violations)
}

fn alternatives(clause: &Value) -> Vec<&Value> {
    match clause.get("or_").and_then(Value::as_array) {
        Some(clauses) => clauses.iter().flat_map(alternatives).collect(),
        None => vec![clause],
    }
}

/// The patterns of a clause without alternatives.
fn patterns(clause: &Value) -> Result<Vec<String>, String> {
    let text = |key: &str| clause.get(key).and_then(Value::as_str);
    if let Some(name) = text("equals") {
        Ok(vec![plain(name)?])
    } else if let Some(start) = text("starts_with") {
        Ok(vec![format!("{}*", plain(start)?)])
    } else if let Some(end) = text("ends_with") {
        Ok(vec![format!("*{}", plain(end)?)])
    } else if let Some(part) = text("contains") {
        Ok(vec![format!("*{}*", plain(part)?)])
    } else if let Some(regex) = text("regex") {
        of_regex(regex)
    } else if let Some(clauses) = clause.get("and_").and_then(Value::as_array) {
        let mut all = vec![String::new()];
        for clause in clauses {
            let (rules, schema_violations) = rules(clause);
            if let Some(schema_violation) = schema_violations.into_iter().next() {
                return Err(schema_violation);
            }
            all = all
                .iter()
                .flat_map(|so_far| rules.iter().map(move |rule| format!("{so_far} {rule}").trim().to_owned()))
                .collect();
        }
        Ok(all)
    } else {
        Err(format!("unknown clause {clause}"))
    }
}

/// A part of a name without special characters. Names are matched in lower case.
fn plain(part: &str) -> Result<String, String> {
    match part.contains(['*', '#', '!']) || part.contains(char::is_whitespace) {
        true => Err(format!("`{part}` holds a sign of ours")),
        false => Ok(part.to_lowercase()),
    }
}

/// The patterns of a regular expression of the forms that occur: literal text, digits, a choice of single letters.
fn of_regex(regex: &str) -> Result<Vec<String>, String> {
    let schema_violation = || format!("the regular expression `{regex}`");
    if regex == NO_SPEECH {
        return Ok(vec!["!*-tts !*-tts-*".to_owned()]);
    }
    let mut rest = regex.strip_prefix('^').ok_or_else(schema_violation)?;
    let mut patterns = vec![String::new()];
    let each = |patterns: &mut Vec<String>, text: &str| patterns.iter_mut().for_each(|it| it.push_str(text));
    while !rest.is_empty() {
        if rest == "$" {
            return Ok(patterns);
        } else if let Some(after) = rest.strip_prefix(r"\d{") {
            let (count, after) = after.split_once('}').ok_or_else(schema_violation)?;
            each(&mut patterns, &"#".repeat(count.parse().map_err(|_| schema_violation())?));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(r"\d") {
            each(&mut patterns, "#");
            rest = after;
        } else if let Some(after) = rest.strip_prefix(r"\.") {
            each(&mut patterns, ".");
            rest = after;
        } else if let Some((choice, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            if !choice.chars().all(is_plain) {
                return Err(schema_violation());
            }
            patterns = patterns
                .iter()
                .flat_map(|so_far| choice.chars().map(move |letter| format!("{so_far}{letter}")))
                .collect();
            rest = after;
        } else {
            let letter =
                rest.chars().next().filter(|letter| is_plain(*letter)).ok_or_else(schema_violation)?;
            each(&mut patterns, letter.to_ascii_lowercase().encode_utf8(&mut [0; 4]));
            rest = rest.strip_prefix(letter).unwrap_or_default();
        }
    }
    each(&mut patterns, "*");
    Ok(patterns)
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '/' | '@' | ':')
}

/// The expression that excludes text-to-speech models.
const NO_SPEECH: &str = "^(?!.*-[tT][tT][sS](?:$|-))";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_clause_becomes_a_pattern() {
        let clause = json!({ "or_": [
            { "equals": "GPT-4o" },
            { "starts_with": "gpt-4o-2" },
            { "or_": [{ "ends_with": "-x" }, { "contains": "mid" }, { "equals": "gpt-4o" }] },
        ]});
        let expected = ["gpt-4o", "gpt-4o-2*", "*-x", "*mid*"].map(str::to_owned);
        assert_eq!(rules(&clause), (expected.to_vec(), Vec::new()));
    }

    #[test]
    fn regular_expressions_become_patterns_or_are_told() {
        for (regex, expected) in [
            (r"^gpt-6\.1-sol-\d{4}-\d{2}-\d{2}$", vec!["gpt-6.1-sol-####-##-##"]),
            (r"^claude-opus-5[-@]\d{8}$", vec!["claude-opus-5-########", "claude-opus-5@########"]),
            (r"^gemini-4-argon-\d", vec!["gemini-4-argon-#*"]),
            (NO_SPEECH, vec!["!*-tts !*-tts-*"]),
        ] {
            assert_eq!(rules(&json!({ "regex": regex })).0, expected, "{regex}");
        }
        for regex in ["gpt", "^a|b$", "^a+$", "^a.b$", r"^a\w$", "^a(b)$", "^[^a]$"] {
            let (rules, schema_violations) = rules(&json!({ "regex": regex }));
            assert_eq!((rules.len(), schema_violations.len()), (0, 1), "{regex}");
        }
    }

    #[test]
    fn what_must_all_hold_stands_in_one_rule() {
        let clause = json!({ "and_": [{ "starts_with": "gemini-2.5-pro" }, { "regex": NO_SPEECH }] });
        assert_eq!(rules(&clause).0, ["gemini-2.5-pro* !*-tts !*-tts-*"]);
        let odd = json!({ "and_": [{ "starts_with": "a" }, { "regex": "b" }] });
        assert_eq!(rules(&odd).1.len(), 1);
    }
}

//! JUnit XML reports, which CI servers read.

use std::fmt::Write as _;

use crate::eval::{BaselineComparison, CaseResult};
use crate::report::trials::compared;

/// The results as test suites: one for each configuration, and one for the comparison with a baseline. A case that
/// could not be run is an error. A case that ended differently than expected is a failure, and so is a regression.
pub fn junit(results: &[CaseResult], baseline: Option<&BaselineComparison>) -> String {
    let mut suites: Vec<(&str, Vec<&CaseResult>)> = Vec::new();
    for result in results {
        match suites.iter_mut().find(|(name, _)| *name == result.configuration) {
            Some((_, suite)) => suite.push(result),
            None => suites.push((&result.configuration, vec![result])),
        }
    }
    let mut total = SuiteCounts::of(&results.iter().collect::<Vec<_>>());
    let of_baseline = baseline.map(|baseline| (baseline, SuiteCounts::of_baseline(baseline)));
    if let Some((_, counts)) = &of_baseline {
        total.tests += counts.tests;
        total.failures += counts.failures;
    }
    let mut xml =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n", total.attributes());
    for (name, suite) in &suites {
        let name = if name.is_empty() { String::new() } else { format!(" {}", escaped(name)) };
        let counts = SuiteCounts::of(suite).attributes();
        let _ = writeln!(xml, "  <testsuite name=\"loopgate eval{name}\" {counts}>");
        cases(&mut xml, suite);
        xml.push_str("  </testsuite>\n");
    }
    if let Some((baseline, counts)) = &of_baseline {
        let _ = writeln!(xml, "  <testsuite name=\"loopgate eval baseline\" {}>", counts.attributes());
        for one in &baseline.configurations {
            let name = escaped(&one.configuration);
            let _ = write!(xml, "    <testcase classname=\"baseline\" name=\"{name}\" time=\"0.000\"");
            if one.regressed {
                let message = escaped(&compared(one).join("\n"));
                let _ = write!(
                    xml,
                    ">\n      <failure type=\"regression\" message=\"it passes less often than in the baseline\">{message}</failure>\n    </testcase>\n"
                );
            } else {
                xml.push_str("/>\n");
            }
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// The counts of a suite.
struct SuiteCounts {
    tests: usize,
    failures: usize,
    errors: usize,
    ms: u64,
}

impl SuiteCounts {
    fn of(results: &[&CaseResult]) -> Self {
        let errors = results.iter().filter(|result| result.error.is_some()).count();
        let failures = results.iter().filter(|result| !result.passed).count() - errors;
        let ms = results.iter().map(|result| result.wall_ms).sum();
        Self { tests: results.len(), failures, errors, ms }
    }

    fn of_baseline(baseline: &BaselineComparison) -> Self {
        let failures = baseline.configurations.iter().filter(|one| one.regressed).count();
        Self { tests: baseline.configurations.len(), failures, errors: 0, ms: 0 }
    }

    fn attributes(&self) -> String {
        let Self { tests, failures, errors, ms } = self;
        format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{}\"", seconds(*ms))
    }
}

fn cases(xml: &mut String, results: &[&CaseResult]) {
    for result in results {
        let file = result.file.display().to_string();
        let folder = result.file.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
        let class = if folder.is_empty() { "evals".to_owned() } else { folder.replace(['/', '\\'], ".") };
        let name = match result.repeat {
            0 => result.case_id.clone(),
            repeat => format!("{} #{repeat}", result.case_id),
        };
        let _ = write!(
            xml,
            "    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" time=\"{}\"",
            escaped(&class),
            escaped(&name),
            escaped(&file),
            seconds(result.wall_ms)
        );
        if result.passed {
            xml.push_str("/>\n");
            continue;
        }
        let element = if result.error.is_some() { "error" } else { "failure" };
        let first = result.failures.first().map_or("", String::as_str);
        let all = result.failures.join("\n");
        let kind = if result.stop_reason.is_empty() { "error" } else { result.stop_reason.as_str() };
        let _ = write!(
            xml,
            ">\n      <{element} type=\"{}\" message=\"{}\">{}</{element}>\n    </testcase>\n",
            escaped(kind),
            escaped(first),
            escaped(&all)
        );
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

/// Text escaped for XML, without the characters that XML forbids.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_a_test_and_its_text_breaks_nothing() {
        let good = CaseResult {
            case_id: "good".into(),
            file: "evals/good.json".into(),
            passed: true,
            wall_ms: 1_250,
            ..CaseResult::default()
        };
        let bad = CaseResult {
            case_id: "a<b>".into(),
            failures: vec!["it said \"<&>\"\u{1b}[2J".into(), "second".into()],
            stop_reason: "refused".into(),
            ..CaseResult::default()
        };
        let results = [good, bad, CaseResult::failed("none", "x.json".into(), "x.json: /domain: no".into())];
        let xml = junit(&results, None);
        let expected = [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
            "<testsuites tests=\"3\" failures=\"1\" errors=\"1\" time=\"1.250\">",
            "  <testsuite name=\"loopgate eval\" tests=\"3\" failures=\"1\" errors=\"1\" time=\"1.250\">",
            "    <testcase classname=\"evals\" name=\"good\" file=\"evals/good.json\" time=\"1.250\"/>",
            "    <testcase classname=\"evals\" name=\"a&lt;b&gt;\" file=\"\" time=\"0.000\">",
            "      <failure type=\"refused\" message=\"it said &quot;&lt;&amp;&gt;&quot;[2J\">it said &quot;&lt;&amp;&gt;&quot;[2J",
            "second</failure>",
            "    </testcase>",
            "    <testcase classname=\"evals\" name=\"none\" file=\"x.json\" time=\"0.000\">",
            "      <error type=\"error\" message=\"x.json: /domain: no\">x.json: /domain: no</error>",
            "    </testcase>",
            "  </testsuite>",
            "</testsuites>",
            "",
        ];
        assert_eq!(xml, expected.join("\n"));
    }
}

//! Values that follow from a record of the evidence, and the forms that systems write.

use loop_claims::{ClaimSources, claims};
use loop_core::types::{Locale, Status};
use loop_core::{Evidence, WorkItem};
use loop_testkit::findings;
use serde_json::{Value, json};

/// 2026-11-26 03:10 UTC.
const START: u64 = 1_795_662_600_000;

/// The claims of a body about these pieces of evidence, as `value: state`.
#[track_caller]
fn check_in(locale: Locale, data: &[Value], body: &str, expected: &[&str]) {
    let numbered = (1..).zip(data);
    let evidence: Vec<Evidence> =
        numbered.map(|(id, data)| loop_testkit::evidence(id, "fetch", Status::Ok, data)).collect();
    let item = WorkItem::new("T-7", "ticket", "", "It is about RQ-77120. They say thirty, on the 29th: 30.");
    let sources = ClaimSources { evidence: &evidence, item: &item, unix_ms: START, utc_offset: 0, locale };
    let found: Vec<String> = claims(&findings(body), sources)
        .into_iter()
        .map(|claim| format!("{}: {}", claim.value, claim.state.name()))
        .collect();
    assert_eq!(found, expected, "{body}");
}

#[track_caller]
fn check(data: &Value, body: &str, expected: &[&str]) {
    check_in(Locale::En, std::slice::from_ref(data), body, expected);
}

#[test]
fn the_other_operand_may_be_in_the_record_of_a_stated_value() {
    let disk = json!({"limit_mb": 512, "peak_mb": 471.0, "host": "a"});
    check(
        &disk,
        "The peak was 471 MB, 41 MB below the limit [E1].",
        &["471 MB: grounded", "41 MB: grounded"],
    );
    check(
        &disk,
        "The peak was 471 MB, 42 MB below the limit [E1].",
        &["471 MB: grounded", "42 MB: ungrounded"],
    );
    // Another record has the other number.
    let two = json!([{"name": "a", "limit_mb": 512, "n": 1}, {"name": "b", "peak_mb": 471.0, "m": 2},
        {"x": 1, "y": 2, "z": 3}, {"x": 4, "y": 5, "z": 6}, {"x": 7, "y": 8, "z": 9}, {"x": 10, "y": 11, "z": 12}]);
    check(&two, "The peak was 471 MB, 41 MB below it [E1].", &["471 MB: grounded", "41 MB: ungrounded"]);
    let tests = json!({"passed": 1842, "failed": 7, "skipped": 31});
    check(&tests, "Of 1,880 tests 7 failed [E1].", &["1,880 tests: grounded", "7 failed: grounded"]);
    check(&tests, "Of 1,890 tests 7 failed [E1].", &["1,890 tests: ungrounded", "7 failed: grounded"]);
}

#[test]
fn a_calculation_that_a_sentence_writes_out_is_made() {
    let pay = json!({"salary_month": {"amount": 4420.0, "currency": "EUR"}, "rule": "salary x 3 / 65"});
    let stated = ["4,420.00 EUR: grounded", "65: grounded"];
    check(
        &pay,
        "A day is 204.00 EUR (4,420.00 EUR × 3 / 65) [E1].",
        &["204.00 EUR: grounded", stated[0], stated[1]],
    );
    check(
        &pay,
        "A day is 214.00 EUR (4,420.00 EUR × 3 / 65) [E1].",
        &["214.00 EUR: ungrounded", stated[0], stated[1]],
    );
}

#[test]
fn an_average_is_that_of_a_list() {
    let list = json!({"readings": [{"ph": 7.21}, {"ph": 7.34}, {"ph": 7.02}, {"ph": 7.11}]});
    check(&list, "The average is 7.17 [E1].", &["7.17: grounded"]);
    check(&list, "The average is 7.27 [E1].", &["7.27: ungrounded"]);
    check(&list, "The last was 7.17 [E1].", &["7.17: ungrounded"]);
}

#[test]
fn days_and_times_are_read_as_systems_write_them() {
    let log = json!("30OCT 2215  DEP\n31OCT 0540  ARR +1\n");
    check(&log, "It landed on 31 October at 05:40 [E1].", &["31 October: grounded", "05:40: grounded"]);
    check(&log, "It landed on 31 October at 05:50 [E1].", &["31 October: grounded", "05:50: ungrounded"]);
    let log = json!("05/11 07:30  press 2\nopen 08:00-13:00\n");
    check(&log, "On 5 November at 07:30 [E1].", &["5 November: grounded", "07:30: grounded"]);
    check(&log, "It is open from 08:00 to 13:00 [E1].", &["08:00: grounded", "13:00: grounded"]);
    let log = json!("rewrite 00:03:51.0\ntalk 12m40s\n");
    check(&log, "It took 3 min 51 s [E1].", &["3 min 51 s: grounded"]);
    check(
        &log,
        "They talked for 12 minutes and 41 seconds [E1].",
        &["12 minutes and 41 seconds: ungrounded"],
    );
    let log = json!("cases 6-14 Feb 2026: 17");
    check(&log, "Between 6 and 14 February [E1].", &["6: grounded", "14 February: grounded"]);
    let log = json!("16:05 first hail   16:31 last hail\n");
    check(&log, "It lasted 26 minutes [E1].", &["26 minutes: grounded"]);
    check(&log, "It lasted 27 minutes [E1].", &["27 minutes: ungrounded"]);
    let hash = json!({"sha": "9f3c1ab2d4e5aa01", "job": "4f2a9c1e-77b0-4d11-9a53-0c8f1e2d3b4a"});
    check(&hash, "Commit 9f3c1ab and job 4f2a9c1e [E1].", &["9f3c1ab: grounded", "4f2a9c1e: grounded"]);
    check(&hash, "Commit 9f3c1ac [E1].", &["9f3c1ac: ungrounded"]);
}

#[test]
fn a_month_and_a_day_of_it_are_counted() {
    let lease = json!({"start": "2021-10-01", "months": 60, "served": "2026-04-19"});
    check(
        &lease,
        "It was served on 19 April 2026 and lapses 60 months later, on 19 April 2031 [E1].",
        &["19 April 2026: grounded", "60 months: grounded", "19 April 2031: grounded"],
    );
    check_in(
        Locale::Fr,
        &[json!({"promis": "2026-11-11"})],
        "Elle est promise pour le 11 [E1]. Elle est promise pour le 12 [E1].",
        &["11: grounded", "12: ungrounded"],
    );
}

#[test]
fn a_number_in_words_is_a_claim_where_only_the_work_item_has_it() {
    let batches = json!({"batches": 3});
    check(&batches, "Three batches fall into it [E1].", &["Three: grounded"]);
    check(&batches, "Thirty batches fall into it [E1].", &["Thirty: elsewhere"]);
    check(&batches, "Twenty batches fall into it [E1].", &[]);
    check(&batches, "There are 3 batches, not thirty [E1].", &["3 batches: grounded"]);
}

#[test]
fn the_same_number_with_another_unit_is_a_claim_however_it_is_compared() {
    let notice = json!({"text": "Claims lapse 2 years after delivery."});
    check(&notice, "It lapses two years after delivery [E1].", &["two years: grounded"]);
    check(&notice, "It lapses two months after delivery [E1].", &["two months: ungrounded"]);
    check(&notice, "It lapses three months after delivery [E1].", &[]);
    let fee = json!({"fee_eur_month": 12.9});
    check(&fee, "It costs €12.90 a month [E1].", &["€12.90: grounded"]);
    check(&fee, "It costs €12.90 a year [E1].", &["€12.90: ungrounded"]);
}

#[test]
fn an_id_of_the_work_item_is_what_the_document_is_about() {
    let data = [json!({"total": 1}), json!({"request": "RQ-77120"})];
    check_in(Locale::En, &data, "RQ-77120 is refunded [E1].", &["RQ-77120: grounded"]);
    check_in(Locale::En, &data, "RQ-77121 is refunded [E1].", &["RQ-77121: ungrounded"]);
}

#[test]
fn a_restricted_absence_is_not_one_of_the_whole() {
    let data = json!({"consents": [{"name": "a"}], "missing_document": "invoice copy"});
    check(&data, "No consent covers her [E1].", &[]);
    check(&data, "No consent exists [E1].", &["No consent: ungrounded"]);
    check(&data, "The copy was not there [E1].", &["The copy was not: grounded"]);
    check(&data, "None is missing [E1].", &[]);
}

//! Whether the values of a document stand in the evidence that it cites.

use loop_claims::{Claim, ClaimSources, Formula, Grounding, claims};
use loop_core::types::{EvidenceId, Locale, Scope, Status};
use loop_core::{Evidence, WorkItem};
use loop_testkit::findings;
use proptest::prelude::*;
use serde_json::{Value, json};

fn evidence(id: u32, status: Status, data: &Value) -> Evidence {
    loop_testkit::evidence(id, "fetch_jobs", status, data)
}

fn item(full: &str) -> WorkItem {
    WorkItem { scope: Scope::default(), ..WorkItem::new("T-1042", "ticket", "Backup", full) }
}

/// 2026-11-26 03:10 UTC.
const START: u64 = 1_795_662_600_000;

fn read(body: &str, evidence: &[Evidence], full: &str, locale: Locale) -> Vec<Claim> {
    read_at(0, body, evidence, full, locale)
}

/// The claims of a run with this offset from UTC, in minutes.
fn read_at(utc_offset: i32, body: &str, evidence: &[Evidence], full: &str, locale: Locale) -> Vec<Claim> {
    let item = item(full);
    claims(&findings(body), ClaimSources { evidence, item: &item, unix_ms: START, utc_offset, locale })
}

/// The jobs that most of these tests are about.
fn jobs() -> Value {
    json!({
        "jobs": [
            {"id": "B-7", "host": "web-1.example.com", "status": "failed", "size_gb": 42.5, "duration_s": 5400,
             "last": "2026-11-25T03:10:00Z", "owner": {"first": "Anna", "last": "Meier"}, "amount_usd": 19.99},
            {"id": "B-8", "host": "web-2.example.com", "status": "ok", "size_gb": 7.5, "duration_s": 60,
             "last": "2026-11-26T01:00:00Z", "owner": {"first": "Bob", "last": "Stone"}, "amount_usd": 30.01},
            {"id": "B-9", "host": "db-1.example.com", "status": "failed", "size_gb": 1234, "duration_s": 7,
             "last": "2026-11-24T22:00:00Z", "owner": {"first": "Eve", "last": "Ng"}, "amount_usd": 50},
        ],
        "message": "Disk quota exceeded on volume data", "version": "2.14.1", "ip": "10.1.2.3", "contact": "ops@example.com",
        "used_percent": 41.666, "share": 0.25, "snapshots": [], "has_replica": false, "alerts": 0,
    })
}

/// The claims of one sentence about the jobs, as `value: state`.
fn about_jobs(sentence: &str, locale: Locale) -> Vec<String> {
    let all = [
        evidence(1, Status::Ok, &jobs()),
        evidence(2, Status::Empty, &json!([])),
        evidence(3, Status::Ok, &json!({"other": 77, "city": "Oslo Norway", "price": 12, "currency": "EUR"})),
    ];
    let shown = |claim: Claim| {
        let formula = claim.formula.map(|formula| format!(", {formula}")).unwrap_or_default();
        format!("{}: {}{formula}", claim.value, claim.state.name())
    };
    read(sentence, &all, "The customer says 99 GB are missing.", locale).into_iter().map(shown).collect()
}

#[track_caller]
fn check(sentence: &str, expected: &[&str]) {
    assert_eq!(about_jobs(sentence, Locale::En), expected, "{sentence}");
}

#[track_caller]
fn check_in(locale: Locale, sentence: &str, expected: &[&str]) {
    assert_eq!(about_jobs(sentence, locale), expected, "{sentence}");
}

#[test]
fn amounts_are_compared_in_every_unit_of_the_same_size() {
    check("It holds 42.5 GB [E1].", &["42.5 GB: grounded"]);
    check("It holds 42,500 MB [E1].", &["42,500 MB: grounded"]);
    check("It holds 1.234 TB [E1].", &["1.234 TB: grounded"]);
    check("It holds 42.5 TB [E1].", &["42.5 TB: ungrounded"]);
    check("It holds 24.5 GB [E1].", &["24.5 GB: ungrounded"]);
    check("It ran for 1.5 hours [E1].", &["1.5 hours: grounded"]);
    check("It ran for 90 minutes [E1].", &["90 minutes: grounded"]);
    check("It ran for 90 seconds [E1].", &["90 seconds: ungrounded"]);
    check("It cost $19.99 [E1].", &["$19.99: grounded"]);
    check("It cost 19.99 USD [E1].", &["19.99 USD: grounded"]);
    check("It cost €19.99 [E1].", &["€19.99: ungrounded"]);
    check("It cost 12 euros [E3].", &["12 euros: grounded"]);
    check("It cost $12 [E3].", &["$12: ungrounded"]);
    check("A quarter, 25 %, is left [E1].", &["25 %: grounded"]);
}

#[test]
fn a_number_is_rounded_only_where_that_leaves_it_its_meaning() {
    check("41.666 % are used [E1].", &["41.666 %: grounded"]);
    check("41.7 % are used [E1].", &["41.7 %: grounded, rounded"]);
    check("About 42 % are used [E1].", &["42 %: grounded, rounded"]);
    check("42 % are used [E1].", &["42 %: ungrounded"]);
    check("About 40 % are used [E1].", &["40 %: ungrounded"]);
    check("About 1,200 GB are stored [E1].", &["1,200 GB: grounded, rounded"]);
}

#[test]
fn days_and_times_are_compared_in_every_form() {
    for day in [
        "2026-11-25",
        "25 November 2026",
        "November 25, 2026",
        "Nov 25",
        "11/25/2026",
        "yesterday",
        "1 day ago",
    ] {
        check(&format!("It failed on {day} [E1]."), &[&format!("{day}: grounded")]);
    }
    for day in ["2026-11-23", "26 October 2026", "Nov 23", "3 days ago"] {
        check(&format!("It failed on {day} [E1]."), &[&format!("{day}: ungrounded")]);
    }
    check("It failed at 03:10 [E1].", &["03:10: grounded"]);
    check("It failed at 3:10 am [E1].", &["3:10 am: grounded"]);
    check("It failed at 3:10 pm [E1].", &["3:10 pm: ungrounded"]);
    check("It failed at 10 pm [E1].", &["10 pm: grounded"]);
    check("As of today [E1] it is down.", &[]);
    check("It failed today [E1].", &["today: grounded"]);
    check("We try again tomorrow.", &[]);
}

#[test]
fn texts_are_compared_whole() {
    check("B-7 failed on web-1.example.com [E1].", &["B-7: grounded", "web-1.example.com: grounded"]);
    check("B-71 failed on web-3.example.com [E1].", &["B-71: ungrounded", "web-3.example.com: ungrounded"]);
    check("web-1 is down [E1].", &["web-1: grounded"]);
    check(
        "Write to ops@example.com or dev@example.com [E1].",
        &["ops@example.com: grounded", "dev@example.com: ungrounded"],
    );
    check("It runs 2.14.1, not v2.15 [E1].", &["2.14.1: grounded", "v2.15: ungrounded"]);
    check("10.1.2.3 answers, 10.1.2.4 does not [E1].", &["10.1.2.3: grounded", "10.1.2.4: ungrounded"]);
    check("It says \"disk quota exceeded\" [E1].", &["disk quota exceeded: grounded"]);
    check("It says “disk quota reached” [E1].", &["disk quota reached: ungrounded"]);
    check("Anna Meier owns it [E1].", &["Anna Meier: grounded"]);
    check("Anna Stone owns it [E1].", &["Anna Stone: ungrounded"]);
    check("Ask Bob Stone about it [E1].", &["Bob Stone: grounded"]);
    check("The owner is Carl Jones [E1].", &["Carl Jones: ungrounded"]);
}

#[test]
fn what_is_not_in_the_cited_evidence_is_elsewhere_or_nowhere() {
    check("It counts 77 files [E1].", &["77 files: elsewhere"]);
    check("It counts 77 files [E3].", &["77 files: grounded"]);
    check("99 GB are missing [E1].", &["99 GB: elsewhere"]);
    check("The customer says that 99 GB are missing [E0].", &["99 GB: grounded"]);
    check("It counts 77 files.", &["77 files: elsewhere"]);
    // Each part of a sentence rests on the citations behind it.
    check("It holds 42.5 GB [E1], not 99 GB [E0].", &["42.5 GB: grounded", "99 GB: grounded"]);
    check("It holds 99 GB [E1], not 99 GB [E0].", &["99 GB: elsewhere", "99 GB: grounded"]);
}

#[test]
fn a_sentence_that_names_an_operation_may_compute() {
    check("There are 3 jobs [E1].", &["3 jobs: grounded, count of jobs"]);
    check("2 jobs failed [E1].", &["2 jobs: grounded, count of status = failed"]);
    check("There are 4 jobs [E1].", &["4 jobs: ungrounded"]);
    check("The total is $100.00 [E1].", &["$100.00: grounded, sum of amount_usd"]);
    check("The total is $101.00 [E1].", &["$101.00: ungrounded"]);
    check("It was $100.00 [E1].", &["$100.00: ungrounded"]);
    check(
        "42.5 GB are 35 GB more than 7.5 GB [E1].",
        &["42.5 GB: grounded", "35 GB: grounded, difference of the two other amounts", "7.5 GB: grounded"],
    );
    check(
        "42.5 GB are 36 GB more than 7.5 GB [E1].",
        &["42.5 GB: grounded", "36 GB: ungrounded", "7.5 GB: grounded"],
    );
    check(
        "2 of 3 jobs failed, 66.7 % [E1].",
        &[
            "2: grounded, count of status = failed",
            "3 jobs: grounded, count of jobs",
            "66.7 %: grounded, percentage of the two other amounts",
        ],
    );
}

#[test]
fn absence_needs_evidence_that_says_so() {
    check("No backup exists [E2].", &["No backup: grounded"]);
    check("No backup exists [E1].", &["No backup: elsewhere"]);
    check("There are no snapshots [E1].", &["no snapshots: grounded"]);
    check("It has no replica [E1].", &["no replica: grounded"]);
    check("There are no alerts [E1].", &["no alerts: grounded"]);
    check("There are no jobs [E1].", &["no jobs: elsewhere"]);
    check("No restart is needed.", &[]);
}

#[test]
fn other_languages_write_other_numbers_and_days() {
    check_in(Locale::De, "Es sind 42,5 GB [E1].", &["42,5 GB: grounded"]);
    check_in(Locale::De, "Es sind 1.234 GB [E1].", &["1.234 GB: grounded"]);
    check_in(
        Locale::De,
        "Am 25. November 2026 um 3:10 Uhr [E1].",
        &["25. November 2026: grounded", "3:10: grounded"],
    );
    check_in(Locale::De, "Am 25.11.2026 [E1].", &["25.11.2026: grounded"]);
    check_in(Locale::De, "Am 23.11.2026 [E1].", &["23.11.2026: ungrounded"]);
    check_in(Locale::De, "Frau Meier hat das Ticket [E1].", &["Meier: grounded"]);
    check_in(
        Locale::De,
        "Es dauerte 90 Minuten, 2 Stunden wären 7200 s [E1].",
        &["90 Minuten: grounded", "2 Stunden: ungrounded", "7200 s: ungrounded"],
    );
    check_in(Locale::Fr, "Il y a 1 234 GB, 42,5 GB [E1].", &["1 234 GB: grounded", "42,5 GB: grounded"]);
    check_in(
        Locale::Fr,
        "Le 25 novembre 2026 à 3h10 [E1].",
        &["25 novembre 2026: grounded", "3h10: grounded"],
    );
    check_in(Locale::Fr, "Le 25/11/2026 [E1].", &["25/11/2026: grounded"]);
    check_in(
        Locale::Es,
        "Son 1.234 GB, el 25 de noviembre de 2026 [E1].",
        &["1.234 GB: grounded", "25 de noviembre de 2026: grounded"],
    );
    check_in(
        Locale::Es,
        "Costó 12 euros, no 13 euros [E3].",
        &["12 euros: grounded", "13 euros: ungrounded"],
    );
    check_in(
        Locale::Ja,
        "容量は42.5GBです。2026年11月25日に失敗しました [E1]。",
        &["42.5GB: grounded", "2026年11月25日: grounded"],
    );
    check_in(Locale::Ja, "容量は４２.５GBです [E1]。", &["４２.５GB: grounded"]);
    check_in(Locale::Ja, "90分かかり、91分ではない [E1]。", &["90分: grounded", "91分: ungrounded"]);
}

#[test]
fn text_that_is_no_value_is_left_alone() {
    for text in [
        "The job failed because the disk was full [E1].",
        "1. Free some space. 2. Run it again [E1].",
        "See step 3 in the guide [E1].",
        "It uses UTF-8 and SHA-256 [E1].",
        "This is 24/7 on-call work [E1].",
        "```\nrm -rf 42 GB\n```",
        "## 3 Findings of 2026",
    ] {
        check(text, &[]);
    }
}

/// The claims of a body about one piece of evidence, as `value: state, formula`.
#[track_caller]
fn check_of(data: &Value, body: &str, expected: &[&str]) {
    let shown = |claim: Claim| {
        let formula = claim.formula.map(|formula| format!(", {formula}")).unwrap_or_default();
        format!("{}: {}{formula}", claim.value, claim.state.name())
    };
    let all = [evidence(1, Status::Ok, data)];
    let found: Vec<String> = read(body, &all, "", Locale::En).into_iter().map(shown).collect();
    assert_eq!(found, expected, "{body}");
}

/// Issue 19: a value is grounded by one operation over values that the sentences state and the evidence has.
#[test]
fn what_follows_from_stated_values_is_grounded() {
    let order = json!({"lines": [{"item": "pump", "price_eur": 1850}, {"item": "hose", "price_eur": 231}], "pieces": 412,
        "opened": "2026-03-02", "out": "06:40", "back": "09:15"});
    let (pump, left) = ("1,850 EUR: grounded", "1,619 EUR: grounded, difference of the two other amounts");
    check_of(
        &order,
        "The pump costs 1,850 EUR, and 231 EUR less that is 1,619 EUR [E1].",
        &[pump, "231 EUR: grounded", left],
    );
    // A wrong result is not.
    let lied = "1,629 EUR: ungrounded";
    check_of(
        &order,
        "The pump costs 1,850 EUR, and 231 EUR less that is 1,629 EUR [E1].",
        &[pump, "231 EUR: grounded", lied],
    );
    // The other operand may be in the evidence alone.
    check_of(
        &order,
        "Three pumps cost 5,550 EUR [E1].",
        &["5,550 EUR: grounded, product of two other amounts"],
    );
    check_of(&order, "Three pumps cost 5,650 EUR [E1].", &["5,650 EUR: ungrounded"]);
    // The time between two fields of a record.
    check_of(&order, "It took 155 minutes [E1].", &["155 minutes: grounded, time between back and out"]);
    check_of(&order, "It took 165 minutes [E1].", &["165 minutes: ungrounded"]);
    check_of(
        &order,
        "It was opened on 2 March. It has to be closed within 14 days, so by 16 March [E1].",
        &["2 March: grounded", "14 days: ungrounded", "16 March: ungrounded"],
    );
    // A value that cites the wrong evidence is not excused by what the document states.
    let other = evidence(2, Status::Ok, &json!({"n": 1619}));
    let all = [evidence(1, Status::Ok, &order), other];
    let states: Vec<Grounding> =
        read("1,850 EUR less 231 EUR [E1]. It has 1,850 EUR [E2].", &all, "", Locale::En)
            .into_iter()
            .map(|it| it.state)
            .collect();
    assert_eq!(states, [Grounding::Grounded, Grounding::Grounded, Grounding::Elsewhere]);
}

#[test]
fn the_name_of_a_column_and_of_another_field_says_the_unit() {
    let table = json!(
        "item         price (EUR)   delivery (days)\nchair        189.00        14\ntable        452.50        35\n"
    );
    check_of(
        &table,
        "The chair costs €189.00 and comes in 14 days [E1].",
        &["€189.00: grounded", "14 days: grounded"],
    );
    check_of(
        &table,
        "The chair costs $189.00 and comes in 14 hours [E1].",
        &["$189.00: ungrounded", "14 hours: ungrounded"],
    );
    check_of(&table, "Both cost €641.50 in total [E1].", &["€641.50: grounded, sum of price (EUR)"]);
    let record = json!({"test": "sodium", "value": 139, "unit": "mmol/L"});
    check_of(&record, "Sodium is 139 mmol/L [E1].", &["139 mmol/L: grounded"]);
    check_of(&record, "Sodium is 139 µmol/L [E1].", &["139 µmol/L: ungrounded"]);
    // A number without a unit is not one of which the evidence has another.
    let mixed = json!({"text": "96 GB are used", "count": 96});
    check_of(&mixed, "96 GB are used [E1].", &["96 GB: grounded"]);
    check_of(&mixed, "96 PB are used [E1].", &["96 PB: ungrounded"]);
}

#[test]
fn greetings_and_phrases_in_capitals_are_not_names_and_initials_are() {
    let data = json!({"signed_by": "Margaret Halloran", "commit": "9f3ac21d7e55"});
    for body in [
        "Hello Ingrid, thanks.",
        "Dear Mrs. Nwosu,",
        "Kind regards, Your Service Team",
        "**Recommended Actions**",
    ] {
        check_of(&data, body, &[]);
    }
    check_of(&data, "M. Halloran signed for it [E1].", &["M. Halloran: grounded"]);
    check_of(&data, "K. Petersen signed for it [E1].", &["K. Petersen: ungrounded"]);
}

#[test]
fn durations_in_words_are_values() {
    let data =
        json!({"notice_months": 6, "text": "Refunds within five working days.", "turnover_minutes": 30});
    check_of(&data, "Notice takes six months [E1].", &["six months: grounded"]);
    check_of(&data, "Notice takes six weeks [E1].", &["six weeks: ungrounded"]);
    check_of(
        &data,
        "It takes 5 working days, and half an hour each [E1].",
        &["5 working days: grounded", "half an hour: grounded"],
    );
    // Advice is not about the evidence.
    check_of(&data, "Please look again after 2 hours.", &[]);
}

#[test]
fn the_order_of_the_evidence_does_not_matter_and_its_numbers_are_named() {
    let first = evidence(1, Status::Ok, &jobs());
    let other = evidence(4, Status::Ok, &json!({"note": "42.5 GB"}));
    let body = "It holds 42.5 GB [E1, E4], 77 files [E1].";
    let one = read(body, &[first.clone(), other.clone()], "", Locale::En);
    assert_eq!(one, read(body, &[other, first], "", Locale::En));
    assert_eq!(one.first().map(|claim| claim.evidence.clone()), Some(vec![EvidenceId(1), EvidenceId(4)]));
    assert_eq!(one.last().map(|claim| claim.state), Some(Grounding::Ungrounded));
}

#[test]
fn days_and_times_are_read_by_the_clock_of_the_run() {
    // 2026-11-26 03:10 UTC is the evening before in New York, and 12:10 in Tokyo.
    let at = |offset: i32, body: &str, data: Value| -> Vec<Grounding> {
        let all = [evidence(1, Status::Ok, &data)];
        read_at(offset, body, &all, "", Locale::En).into_iter().map(|claim| claim.state).collect()
    };
    let (yes, no) = (Grounding::Grounded, Grounding::Ungrounded);
    let on = |day: &str| json!({"last_seen_on": day});
    for (offset, yesterday) in [(0, "2026-11-25"), (-300, "2026-11-24"), (540, "2026-11-25")] {
        assert_eq!(at(offset, "It failed yesterday [E1].", on(yesterday)), [yes], "{offset}");
    }
    assert_eq!(at(-300, "It failed yesterday [E1].", on("2026-11-25")), [no]);
    // An instant that names its offset is read by the clock of the run too, and one that names none only as written.
    let instant = json!({"at": "2026-11-25T23:30:00Z"});
    assert_eq!(at(60, "It failed on 26 November at 00:30 [E1].", instant.clone()), [yes, yes]);
    assert_eq!(at(60, "It failed on 25 November at 23:30 [E1].", instant.clone()), [yes, yes]);
    assert_eq!(at(0, "It failed on 26 November at 00:30 [E1].", instant), [no, no]);
    assert_eq!(at(60, "It failed at 00:30 [E1].", json!({"at": "2026-11-25T23:30:00"})), [no]);
    assert_eq!(
        at(60, "It failed on 26 November at 00:30 [E1].", json!({"created_at": 1_795_649_400})),
        [yes, yes]
    );
}

#[test]
fn a_time_with_its_offset_is_compared_as_an_instant() {
    let at = |body: &str, time: &str| -> Vec<Grounding> {
        let all = [evidence(1, Status::Ok, &json!({"at": time}))];
        read(body, &all, "", Locale::En).into_iter().map(|claim| claim.state).collect()
    };
    let (yes, no) = (Grounding::Grounded, Grounding::Ungrounded);
    for (body, state) in [
        ("It failed at 14:05 UTC [E1].", yes),
        ("It failed at 14:05Z [E1].", yes),
        ("It failed at 16:05+02:00 [E1].", yes),
        ("It failed at 16:05 (UTC+2) [E1].", yes),
        ("It failed at 09:05 -05:00 [E1].", yes),
        // As written, and not what it says.
        ("It failed at 15:05 UTC [E1].", no),
        ("It failed at 14:05+02:00 [E1].", no),
    ] {
        assert_eq!(at(body, "2026-11-22T15:05:00+01:00"), [state], "{body}");
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Issue 19: a value that neither occurs in the evidence nor results from a named formula is never grounded, and a copied
    /// one always is.
    #[test]
    fn a_value_is_grounded_exactly_if_the_evidence_has_it(
        numbers in proptest::collection::vec(1_000_u32..1_000_000, 1..8),
        stated in 1_000_u32..1_000_000,
        names_sum in any::<bool>(),
    ) {
        let data = json!({"rows": numbers.iter().map(|number| json!({"reading": number})).collect::<Vec<_>>()});
        let words = if names_sum { "The total is" } else { "It shows" };
        let all = [evidence(1, Status::Ok, &data)];
        let sum: u32 = numbers.iter().sum();
        let states = |number: u32| read(&format!("{words} {number} [E1]."), &all, "", Locale::En);
        for copied in &numbers {
            prop_assert!(states(*copied).iter().all(|claim| claim.state == Grounding::Grounded));
        }
        let rounds = |number: &u32| number.abs_diff(stated) <= 5_000;
        prop_assume!(!numbers.iter().any(rounds) && sum.abs_diff(stated) > 5_000);
        let found = states(stated);
        prop_assert!(found.iter().all(|claim| claim.state == Grounding::Ungrounded), "{found:?}");
        let of_sum = states(sum);
        let is_computed = names_sum && numbers.len() > 1;
        prop_assume!(!numbers.iter().any(|number| number.abs_diff(sum) <= 5_000));
        for claim in of_sum {
            prop_assert_eq!(claim.state == Grounding::Grounded, is_computed);
            prop_assert_eq!(matches!(claim.formula, Some(Formula::Sum { .. })), is_computed);
        }
    }

    #[test]
    fn the_order_of_evidence_changes_no_claim(
        order in Just((1_u32..7).collect::<Vec<_>>()).prop_shuffle(), stated in 10_u32..17, cited in 1_u32..7,
    ) {
        let body = format!("It has {stated} GB since 2{cited} November [E{cited}], in total 63 [E1, E2]; no alerts [E3].");
        let one = |id: u32| {
            evidence(id, Status::Ok, &json!({"size_gb": id + 9, "day": format!("2026-11-2{id}"), "alerts": id % 3}))
        };
        let sorted: Vec<Evidence> = (1..7).map(one).collect();
        let shuffled: Vec<Evidence> = order.into_iter().map(one).collect();
        prop_assert_eq!(read(&body, &sorted, "16 GB", Locale::En), read(&body, &shuffled, "16 GB", Locale::En));
    }
}

/// As many cases as a run of the tests tries.
#[expect(clippy::disallowed_methods, reason = "how much a test tries is not an input of a run")]
fn cases(count: u32) -> ProptestConfig {
    let times = std::env::var("LOOPGATE_PROPERTIES").ok().and_then(|times| times.parse::<u32>().ok());
    ProptestConfig::with_cases(times.map_or_else(|| loop_testkit::share(count), |times| count * times))
}

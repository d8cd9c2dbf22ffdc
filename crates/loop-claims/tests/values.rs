//! What is found, what is contradicted and what is not checked, kind by kind.

use loop_claims::{Claim, ClaimSources, claims};
use loop_core::types::{EvidenceId, Locale, Status};
use loop_core::{Evidence, WorkItem};
use loop_testkit::findings;
use serde_json::{Value, json};

/// 2026-11-26 03:10 UTC.
pub(crate) const START: u64 = 1_795_662_600_000;

/// The claims of a body about these pieces of evidence.
pub(crate) fn read(locale: Locale, data: &[Value], body: &str) -> Vec<Claim> {
    let evidence: Vec<Evidence> = (1..)
        .zip(data)
        .map(|(id, data)| {
            let is_empty = data.as_array().is_some_and(Vec::is_empty);
            loop_testkit::evidence(id, "fetch", if is_empty { Status::Empty } else { Status::Ok }, data)
        })
        .collect();
    let item = WorkItem::new("T-7", "ticket", "", "It is about RQ-77120. They speak of 31 seats.");
    claims(
        &findings(body),
        ClaimSources { evidence: &evidence, tools: &[], item: &item, unix_ms: START, utc_offset: 0, locale },
    )
}

/// A body, and its claims as `value: state`, with `: why` where there is a reason.
type Row<'a> = (&'a str, &'a [&'a str]);

#[track_caller]
fn check(locale: Locale, data: &[Value], rows: &[Row<'_>]) {
    for (body, expected) in rows {
        let said = |claim: &Claim| match claim.why.is_empty() {
            true => format!("{}: {}", claim.value, claim.state.name()),
            false => format!("{}: {}: {}", claim.value, claim.state.name(), claim.why),
        };
        let found: Vec<String> = read(locale, data, body).iter().map(said).collect();
        assert_eq!(found, *expected, "{body}");
    }
}

fn disk() -> Value {
    json!({"host": "web-1.example.com", "used_mb": 42_500, "quota_gb": 100, "used_percent": 41.666, "price": 1234.5,
        "currency": "USD", "duration_s": 5400, "owner": "Anna Meier", "replica": null, "checked": "2026-11-25T17:05:30Z"})
}

#[test]
fn an_amount_is_equal_in_every_unit_and_at_the_coarser_precision() {
    check(
        Locale::En,
        &[disk()],
        &[
            ("It uses 42.5 GB of 100 GB [E1].", &["42.5 GB: found", "100 GB: found"]),
            ("It uses 42,500 MB, about 41.7 % [E1].", &["42,500 MB: found", "41.7 %: found"]),
            ("It took 1.5 hours and cost $1,234.50 [E1].", &["1.5 hours: found", "$1,234.50: found"]),
            ("It uses 42.5 TB [E1].", &["42.5 TB: contradicted: in no evidence"]),
            ("It uses 43.5 GB [E1].", &["43.5 GB: contradicted: the evidence says: used_mb: 42500"]),
            ("It cost €1,234.50 [E1].", &["€1,234.50: contradicted: another currency: USD"]),
        ],
    );
}

#[test]
fn a_sum_a_difference_and_a_share_are_computed_and_a_wrong_one_is_not() {
    let orders = json!([
        {"order": "A-1", "state": "late", "qty": 12, "price_usd": 310.25},
        {"order": "A-2", "state": "paid", "qty": 3, "price_usd": 1199.0},
        {"order": "A-3", "state": "late", "qty": 7, "price_usd": 84.5}
    ]);
    check(
        Locale::En,
        &[orders, disk()],
        &[
            ("The prices add up to $1,593.75 [E1].", &["$1,593.75: found: computed"]),
            // Of the records with one value in a field, and of what two fields multiply to.
            ("The late ones are priced $394.75 [E1].", &["$394.75: found: computed"]),
            ("They are worth $7,911.50 together [E1].", &["$7,911.50: found: computed"]),
            ("The prices add up to $1,595.75 [E1].", &["$1,595.75: contradicted: in no evidence"]),
            (
                "Of 100 GB it uses 42.5 GB, so 57.5 GB are free [E2].",
                &["100 GB: found", "42.5 GB: found", "57.5 GB: found: computed"],
            ),
        ],
    );
}

#[test]
fn days_and_times_are_compared_in_every_form() {
    let policy = json!({"signed": "2026-08-07", "term_days": 14, "visit": "12 August 2026, 9:15"});
    check(
        Locale::En,
        &[disk(), policy],
        &[
            (
                "It was checked on 25 November 2026 at 5:05 pm [E1].",
                &["25 November 2026: found", "5:05 pm: found"],
            ),
            (
                "It was checked on November 25th at 17:05:30 UTC [E1].",
                &["November 25th: found", "17:05:30: found"],
            ),
            // The minutes are those of another zone, too.
            ("It was checked at 18:05 CET [E1].", &["18:05: found"]),
            ("It was checked on 24 November 2026 [E1].", &["24 November 2026: contradicted: in no evidence"]),
            ("It was checked at 17:06 [E1].", &["17:06: contradicted: in no evidence"]),
            (
                "It was signed on 7 August 2026, and is due on 21 August 2026 [E2].",
                &["7 August 2026: found", "21 August 2026: found: computed"],
            ),
            (
                "It is due 30 days later, on 12 October 2026 [E2].",
                &[
                    "30 days: contradicted: in no evidence",
                    "12 October 2026: not_checked: a day that is counted from another",
                ],
            ),
            (
                "As of 26 November 2026 it is open [E1].",
                &["26 November 2026: not_checked: the day of the run"],
            ),
        ],
    );
}

#[test]
fn ids_names_and_quotations_are_compared_word_by_word() {
    let mail = json!({"message": "The disk quota was exceeded on AC-57173, see INV-2044.", "commit": "0a6e047854d2dcf7b3614f7d",
        "from": "priya@example.org", "owner": "Noor Whitfield"});
    check(
        Locale::En,
        &[mail, disk()],
        &[
            (
                "AC-57173 and inv-2044 are named in 0a6e0478 [E1].",
                &["AC-57173: found", "inv-2044: found", "0a6e0478: found"],
            ),
            ("AC-57137 is named [E1].", &["AC-57137: contradicted: in no evidence"]),
            // Nothing of its form is there.
            ("It is the case T1042X [E1].", &["T1042X: not_checked: no id of its form is in the evidence"]),
            (
                "The mail of priya@example.org says \"disk quota was exceeded\" [E1].",
                &["priya@example.org: found", "\"disk quota was exceeded\": found"],
            ),
            (
                "It says \"the disk has failed\" [E1].",
                &["\"the disk has failed\": contradicted: in no evidence"],
            ),
            (
                "It belongs to Mrs Whitfield, not to Leila Whitfield [E1].",
                &["Mrs Whitfield: found", "Leila Whitfield: contradicted: the evidence says: Noor Whitfield"],
            ),
            // The subject of a sentence may be known from elsewhere.
            (
                "RQ-77120 was opened by Noor Whitfield [E2].",
                &[
                    "RQ-77120: found: not in the cited evidence",
                    "Noor Whitfield: found: not in the cited evidence",
                ],
            ),
        ],
    );
}

#[test]
fn absence_is_cited_from_what_says_so() {
    check(
        Locale::En,
        &[disk(), json!([])],
        &[
            ("There is no replica [E1].", &["no replica: found"]),
            ("No open incident was found [E2].", &["No open: found"]),
            ("There is no backup [E1].", &["no backup: contradicted: not in the cited evidence"]),
            ("It matches no pair of them [E1].", &[]),
        ],
    );
    check(
        Locale::En,
        &[disk()],
        &[("There is no backup [E1].", &["no backup: contradicted: in no evidence"])],
    );
    check(
        Locale::De,
        &[disk()],
        &[("Es gibt kein Backup [E1].", &["kein Backup: contradicted: in no evidence"])],
    );
}

#[test]
fn what_other_evidence_has_is_cited_wrongly() {
    let data = [json!({"size_gb": 42}), json!({"size_gb": 311, "seats": 31})];
    let claims = read(Locale::En, &data, "It has 311 GB [E1]. It has 42 GB. It has 31 seats [E1].");
    let said: Vec<_> =
        claims.iter().map(|it| (it.state.name(), it.wrong_citation, it.evidence.as_slice())).collect();
    // A short number may be there by chance.
    let (one, two) = ([EvidenceId(1)], [EvidenceId(2)]);
    let expected: [(_, _, &[EvidenceId]); 3] =
        [("contradicted", true, &two), ("found", false, &one), ("not_checked", false, &[])];
    assert_eq!(said, expected);
}

#[test]
fn forms_that_documents_write_are_read() {
    let table = json!({"revenue": 4_213_000, "period": "Q4 2026", "growth": "3-6 %", "age": "aged 15", "rent_usd": 625,
        "window": "60 days", "years": "1933 to 2006"});
    check(
        Locale::En,
        &[table],
        &[
            ("Revenue was $4.2 million in Q4 [E1].", &["$4.2 million: found", "Q4: found"]),
            ("It was Q3 [E1].", &["Q3: contradicted: in no evidence"]),
            ("Sales grow by 3–6% [E1].", &["3: found", "6%: found"]),
            (
                "A 15-year-old pays $625/month in a 60-day window [E1].",
                &["15-year: found", "$625: found", "60-day: found"],
            ),
            ("She lived 1933-2006 [E1].", &["1933: found", "2006: found"]),
        ],
    );
    check(
        Locale::De,
        &[json!({"netto": 1533.5, "waehrung": "EUR", "zaehler_kwh": 8513})],
        &[(
            "Netto sind es 1.533,50 €, der Zähler steht bei 8.513 kWh [E1].",
            &["1.533,50 €: found", "8.513 kWh: found"],
        )],
    );
    check(
        Locale::Ja,
        &[json!({"amount_jpy": 285_000, "at": "2026-06-14T10:20:00Z"})],
        &[(
            "6月14日10時20分に285,000円が返却されました [E1]。",
            &["6月14日: found", "10時20分: found", "285,000円: found"],
        )],
    );
}

#[test]
fn a_table_may_be_in_thousands() {
    let mut evidence = loop_testkit::evidence(1, "fetch", Status::Ok, &Value::Null);
    let text =
        "(in thousands of USD)\n| month | revenue |\n|---|---|\n| May | 1,658.0 |\n| June | 1,028.6 |\n";
    let observation = loop_core::types::Observation::new(Status::Ok, "", text, "null");
    evidence.observation = std::sync::Arc::new(observation);
    let item = WorkItem::new("T-7", "ticket", "", "");
    let read = |body: &str| {
        let sources = ClaimSources {
            evidence: std::slice::from_ref(&evidence),
            tools: &[],
            item: &item,
            unix_ms: START,
            utc_offset: 0,
            locale: Locale::En,
        };
        claims(&findings(body), sources).iter().map(|it| it.state.name()).collect::<Vec<_>>()
    };
    assert_eq!(
        read("May brought $1,658 thousand, June $1.0286 million, both $2,686,600 [E1]."),
        ["found"; 3]
    );
    assert_eq!(read("May brought $1,685 thousand [E1]."), ["contradicted"]);
}

//! The other pages: runs with filters and cursors, what waits, two runs, a backtest.

use std::collections::BTreeSet;
use std::sync::Arc;

use loop_domain::PolicyFile;
use loop_inspect::backtest::{BacktestReport, Policies, Policy, RunsOf};
use loop_inspect::diff::RunDiff;
use loop_inspect::listed::{ListedCost, ListedRun, ListedState};
use loop_runtime::journal::{Durability, Entry, Header, Journal as _, MemoryJournal};

use loop_server::pages::{
    ApproveForm, ApprovePage, ComparePage, Notice, OneRunPage, OneRunView, PagePlace, RUNS_PER_PAGE,
    RunsFilter, RunsPage, approve, backtest, compare, runs as list,
};

use loop_testkit::{draft, target};

use super::inert;
use super::runs;

/// Runs of several domains, days and outcomes, newest first. Two of each instant.
fn listed(count: u64) -> Vec<ListedRun> {
    let states = [
        ListedState::Ended,
        ListedState::Ended,
        ListedState::Waiting,
        ListedState::Running,
        ListedState::Damaged,
    ];
    (0..count)
        .rev()
        .map(|n| {
            let state = states[n as usize % states.len()];
            let ended = state == ListedState::Ended;
            ListedRun {
                run: format!("{n:08}-run"),
                started_unix_ms: 1_790_000_000_000 + n / 2 * 3_600_000,
                domain: ["helpdesk", "crm", "<script>"][n as usize % 3].to_owned(),
                item: format!("T-{n}"),
                title: format!("Title {n} \u{202e}<b>"),
                tags: vec![format!("tag{}", n % 2)],
                entries: 10 + n,
                state,
                class: ended.then(|| "answered".to_owned()),
                reason: ended.then(|| "confident".to_owned()),
                cost: ListedCost { usd: Some(0.001), pico_usd: 1_000_000_000 * (n % 7), unpriced_calls: 0 },
                duration_ms: ended.then_some(n % 11 * 1_000),
                model: Some(["small", "<b>large"][n as usize % 2].to_owned()),
                confidence: ["high", "low", "medium"].get(n as usize % 4).map(|name| (*name).to_owned()),
                caller: (n % 2 == 0).then(|| "ann".to_owned()),
                imported: false,
                label: None,
                trouble: (state == ListedState::Damaged).then(|| "entry 3: <i>".to_owned()),
            }
        })
        .collect()
}

#[test]
fn every_run_is_on_exactly_one_page_of_the_list() {
    for sort in ["", "oldest", "cost", "duration", "confidence", "nonsense"] {
        every_run_is_on_one_page(sort);
    }
}

/// The pages of a list in this order, whose rows are in one order over all of them.
fn every_run_is_on_one_page(sort: &str) {
    let all = listed(173);
    let mut found = BTreeSet::new();
    let (mut pages, mut cursor, mut order) = (0, None::<String>, Vec::new());
    loop {
        let filter = RunsFilter { sort: sort.to_owned(), ..RunsFilter::default() };
        let page = RunsPage::of(&all, filter, cursor.as_deref());
        let html = list(&page);
        order.extend(html.split("<tr data-run=\"").skip(1).map(|row| row[..8].parse::<usize>().unwrap()));
        let text = inert(&html).seen();
        pages += 1;
        for run in &all {
            if text.contains(&format!("{}: Title", run.item)) && text.contains(&run.run[..8]) {
                assert!(found.insert(run.run.clone()), "{} is on two pages", run.run);
            }
        }
        let Some(next) = page.next_page() else { break };
        cursor = Some(next.split("before=").nth(1).unwrap().to_owned());
    }
    assert_eq!((found.len(), pages), (173, 173_usize.div_ceil(RUNS_PER_PAGE)), "{sort}");
    let run = |n: &usize| &all[172 - n];
    let key = |n: &usize| match sort {
        "oldest" => u64::MAX - run(n).started_unix_ms,
        "cost" => run(n).cost.pico_usd,
        "duration" => run(n).duration_ms.map_or(0, |ms| ms + 1),
        "confidence" => ["low", "medium", "high"]
            .iter()
            .position(|it| Some(*it) == run(n).confidence.as_deref())
            .map_or(0, |at| at as u64 + 1),
        _ => run(n).started_unix_ms,
    };
    let keys: Vec<u64> = order.iter().map(key).collect();
    assert!(keys.is_sorted_by(|a, b| a >= b), "{sort}: {keys:?}");
}

#[test]
fn filters_narrow_the_list_and_stay_in_its_links() {
    let all = listed(400);
    let filter = |domain: &str, outcome: &str, tag: &str| RunsFilter {
        domain: domain.to_owned(),
        outcome: outcome.to_owned(),
        tag: tag.to_owned(),
        ..RunsFilter::default()
    };
    let page = RunsPage::of(&all, filter("<script>", "answered", "tag1"), None);
    let text = inert(&list(&page)).seen();
    let fitting =
        all.iter().filter(|it| it.domain == "<script>" && it.outcome() == "answered" && it.tags == ["tag1"]);
    assert!(text.contains(&format!("{} runs :", fitting.count())), "{text}");
    // What waits is first, whatever is filtered.
    assert!(text.find("runs wait for a person").unwrap() < text.find("Id or title").unwrap(), "{text}");
    let page = RunsPage::of(&all, filter("crm", "", ""), None);
    assert!(page.next_page().unwrap().starts_with("/?domain=crm&before="), "{:?}", page.next_page());
    let since = RunsFilter { since: "2999-01-01".to_owned(), ..RunsFilter::default() };
    assert!(inert(&list(&RunsPage::of(&all, since, None))).seen().contains("0 runs"));
    let text = RunsFilter { text: "title 399".to_owned(), ..RunsFilter::default() };
    assert!(inert(&list(&RunsPage::of(&all, text, None))).seen().contains("1 run :"));
    let shows = |filter: RunsFilter, fits: &dyn Fn(&ListedRun) -> bool| {
        let fitting = all.iter().filter(|run| fits(run)).count();
        let text = inert(&list(&RunsPage::of(&all, filter.clone(), None))).seen();
        assert!(fitting > 0 && text.contains(&format!("{fitting} runs :")), "{filter:?}: {fitting}, {text}");
    };
    let any = RunsFilter::default;
    shows(RunsFilter { reason: "confident".into(), ..any() }, &|run| run.reason.is_some());
    shows(RunsFilter { model: "<b>large".into(), ..any() }, &|run| run.model.as_deref() == Some("<b>large"));
    shows(RunsFilter { confidence: "low".into(), ..any() }, &|run| run.confidence.as_deref() == Some("low"));
    shows(RunsFilter { cost: "0.004".into(), ..any() }, &|run| run.cost.pico_usd >= 4_000_000_000);
    shows(RunsFilter { seconds: "7.5".into(), ..any() }, &|run| {
        run.duration_ms.is_some_and(|ms| ms >= 7_500)
    });
    let both = RunsFilter { model: "small".into(), seconds: "3".into(), sort: "cost".into(), ..any() };
    shows(both, &|run| {
        run.model.as_deref() == Some("small") && run.duration_ms.is_some_and(|ms| ms >= 3_000)
    });
    // What cannot be read is named and left out.
    for (filter, name) in [
        (RunsFilter { cost: "much".into(), ..any() }, "Cost: `much`"),
        (RunsFilter { seconds: "-1".into(), ..any() }, "Seconds: `-1`"),
        (RunsFilter { since: "<i>".into(), ..any() }, "Since: `<i>`"),
    ] {
        let text = inert(&list(&RunsPage::of(&all, filter, None))).seen();
        assert!(text.contains(name) && text.contains("400 runs :"), "{text}");
    }
    // A cursor that is none begins at the newest.
    let page = RunsPage::of(&all, RunsFilter::default(), Some("../../etc"));
    assert!(inert(&list(&page)).seen().contains("T-399: "));
}

#[test]
fn the_charts_have_their_numbers_as_text() {
    let mut all = listed(30);
    all.retain(|run| run.state == ListedState::Ended);
    all.iter_mut().for_each(|run| run.started_unix_ms = 1_790_000_000_000);
    all.truncate(12);
    for (n, run) in all.iter_mut().enumerate() {
        let is_slow = n >= 5;
        run.duration_ms = Some(if is_slow { 200 } else { 100 });
        run.class = Some(if is_slow { "answered" } else { "failed" }.to_owned());
        (run.domain, run.model) = ("crm".to_owned(), Some("small".to_owned()));
    }
    let text = inert(&list(&RunsPage::of(&all, RunsFilter::default(), None))).seen();
    // 7 of 12 were answered; half of them ended within 200 ms, as did 95 of a hundred.
    for part in ["12 7 answered, 5 failed 58 %", "200 ms 200 ms", "crm small 12"] {
        assert!(text.contains(part), "`{part}` is missing in {text}");
    }
}

#[test]
fn a_plan_and_where_a_tool_connects_are_on_the_pages() {
    // Issue 44, parts 1 and 6
    let plan = serde_json::json!([{ "tool": "restart", "fixed": { "target": "L-1" } }]);
    let asks = draft("low").section("Findings", "a").asks("restart", target("L-1"));
    let setup = loop_testkit::run().people().with(|spec| spec.plan = serde_json::from_value(plan).unwrap());
    let world = setup.start_as("run-3").started().answered(&asks);
    let manifest = r#"[{"name": "restart", "connects_to": "https://desk.example/restart"}]"#;
    let html = approve(&ApprovePage::of(&world.run, manifest, world.run.now(), ApproveForm::default()));
    let text = inert(&html).seen();
    for part in [
        "The plan, which the domain gives",
        "restart(target = \"L-1\", …), 1 call: not used",
        "It connects to https://desk.example/restart",
        "It fits the plan: restart(target = \"L-1\", …), 1 call",
        "the plan, which fixes it",
    ] {
        assert!(text.contains(part), "`{part}` is missing in {text}");
    }
    let world = world.answered_by_person("1/action-0", loop_core::run::PersonAnswer::Approved);
    let (id, recorded) = runs::recorded(&world);
    let page = OneRunPage::of(&id, &recorded, OneRunView::default()).unwrap();
    let text = inert(&loop_server::pages::run(&page)).seen();
    assert!(text.contains("restart(target = \"L-1\", …), 1 call: used by 1/action-0"), "{text}");
}

#[test]
fn what_waits_is_shown_to_the_byte_with_where_it_came_from() {
    let world = runs::half_approved();
    let form = ApproveForm {
        csrf: "token-1".to_owned(),
        account: "token bob".to_owned(),
        is_for_reading: false,
        notice: Some(Notice { text: "One more has to approve it.".to_owned(), is_good: true }),
        others: vec![("run-9".to_owned(), "T-9: other".to_owned())],
    };
    let html = approve(&ApprovePage::of(&world.run, "[]", world.run.now(), form));
    let text = inert(&html).seen();
    let requested = &world.run.requested()[0];
    for part in [
        "\"target\": \"L-\\u200b1\"",
        "characters that do not show: U+200B",
        "the model wrote it",
        "2 people have to approve it; 1 has so far.",
        "approved by ann (token ann)",
        "It counts as given by token bob.",
        "One more has to approve it.",
        "T-9: other",
    ] {
        assert!(text.contains(part), "`{part}` is missing in {text}");
    }
    // I-26: the form carries the binding of what is shown, and the token against forged requests.
    assert!(html.contains(&format!("name=\"binding\" value=\"{}\"", requested.binding)), "{html}");
    assert!(
        html.contains("name=\"csrf\" value=\"token-1\"")
            && html.contains("method=\"post\" action=\"/runs/run-2/approve\"")
    );
    // Without a token there is nothing to send.
    let html = approve(&ApprovePage::of(&world.run, "[]", world.run.now(), ApproveForm::default()));
    assert!(!html.contains("<form") && inert(&html).seen().contains("not decide it"), "{html}");
    let late = ApproveForm { csrf: "token-1".to_owned(), ..ApproveForm::default() };
    let html = approve(&ApprovePage::of(&world.run, "[]", requested.deadline.unwrap(), late));
    assert!(!html.contains("<form") && inert(&html).seen().contains("counts as a denial"), "{html}");
}

#[test]
fn two_runs_are_compared() {
    let (a, b) = (runs::recorded(&runs::whole()), runs::recorded(&runs::stopped()));
    let diff = RunDiff::of((&a.0, &a.1), (&b.0, &b.1)).unwrap();
    let page = ComparePage {
        asked: ["run-1".to_owned(), "run-3".to_owned()],
        diff: Some(diff),
        trouble: None,
        others: Vec::new(),
    };
    let text = inert(&compare(&page)).seen();
    for part in ["Stop", "confident", "manual_stop", "Decisions", "Pass 1", "Cost and usage"] {
        assert!(text.contains(part), "`{part}` is missing in {text}");
    }
    let same = RunDiff::of((&a.0, &a.1), (&a.0, &a.1)).unwrap();
    let page = ComparePage {
        asked: Default::default(),
        diff: Some(same),
        trouble: Some("<script>".to_owned()),
        others: vec![("run-9".to_owned(), "T-9: <b>".to_owned())],
    };
    let text = inert(&compare(&page)).seen();
    assert!(text.contains("Nothing differs.") && text.contains("T-9: <b>"), "{text}");
}

#[tokio::test]
async fn a_backtest_is_a_picture_with_its_runs_behind() {
    let worlds = [runs::whole(), runs::stopped()];
    let journal = Arc::new(MemoryJournal::new());
    let mut ids = Vec::new();
    for world in &worlds {
        let (id, recorded) = runs::recorded(world);
        let header = Header {
            run: id.clone(),
            unix_ms: world.run.started().unix_ms,
            item: "<script>alert(1)</script>".into(),
            title: "T".into(),
            spec: Arc::clone(&recorded.spec),
            manifest_hash: world.run.started().tools,
            manifest: "[]".into(),
            origin: None,
            request_key: None,
        };
        let entries: Vec<Arc<Entry>> = recorded.entries.into_iter().map(Arc::new).collect();
        let mut writer = journal.create(&header, &entries[0]).await.unwrap();
        writer.append_all(&entries[1..], Durability::Committed).await.unwrap();
        ids.push(id);
    }
    let file =
        PolicyFile::of_text("p.toml".into(), "name = \"a<b>&\"\n[limits]\npasses = 1\n".to_owned(), &[]);
    let file = file.unwrap();
    let policy = Policy::new(file.name().to_owned(), file.settings(), move |spec| file.applied(spec));
    let policies = Arc::new(Policies::new(vec![policy]));
    let of = RunsOf { handles: vec![journal], runs: ids };
    let tested = policies.over(&of, &Arc::default(), false).await;
    let report = BacktestReport::new(&policies, tested);
    let pages = [PagePlace::File, PagePlace::Server].map(|place| backtest(&report, place));
    for page in &pages {
        let text = inert(page).seen();
        assert!(text.contains("2 recorded runs") && text.contains("a<b>&"), "{text}");
        assert_eq!(page.matches("<ellipse").count(), 2, "each run is a point");
    }
    assert!(pages[1].contains("href=\"/runs/run-1") && !pages[0].contains("/runs/"), "{}", pages[1]);
    assert_eq!(pages[0], backtest(&report, PagePlace::File), "the same report is the same page");
}

//! Cases with several models, several times: columns, repeats, stored results (issue 17, part 10).

use loop_core::types::Tier;
use loop_eval::case::Case;
use loop_eval::eval::{
    Configuration, ConfigurationSummary, ResultStore, RunOptions, Suite, TrialResults, Trials,
};
use loop_eval::report::{EvalReport, junit, trials_table};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Cases in a folder with two models: one looks up and answers, one answers at once.
struct Setup {
    folder: TempDir,
}

impl Setup {
    fn new() -> Self {
        let setup = Self { folder: tempfile::tempdir().unwrap() };
        setup.file(
            "careful.json",
            &json!([
                { "calls": [{ "name": "read_hours" }] }, { "text": "At nine." },
            ]),
        );
        setup.file("hasty.json", &json!([{ "text": "At ten." }]));
        setup
    }

    /// A script with these replies.
    fn file(&self, name: &str, replies: &Value) {
        let script = json!({ "version": 1, "replies": replies });
        std::fs::write(self.folder.path().join(name), script.to_string()).unwrap();
    }

    fn model(&self, name: &str) -> String {
        format!("scripted/{}", self.folder.path().join(format!("{name}.json")).display())
    }

    fn suite(&self, cases: &[Value]) -> Suite {
        let parsed = cases.iter().enumerate().map(|(at, case)| {
            Case::parse(&case.to_string(), self.folder.path().join(format!("{at}.case.json"))).unwrap()
        });
        Suite { cases: parsed.collect() }
    }

    fn trials(&self, models: &[&str], repeat: u32) -> Trials {
        let models = models.iter().map(|name| (Tier::Base, self.model(name)));
        Trials {
            configurations: Configuration::all(models).unwrap(),
            repeat,
            jobs: 4,
            options: RunOptions::default(),
            store: None,
        }
    }

    fn stored(&self, trials: Trials) -> Trials {
        Trials { store: Some(ResultStore::open(self.folder.path().join("cache")).unwrap()), ..trials }
    }
}

fn case(id: &str) -> Value {
    json!({
        "case_id": id, "goal": "When does the shop open?",
        "mocked_tools": { "read_hours": [{ "data": { "opens": "9:00" }, "repeats": true }] },
        "replies": [{ "text": "Replaced." }],
        "expected": { "stop_reason": "completed", "required_tools": ["read_hours"] },
    })
}

async fn run(suite: &Suite, trials: &Trials) -> TrialResults {
    suite.trials(trials, |_| {}).await.unwrap()
}

#[tokio::test]
async fn each_model_is_a_configuration_and_each_repeat_a_run() {
    let setup = Setup::new();
    let suite = setup.suite(&[case("a"), case("b")]);
    let results = run(&suite, &setup.trials(&["careful", "hasty"], 3)).await.results;
    // Whichever ends first: by configuration, in it by case, in it by repeat.
    let order: Vec<(&str, u32)> =
        results.iter().map(|result| (result.case_id.as_str(), result.repeat)).collect();
    let one = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3)];
    assert_eq!(order, [one, one].concat());
    assert!(results.iter().take(6).all(|result| result.configuration.ends_with("careful.json")));
    let summaries = ConfigurationSummary::all(&results);
    let passed: Vec<(u32, u32)> = summaries.iter().map(|one| (one.passed.part, one.passed.of)).collect();
    assert_eq!(passed, [(6, 6), (0, 6)], "{results:#?}");
    // Wilson, as published for 0 of 6 and counted from the other end for 6 of 6.
    assert!((summaries[0].low - 0.609_666).abs() < 1e-6 && summaries[0].high >= 1.0, "{summaries:?}");
    assert_eq!(summaries[1].cases[1].passed.of, 3);
    assert_eq!(summaries[0].stop_reasons[0].runs, 6);
    let table = trials_table(&results, &summaries);
    assert!(table.contains("6 of 6  100.0 % 61.0 % to 100.0 % ") && table.contains("completed 6"), "{table}");
    assert!(table.contains("a        3 of 3     0 of 3\n"), "{table}");
    let numbers = table.lines().filter(|line| !line.contains("careful") && !line.contains("hasty"));
    assert!(numbers.into_iter().all(|line| line.chars().count() <= 80), "{table}");
    // Of more models than a line holds, the others follow below.
    let many = vec![summaries[0].clone(); 9];
    let table = trials_table(&results, &many);
    assert_eq!((table.matches("\ncase  ").count(), table.matches("(9)").count()), (2, 2), "{table}");
}

#[tokio::test]
async fn one_run_of_each_case_with_its_own_model_is_what_run_gives() {
    let setup = Setup::new();
    let suite = setup.suite(&[case("a")]);
    let trials = Trials { configurations: vec![Configuration::own()], ..setup.trials(&[], 1) };
    let (mut by_trials, mut by_run) = (run(&suite, &trials).await.results, suite.run(1, |_| {}).await);
    for result in by_trials.iter_mut().chain(&mut by_run) {
        (result.run, result.wall_ms) = (String::new(), 0);
    }
    assert_eq!(serde_json::to_value(by_trials).unwrap(), serde_json::to_value(by_run).unwrap());
}

#[tokio::test]
async fn a_result_is_stored_and_whatever_it_is_made_of_makes_another_run() {
    let setup = Setup::new();
    let suite = setup.suite(&[case("a")]);
    let trials = setup.stored(setup.trials(&["careful", "hasty"], 2));
    let first = run(&suite, &trials).await.results;
    assert!(first.iter().all(|result| !result.stored));
    let again = run(&suite, &trials).await.results;
    assert!(again.iter().all(|result| result.stored));
    let runs = |results: &[loop_eval::eval::CaseResult]| -> Vec<String> {
        results.iter().map(|result| result.run.clone()).collect()
    };
    // The same runs: no model was called, also for the repeats, each of which is a run of its own.
    assert_eq!(runs(&first), runs(&again));
    assert!(first[0].run != first[1].run);
    let made = async |suite: &Suite, trials: &Trials| {
        run(suite, trials).await.results.iter().filter(|result| !result.stored).count()
    };
    // One repeat more is one run more for each model.
    assert_eq!(made(&suite, &setup.stored(setup.trials(&["careful", "hasty"], 3))).await, 2);
    // Other words about a case make no other run. Another expectation, setting, tool or item does.
    let with = |change: &dyn Fn(&mut Value)| {
        let mut case = case("a");
        change(&mut case);
        setup.suite(&[case])
    };
    assert_eq!(made(&with(&|case| case["shows"] = json!("Another text.")), &trials).await, 0);
    assert_eq!(made(&with(&|case| case["expected"]["max_passes"] = json!(9)), &trials).await, 4);
    assert_eq!(made(&with(&|case| case["set"] = json!({ "limits.passes": 7 })), &trials).await, 4);
    assert_eq!(
        made(&with(&|case| case["mocked_tools"]["read_hours"][0]["data"] = json!(1)), &trials).await,
        4
    );
    assert_eq!(made(&with(&|case| case["text"] = json!("Another question.")), &trials).await, 4);
    // What the model says is in a file.
    setup.file("hasty.json", &json!([{ "text": "At eleven." }]));
    assert_eq!(made(&suite, &trials).await, 2);
    // Looked up is nothing, and what is made replaces what was there.
    let fresh = Trials { store: trials.store.clone().map(ResultStore::only_written), ..trials.clone() };
    assert_eq!(made(&suite, &fresh).await, 4);
    let after = run(&suite, &trials).await.results;
    assert!(after.iter().all(|result| result.stored && !runs(&first).contains(&result.run)));
}

#[tokio::test]
async fn the_files_of_a_domain_are_part_of_what_a_run_is_made_of() {
    let setup = Setup::new();
    let domain = setup.folder.path().join("shop");
    std::fs::create_dir_all(domain.join("notes")).unwrap();
    std::fs::create_dir_all(domain.join("evals")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(domain.join(name), text).unwrap();
    write(
        "loopgate.toml",
        "version = 1\nname = \"shop\"\npreset = \"step\"\n[tools.search]\nkind = \"docs\"\neffect = \"read\"\nfolder = \"notes\"\n",
    );
    write("notes/hours.md", "# Hours\n\nAt nine.\n");
    let suite = setup.suite(&[json!({
        "case_id": "a", "domain": "shop", "text": "When?", "model": "domain", "expected": { "stop_reason": "completed" },
    })]);
    let trials = setup.stored(setup.trials(&["hasty"], 1));
    let made = async || {
        let results = run(&suite, &trials).await.results;
        assert!(results[0].passed, "{results:?}");
        results.iter().filter(|result| !result.stored).count()
    };
    assert_eq!((made().await, made().await), (1, 0));
    write("notes/hours.md", "# Hours\n\nAt ten.\n");
    assert_eq!((made().await, made().await), (1, 0));
    write(
        "loopgate.toml",
        &(std::fs::read_to_string(domain.join("loopgate.toml")).unwrap() + "[limits]\npasses = 4\n"),
    );
    assert_eq!((made().await, made().await), (1, 0));
    // Any other file of the folder: a program of a tool may read it.
    write("tariffs.csv", "a,1\n");
    assert_eq!((made().await, made().await), (1, 0));
    // A folder elsewhere that a tool searches.
    std::fs::create_dir_all(setup.folder.path().join("elsewhere")).unwrap();
    write("../elsewhere/prices.md", "# Prices\n\nTen.\n");
    let toml = std::fs::read_to_string(domain.join("loopgate.toml")).unwrap();
    write("loopgate.toml", &toml.replace("\"notes\"", "\"../elsewhere\""));
    assert_eq!((made().await, made().await), (1, 0));
    write("../elsewhere/prices.md", "# Prices\n\nEleven.\n");
    assert_eq!((made().await, made().await), (1, 0));
    // A new case, and what a database leaves next to itself, change no run.
    write("evals/new.json", "{}");
    write("shop.db-wal", "x");
    assert_eq!(made().await, 0);
    // What is behind a link to a folder is not known, so that the run is made each time.
    #[cfg(unix)]
    std::os::unix::fs::symlink(setup.folder.path().join("elsewhere"), domain.join("linked")).unwrap();
    assert_eq!(made().await, 1);
    assert_eq!(run(&suite, &trials).await.not_stored, 1);
}

#[tokio::test]
async fn a_model_that_cannot_be_called_is_called_again_the_next_time() {
    let setup = Setup::new();
    setup.file("broken.json", &json!([{ "text": "At", "fails": "the line is cut" }]));
    let suite = setup.suite(&[case("a")]);
    let trials = setup.stored(setup.trials(&["broken"], 1));
    for _ in 0..2 {
        let results = run(&suite, &trials).await.results;
        assert_eq!((results[0].stop_reason.as_str(), results[0].stored), ("failed", false), "{results:?}");
    }
}

#[tokio::test]
async fn a_recorded_run_has_no_model_that_could_be_replaced() {
    let setup = Setup::new();
    let mut suite = setup.suite(&[case("a")]);
    let spec = loop_testkit::Setup::conversation("shop").spec;
    let recorded = json!({
        "case_id": "r", "text": "x", "recorded": { "spec": spec, "tools": [] }, "replies": [{ "text": "y" }],
        "expected": { "stop_reason": "completed" },
    });
    suite.cases.extend(setup.suite(&[recorded]).cases);
    let error = suite.trials(&setup.trials(&["hasty"], 1), |_| {}).await.unwrap_err().to_string();
    assert!(error.starts_with("--model") && error.contains("is a recorded run without a domain"), "{error}");
    // Several runs with its own replies are possible.
    let own = Trials { configurations: vec![Configuration::own()], ..setup.trials(&[], 2) };
    assert_eq!(run(&suite, &own).await.results.len(), 4);
}

#[tokio::test]
async fn settings_are_laid_over_those_of_a_case_and_a_slip_in_one_ends_it_before_a_run() {
    let setup = Setup::new();
    let suite = setup.suite(&[case("a")]);
    let with = |key: &str| {
        let options = RunOptions { set: vec![(key.to_owned(), "1".to_owned())], ..RunOptions::default() };
        Trials { options, ..setup.trials(&["careful"], 1) }
    };
    let stopped = |results: &TrialResults| results.results[0].stop_reason.clone();
    assert_eq!(stopped(&run(&suite, &with("limits.tool_calls")).await), "completed");
    assert_eq!(stopped(&run(&suite, &with("limits.passes")).await), "max_steps");
    let error = suite.trials(&with("limts.passes"), |_| panic!("it ran")).await.unwrap_err().to_string();
    assert!(error.starts_with("--model: no case can be run with ") && error.contains("`limts`"), "{error}");
}

#[tokio::test]
async fn a_build_server_reads_a_suite_for_each_configuration() {
    let setup = Setup::new();
    let results = run(&setup.suite(&[case("a<&>")]), &setup.trials(&["careful", "hasty"], 2)).await.results;
    let xml = junit(&results, None);
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suites: Vec<_> = document.descendants().filter(|node| node.has_tag_name("testsuite")).collect();
    assert_eq!(suites.len(), 2);
    let counts = |node: &roxmltree::Node<'_, '_>| {
        ["tests", "failures", "errors"].map(|name| node.attribute(name).unwrap().parse::<usize>().unwrap())
    };
    assert_eq!((counts(&suites[0]), counts(&suites[1])), ([2, 0, 0], [2, 2, 0]));
    assert_eq!(counts(&document.root_element()), [4, 2, 0]);
    for suite in suites {
        let cases: Vec<_> = suite.children().filter(|node| node.has_tag_name("testcase")).collect();
        let names: Vec<_> = cases.iter().map(|case| case.attribute("name").unwrap()).collect();
        assert_eq!(names, ["a<&> #1", "a<&> #2"]);
        let failed = cases.iter().filter(|case| case.first_element_child().is_some()).count();
        assert_eq!(failed, counts(&suite)[1]);
    }
}

#[tokio::test]
async fn a_page_shows_what_the_report_says_and_is_the_same_each_time() {
    let setup = Setup::new();
    let results =
        run(&setup.suite(&[case("a<script>")]), &setup.trials(&["careful", "hasty"], 2)).await.results;
    let report = EvalReport::new(results, None);
    let page = loop_eval::report::page(&report);
    assert_eq!(page, loop_eval::report::page(&report));
    for part in ["2 of 4 runs passed", "careful.json", "34.2 % to 100.0 %", "completed 2", "a&lt;script&gt;"]
    {
        assert!(page.contains(part), "`{part}` is missing in {page}");
    }
    assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"), "{page}");
    // Issue 45: the verdict is a sentence; a cell leads to its transcript; what did not pass comes first and can be shown alone.
    assert!(page.contains("; 2 did not, first a&lt;script&gt;"), "{page}");
    assert!(
        page.contains("<a href=\"#part-0\">0 of 2</a>") && page.contains("<a href=\"#part-2\">2 of 2</a>")
    );
    let parts: Vec<&str> =
        page.split("<details ").skip(1).map(|part| part.split('>').next().unwrap()).collect();
    let bad = |number| format!("class=\"part-bad\" id=\"part-{number}\" open");
    let good = |number| format!("class=\"part-good\" id=\"part-{number}\"");
    assert_eq!(parts, [bad(0), bad(1), good(2), good(3)]);
    let first = page.split("id=\"part-0\"").nth(1).unwrap();
    let [item, model, end] = ["item", "model", "end"].map(|by| first.find(&format!(">{by}</td>")).unwrap());
    assert!(item < model && model < end, "{page}");
    assert!(page.contains("id=\"only-bad\"") && page.contains(":has(#only-bad:checked) .part-good"));
}

#[tokio::test]
async fn a_model_that_could_not_be_had_is_not_judged_by_what_another_answered() {
    // Issue 45: with a wrong key or name, the domain's fallback answered under the model's name.
    let setup = Setup::new();
    setup.file("broken.json", &json!([]));
    let domain = |fallback: &str| {
        let file = "version = 1\nname = \"d\"\ngoal = \"Answer.\"\nprotocol.type = \"conversation\"\n[item]\nkind = \"question\"\n";
        std::fs::create_dir_all(setup.folder.path().join("d")).unwrap();
        std::fs::write(setup.folder.path().join("d/loopgate.toml"), format!("{file}{fallback}")).unwrap();
    };
    let case = json!({
        "case_id": "a", "domain": "d", "model": "domain", "goal": "When does it open?", "expected": { "class": "answered" },
    });
    for (fallback, why) in [
        ("", "The model could not be used"),
        ("[models.fallback]\nprovider = \"offline\"\n", "the domain's fallback model answered in its place"),
    ] {
        domain(fallback);
        let suite = setup.suite(std::slice::from_ref(&case));
        let trials = setup.stored(setup.trials(&["broken"], 1));
        let results = run(&suite, &trials).await.results;
        let error = results[0].error.clone().unwrap_or_default();
        assert!(!results[0].passed && error.contains(why), "{:#?}", results[0]);
        let summaries = ConfigurationSummary::all(&results);
        assert_eq!((summaries[0].passed.of, summaries[0].not_run), (0, 1));
        // It is tried again the next time.
        assert!(!run(&suite, &trials).await.results[0].stored);
    }
}

#[test]
fn the_schema_of_the_report_is_that_of_the_type() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/eval.schema.json");
    let text = serde_json::to_string_pretty(&schemars::schema_for!(EvalReport)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{} is stale: run this test with UPDATE_SCHEMA=1", path.display());
}

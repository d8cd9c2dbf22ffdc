//! Full-text search in the list, and two runs that are selected in it.

use std::sync::Arc;

use axum::http::StatusCode;
use loop_core::types::RunId;
use loop_runtime::journal::{Durability, Journal as _, StoredJournal};
use loop_server::caller::Role;

use super::known::copy;
use super::served::{Served, caller, over};
use super::{inert, runs};

async fn write(journal: &StoredJournal, id: &str, at: u64) {
    let (header, entries) = copy(&runs::whole(), id, 1_790_000_000_000 + at);
    let mut writer = journal.create(&header, &entries[0]).await.unwrap();
    writer.append_all(&entries[1..], Durability::Committed).await.unwrap();
}

#[tokio::test]
async fn words_of_documents_and_evidence_are_found_by_those_who_see_the_domain() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(StoredJournal::open(folder.path().join("runs.db")).unwrap());
    for n in 1..=3 {
        write(&journal, &format!("run-{n}"), n).await;
    }
    let served = Served::of(over(Arc::clone(&journal)));
    let reader = || caller(&[Role::Read], None);
    let seen = async |path: &str| {
        let (status, page) = served.get(reader(), path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        inert(&page).seen()
    };
    // Of the document, of the evidence, and a phrase; an older journal gets its index with the first search.
    for words in ["delete", "ignore+RULES", "%22disk+100%22", "next+steps"] {
        assert!(seen(&format!("/?words={words}")).await.contains("3 runs :"), "{words}");
    }
    for words in ["nothing-of-it", "%22rules+ignore%22", "delet*"] {
        assert!(seen(&format!("/?words={words}")).await.contains("0 runs"), "{words}");
    }
    // What cannot be searched for is said, and what would be syntax is text.
    assert!(seen("/?words=***").await.contains("there is no word in the search"));
    assert!(seen("/?words=a+b+c+d+e+f+g+h+i").await.contains("more than 8 terms"));
    for words in ["%22", "a%22b", "AND", "words%3Adelete", "%27%3B+DROP+TABLE+runs", "NEAR(%00", "%5C"] {
        served.get(reader(), &format!("/?words={words}")).await;
    }
    // Other domains do not exist, whatever they have.
    let (_, page) = served.get(caller(&[Role::Read], Some(&["crm"])), "/?words=delete").await;
    assert!(inert(&page).seen().contains("0 runs") && !page.contains("run-1"), "{page}");
    // A run that is pruned leaves the index, and its words leave the file.
    journal.prune(&RunId::new("run-2")).await.unwrap();
    assert!(seen("/?words=delete").await.contains("2 runs :"));
    write(&journal, "run-4", 4).await;
    assert!(seen("/?words=delete").await.contains("3 runs :"), "a run that ended since is found");
}

#[tokio::test]
async fn two_runs_that_are_selected_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(StoredJournal::open(folder.path().join("runs.db")).unwrap());
    for n in 1..=3 {
        write(&journal, &format!("run-{n}"), n).await;
    }
    let served = Served::of(over(journal));
    let get = async |path: &str| {
        let (status, page) = served.get(caller(&[Role::Read], None), path).await;
        (status, inert(&page).seen())
    };
    let (_, list) = served.get(caller(&[Role::Read], None), "/").await;
    assert_eq!(list.matches("<input type=\"checkbox\" name=\"run\"").count(), 3, "{list}");
    let (status, both) = get("/compare?run=run-1&run=run-2").await;
    assert!(status == StatusCode::OK && both.contains("A: run-1 , B: run-2"), "{both}");
    let (status, one) = get("/compare?run=run-1").await;
    assert!(status == StatusCode::OK && one.contains("Compare it with"), "{one}");
    let (status, many) = get("/compare?run=run-1&run=run-2&run=run-3").await;
    assert!(status == StatusCode::BAD_REQUEST && many.contains("More than two runs"), "{many}");
    assert_eq!(get("/compare?run=run-1&run=none").await.0, StatusCode::NOT_FOUND);
    assert_eq!(get("/compare").await.0, StatusCode::OK);
}

#[test]
fn prompts_are_compared_word_by_word() {
    use loop_inspect::diff::RunDiff;
    use loop_runtime::spec::Prompts;
    use loop_server::pages::{ComparePage, compare};

    let prompts = Prompts::builtin();
    let [a, b] = [runs::whole(), runs::stating()].map(|world| {
        let (id, recorded) = runs::recorded(&world);
        (id.clone(), super::moments::sent(&id, recorded, &prompts))
    });
    let diff = RunDiff::of((&a.0, &a.1), (&b.0, &b.1)).unwrap();
    assert!(diff.prompts.is_empty());
    let diff = diff.with_prompts((&a.0, &a.1, &prompts), (&b.0, &b.1, &prompts));
    let second = diff.prompts.iter().find(|change| change.name == "2/main").unwrap();
    let of =
        |mark: char| second.lines.iter().filter(|piece| piece.starts_with(mark)).cloned().collect::<String>();
    assert!(of('-').contains("mail") && of('+').contains("web-1.example"), "{second:?}");
    let common = second.lines.iter().filter(|piece| piece.starts_with(' ')).map(String::len).max().unwrap();
    assert!(common < 400, "what both have is cut: {common}");
    let same = RunDiff::of((&a.0, &a.1), (&a.0, &a.1)).unwrap();
    assert!(same.with_prompts((&a.0, &a.1, &prompts), (&a.0, &a.1, &prompts)).prompts.is_empty());
    let page = ComparePage { asked: Default::default(), diff: Some(diff), trouble: None, others: Vec::new() };
    let text = inert(&compare(&page)).seen();
    assert!(text.contains("Prompts") && text.contains("[only in B: "), "{text}");
}

#[tokio::test]
async fn a_list_that_has_not_changed_is_not_sent_again() {
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt as _;

    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(StoredJournal::open(folder.path().join("runs.db")).unwrap());
    write(&journal, "run-1", 1).await;
    let router = over(Arc::clone(&journal)).layer(axum::Extension(caller(&[Role::Read], None)));
    let get = async |tag: &str| {
        let request = Request::get("/").header("if-none-match", tag).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let tag = response.headers()["etag"].to_str().unwrap().to_owned();
        assert_eq!(response.headers()["cache-control"], "no-store");
        (response.status(), tag)
    };
    let (status, tag) = get("\"other\"").await;
    assert_eq!((status, get(&tag).await.0), (StatusCode::OK, StatusCode::NOT_MODIFIED));
    write(&journal, "run-2", 2).await;
    assert_eq!(get(&tag).await.0, StatusCode::OK);
}

// `LOOPGATE_LOAD=full` measures the list of 5,000 runs: each request comes after a run that has ended since.
#[tokio::test]
async fn a_long_list_answers_quickly() {
    let is_full = std::env::var("LOOPGATE_LOAD").is_ok_and(|load| load == "full");
    let count = if is_full { 5_000 } else { 120 };
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(StoredJournal::open(folder.path().join("runs.db")).unwrap());
    for n in 0..count {
        write(&journal, &format!("run-{n:05}"), n * 400_000).await;
    }
    let served = Served::of(over(Arc::clone(&journal)));
    let get = async |path: &str| {
        let began = std::time::Instant::now();
        let (status, page) = served.get(caller(&[Role::Read], None), path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        (began.elapsed(), page)
    };
    let mut figures = vec![format!("first list {:?}", get("/").await.0)];
    let began = std::time::Instant::now();
    let mut searches = 0;
    while get("/?words=delete").await.1.contains("not searched yet") {
        searches += 1;
    }
    figures.push(format!("index {:?}, {searches} searches before the last", began.elapsed()));
    for path in [
        "/",
        "/?outcome=answered&model=fake",
        "/?sort=cost",
        "/?sort=duration&seconds=1",
        "/?text=t-1&cost=0",
        "/?words=delete",
        "/?words=delete+ignore+%22next+steps%22&sort=oldest",
    ] {
        let mut times = Vec::new();
        for n in 0..if is_full { 200 } else { 3 } {
            if n % 10 == 0 {
                write(&journal, &format!("{}-{n}", path.len()), 1_999_000_000 + n).await;
            }
            times.push(get(path).await.0);
        }
        times.sort_unstable();
        let p99 = times[(times.len() * 99).div_ceil(100) - 1];
        figures.push(format!("{path}: p50 {:?}, p99 {p99:?}", times[times.len() / 2]));
    }
    if is_full {
        std::io::Write::write_all(&mut std::io::stderr(), (figures.join("\n") + "\n").as_bytes()).unwrap();
    }
}

//! How long a page takes (issue 18, part 10): until its first byte, and until its last.
//!
//! By hand: `LOOPGATE_PAGE_LOAD=1 cargo test -p loop-server --features http pages::load -- --nocapture`.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::StreamExt as _;
use loop_runtime::journal::{Durability, Journal as _, SqliteJournal, replay};
use loop_runtime::report::sent_prompts;
use loop_runtime::spec::Prompts;
use loop_server::caller::Role;
use loop_server::pages::{OneRunPage, OneRunView};
use loop_testkit::World;
use tower::ServiceExt as _;

use super::known::copy;
use super::served::{caller, kept, over};
use super::{inert, runs};

/// Copies of a run under other ids, each a second after the one before it.
async fn copied(journal: &SqliteJournal, world: &World, ids: Range<u64>) {
    for n in ids {
        let (header, entries) = copy(world, &format!("run-{n:05}"), 1_790_000_000_000 + n * 1_000);
        let mut writer = journal.create(&header, &entries[0]).await.unwrap();
        writer.append_all(&entries[1..], Durability::Committed).await.unwrap();
    }
}

/// A page: until its first byte, until its last, and what it is.
async fn asked(router: &axum::Router, path: &str) -> (Duration, Duration, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let begun = Instant::now();
    let answered =
        router.clone().layer(Extension(caller(&[Role::Read], None))).oneshot(request).await.unwrap();
    assert_eq!(answered.status(), StatusCode::OK, "{path}");
    let mut body = answered.into_body().into_data_stream();
    let (mut first, mut page) = (None, Vec::new());
    while let Some(piece) = body.next().await {
        first.get_or_insert_with(|| begun.elapsed());
        page.extend_from_slice(&piece.unwrap());
    }
    (first.unwrap(), begun.elapsed(), String::from_utf8(page).unwrap())
}

/// The median time of some work, and its result.
async fn took<T, F: Future<Output = T>>(times: u64, work: impl Fn() -> F) -> (Duration, T) {
    let mut figures = Vec::new();
    loop {
        let begun = Instant::now();
        let result = work().await;
        figures.push(begun.elapsed());
        if figures.len() as u64 >= times.min(20) {
            figures.sort_unstable();
            return (figures[figures.len() / 2], result);
        }
    }
}

#[expect(clippy::print_stdout, reason = "figures are made by hand")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_of_a_long_run_and_a_long_list() {
    let is_asked = std::env::var_os("LOOPGATE_PAGE_LOAD").is_some();
    let (passes, count, times) = if is_asked { (660, 5_000, 100) } else { (12, 60, 1) };
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(SqliteJournal::open(folder.path().join("runs.db")).unwrap());
    let long = kept(&journal, &runs::long(passes)).await;
    copied(&journal, &runs::stopped(), 0..count).await;
    let router = over(Arc::clone(&journal));
    println!("load before: {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
    let at =
        |figures: &[Duration], share: usize| figures[(figures.len() * share / 100).min(figures.len() - 1)];
    for (name, path) in [
        ("list, first request of the process", "/".to_owned()),
        ("list", "/".to_owned()),
        ("list by domain and outcome", "/?domain=helpdesk&outcome=cancelled".to_owned()),
        ("list by text", "/?text=t-49".to_owned()),
        ("list while a run is added", "/?domain=helpdesk".to_owned()),
        ("run", format!("/runs/{long}")),
        ("run at an event", format!("/runs/{long}?at=20")),
        ("compare", format!("/compare?a={long}&b={long}")),
    ] {
        let (mut firsts, mut wholes, mut bytes) = (Vec::new(), Vec::new(), 0);
        for n in 0..if name.contains("first") { 1 } else { times } {
            if name.contains("added") {
                copied(&journal, &runs::stopped(), count + n..count + n + 1).await;
            }
            let (first, whole, page) = asked(&router, &path).await;
            firsts.push(first);
            wholes.push(whole);
            if bytes == 0 {
                inert(&page);
            }
            bytes = page.len();
        }
        firsts.sort_unstable();
        wholes.sort_unstable();
        println!(
            "{name}: {bytes} bytes; first byte p50 {:.1?}, p99 {:.1?}; last byte p50 {:.1?}, p99 {:.1?}",
            at(&firsts, 50),
            at(&firsts, 99),
            at(&wholes, 50),
            at(&wholes, 99)
        );
    }
    let recorded = journal.read(&long).await.unwrap();
    let prompts = Prompts::builtin();
    let view = OneRunView { prompts: Some(&prompts), ..OneRunView::default() };
    let (read, _) = took(times, || async { journal.read(&long).await.unwrap() }).await;
    let (walked, page) = took(times, || async { OneRunPage::of(&long, &recorded, view).unwrap() }).await;
    let (written, _) = took(times, || async { page.html() }).await;
    let (replayed, _) = took(times, || async { replay(&long, &recorded).unwrap() }).await;
    let (sent, _) = took(times, || async { sent_prompts(&long, &recorded, &prompts).unwrap() }).await;
    println!(
        "of the run's page, at the median: read {read:.1?}, walk with prompts {walked:.1?}, HTML {written:.1?};"
    );
    println!("of the walk: states alone {replayed:.1?}, prompts {sent:.1?}");
    println!("load after: {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
}

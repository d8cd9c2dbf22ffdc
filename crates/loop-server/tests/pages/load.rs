//! How long a page takes (issue 18, part 10): until its first byte, and until its last.
//!
//! By hand: `LOOPGATE_PAGE_LOAD=1 cargo test -p loop-server --features http pages::load -- --nocapture`.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::{StreamExt as _, stream};
use loop_inspect::sent::sent_prompts;
use loop_runtime::journal::{Durability, Journal as _, StoredJournal, replay};
use loop_runtime::spec::Prompts;
use loop_server::caller::Role;
use loop_server::pages::{OneRunPage, OneRunView};
use loop_testkit::World;
use tower::ServiceExt as _;

use super::known::copy;
use super::served::{caller, kept, over};
use super::{inert, runs};

/// Copies of a run under other ids, each a second after the one before it. Many are written at a time, which takes fewer
/// commits.
async fn copied(journal: &StoredJournal, world: &World, ids: Range<u64>) {
    let written = ids.map(|n| async move {
        let (header, entries) = copy(world, &format!("run-{n:05}"), 1_790_000_000_000 + n * 1_000);
        let mut writer = journal.create(&header, &entries[0]).await.unwrap();
        writer.append_all(&entries[1..], Durability::Committed).await.unwrap();
    });
    stream::iter(written).buffer_unordered(64).collect::<Vec<()>>().await;
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

/// Milliseconds of a processor that this thread has used, where the system tells.
fn used() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or_default() / 1e6
}

/// The least time of a processor that some work takes, in milliseconds, and its result.
fn took<T>(times: u64, work: impl Fn() -> T) -> (f64, T) {
    let mut least = f64::MAX;
    let mut last = None;
    for _ in 0..times.min(8) {
        let begun = used();
        last = Some(work());
        least = least.min(used() - begun);
    }
    (least, last.unwrap())
}

#[expect(clippy::print_stdout, reason = "figures are made by hand")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_of_a_long_run_and_a_long_list() {
    let is_asked = std::env::var_os("LOOPGATE_PAGE_LOAD").is_some();
    let (passes, count, times) = if is_asked { (660, 5_000, 50) } else { (12, 60, 1) };
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(StoredJournal::open(folder.path().join("runs.db")).unwrap());
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
    let (walked, page) = took(times, || OneRunPage::of(&long, &recorded, view).unwrap());
    let (bare, _) = took(times, || OneRunPage::of(&long, &recorded, OneRunView::default()).unwrap());
    let (written, _) = took(times, || page.html());
    let (replayed, _) = took(times, || replay(&long, &recorded).unwrap());
    let (sent, _) = took(times, || sent_prompts(&long, &recorded, &prompts).unwrap());
    println!(
        "processor time of the run's page: walk {walked:.1} ms (without prompts {bare:.1} ms), HTML {written:.1} ms"
    );
    println!("of the walk: states alone {replayed:.1} ms, prompts {sent:.1} ms");
    println!("load after: {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
}

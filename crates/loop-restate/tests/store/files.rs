//! A store in a folder.

use std::collections::HashSet;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use loop_restate::blobs::{BlobErrorKind, BlobId, BlobOptions, BlobStore, Sweep};
use tempfile::TempDir;
use tokio::task::JoinSet;

const HOUR: Duration = Duration::from_secs(3600);

fn url(folder: &TempDir) -> String {
    format!("file://{}", folder.path().display())
}

#[tokio::test]
async fn a_blob_is_put_read_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(&url(&folder)).await.unwrap();
    let id = store.put("a large result").await.unwrap();
    assert_eq!(store.put("a large result").await.unwrap(), id);
    assert_eq!(id, BlobId::of(b"a large result"));
    assert_eq!(store.get(id).await.unwrap(), "a large result");
    assert_eq!(store.get(store.put("").await.unwrap()).await.unwrap(), "");

    // Another process opens it later.
    let other = BlobStore::open(&url(&folder)).await.unwrap();
    assert_eq!(other.get(id).await.unwrap(), "a large result");
    other.delete(id).await.unwrap();
    other.delete(id).await.unwrap();
    let error = store.get(id).await.unwrap_err();
    assert_eq!((error.blob, &error.kind), (Some(id), &BlobErrorKind::Missing));
    assert!(!error.is_retryable());
    let path = format!("{}/{}/{}", url(&folder), &id.digest().to_string()[..2], id.digest());
    assert_eq!(
        error.to_string(),
        format!(
            "{path}: the blob is missing; check that this is the store that it was put into, or restore it from a backup"
        )
    );
}

#[tokio::test]
async fn old_blobs_are_listed_and_deleted_unless_a_put_has_made_them_young() {
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(&url(&folder)).await.unwrap();
    let file = |id: BlobId| {
        let digest = id.digest().to_string();
        folder.path().join(&digest[..2]).join(digest)
    };
    let old = [store.put("one run\nold").await.unwrap(), store.put("other").await.unwrap()];
    let young = store.put("").await.unwrap();
    for id in old {
        let opened = fs::OpenOptions::new().write(true).open(file(id)).unwrap();
        opened.set_modified(SystemTime::now() - 48 * HOUR).unwrap();
    }
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    fs::write(file(young).with_file_name("notes.txt"), "mine").unwrap();
    let listed = store.older(HOUR, 10).await.unwrap();
    let ids: HashSet<BlobId> = listed.iter().map(|blob| blob.id).collect();
    assert_eq!((ids, listed.iter().map(|blob| blob.bytes).sum()), (HashSet::from(old), 16_u64));
    assert_eq!(store.older(HOUR, 1).await.unwrap().len(), 1);
    assert_eq!(store.older(Duration::ZERO, 10).await.unwrap().len(), 3);
    assert_eq!(store.beginning(old[0], 8).await.unwrap(), "one run\n");
    assert_eq!(store.beginning(young, 0).await.unwrap(), "");

    // The list is older than the put.
    store.put("other").await.unwrap();
    assert_eq!(store.delete_older(old[1], HOUR).await.unwrap(), None);
    assert_eq!(store.delete_older(old[0], HOUR).await.unwrap(), Some(11));
    assert_eq!(store.delete_older(old[0], HOUR).await.unwrap(), None);
    assert_eq!(store.get(old[1]).await.unwrap(), "other");
    assert_eq!(store.beginning(old[0], 8).await.unwrap_err().kind, BlobErrorKind::Missing);
}

#[tokio::test]
async fn a_damaged_blob_says_which_where_and_how_to_fix_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(&url(&folder)).await.unwrap();
    let id = store.put("content").await.unwrap();
    let digest = id.digest().to_string();
    fs::write(folder.path().join(&digest[..2]).join(&digest), "cont").unwrap();
    let error = store.get(id).await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Damaged { found: BlobId::of(b"cont"), bytes: 4 });
    let text = error.to_string();
    assert!(text.starts_with(&format!("{}/{}/{digest}: ", url(&folder), &digest[..2])), "{text}");
    assert!(text.ends_with("put its content again, or restore it from a backup"), "{text}");
    store.put("content").await.unwrap();
    assert_eq!(store.get(id).await.unwrap(), "content");
}

#[tokio::test]
async fn a_blob_over_the_limit_is_refused_when_it_is_put_and_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = BlobOptions::default();
    options.max_bytes = 8;
    let small = BlobStore::open_with(&url(&folder), options).await.unwrap();
    let large = BlobStore::open(&url(&folder)).await.unwrap();
    let id = small.put("12345678").await.unwrap();
    assert_eq!(small.get(id).await.unwrap(), "12345678");
    let too_large = BlobErrorKind::TooLarge { bytes: 9, max: 8 };
    assert_eq!(small.put("123456789").await.unwrap_err().kind, too_large);
    assert!(large.get(BlobId::of(b"123456789")).await.is_err());
    let id = large.put("123456789").await.unwrap();
    assert_eq!(small.get(id).await.unwrap_err().kind, too_large);
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = BlobStore::open(&format!("{}/file/blobs", url(&folder))).await.unwrap_err();
    assert!(matches!(error.kind, BlobErrorKind::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("/file/blobs: "), "{error}");
    #[cfg(not(feature = "s3"))]
    {
        let error = BlobStore::open("s3://bucket").await.unwrap_err();
        assert!(error.to_string().contains("build it with the feature `s3`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_of_the_same_blobs_get_the_same_ids() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = BlobOptions::default();
    options.max_parallel = 4;
    let stores = [
        BlobStore::open_with(&url(&folder), options.clone()).await.unwrap(),
        BlobStore::open_with(&url(&folder), options).await.unwrap(),
    ];
    let mut tasks = JoinSet::new();
    for number in 0..64 {
        let store = stores[number % 2].clone();
        tasks.spawn(async move {
            let content = format!("content {}", number / 16).repeat(1_000);
            let id = store.put(content.clone()).await.unwrap();
            assert_eq!(store.get(id).await.unwrap(), content);
            id
        });
    }
    let ids: HashSet<BlobId> = tasks.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 4);
    let swept = stores[0].sweep(&ids, Duration::ZERO).await.unwrap();
    assert_eq!(swept, Sweep { referenced: 4, ..Sweep::default() });
    let swept = stores[0].sweep(&HashSet::new(), Duration::ZERO).await.unwrap();
    assert_eq!((swept.deleted, swept.deleted_bytes), (4, 4 * 9_000));
}

/// A future that is dropped leaves no blob or a whole one, and gives its turn back.
#[tokio::test]
async fn a_put_that_is_no_longer_awaited_leaves_nothing_broken() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = BlobOptions::default();
    options.max_parallel = 1;
    let store = BlobStore::open_with(&url(&folder), options).await.unwrap();
    for number in 0..20 {
        let content = format!("content {number}");
        let put = tokio::spawn({
            let (store, content) = (store.clone(), content.clone());
            async move { store.put(content).await }
        });
        tokio::task::yield_now().await;
        put.abort();
        let _ = put.await;
        match store.get(BlobId::of(content.as_bytes())).await {
            Ok(read) => assert_eq!(read, content),
            Err(error) => assert_eq!(error.kind, BlobErrorKind::Missing),
        }
        store.put(content).await.unwrap();
    }
}

/// Where a test that starts this program again finds its store.
const STORE: &str = "LOOP_BLOBS_TEST_STORE";

/// What the process that is killed runs; without a store it does nothing.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "the process that kills it reads what was put")]
async fn puts_until_it_is_killed() {
    let Ok(url) = std::env::var(STORE) else { return };
    let store = BlobStore::open(&url).await.unwrap();
    for number in 0_u64.. {
        store.put(number.to_string().repeat(2_000)).await.unwrap();
        println!("put {number}");
    }
}

/// Every blob whose put returned is whole after `kill -9`, and no blob is torn.
#[tokio::test]
async fn a_writer_that_is_killed_leaves_whole_blobs() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(&url(&folder)).await.unwrap();
    for round in 1..=3 {
        let mut writer = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["store::files::puts_until_it_is_killed", "--exact", "--nocapture"])
            .env(STORE, url(&folder))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut put = None;
        while let Some(line) = lines.next_line().await.unwrap() {
            put = line.rsplit_once("put ").map_or(put, |(_, number)| number.parse::<u64>().ok());
            if put >= Some(5 * round) {
                break;
            }
        }
        writer.kill().await.unwrap();
        for number in 0..=put.unwrap() {
            let content = number.to_string().repeat(2_000);
            assert_eq!(store.get(BlobId::of(content.as_bytes())).await.unwrap(), content);
        }
        for sub in fs::read_dir(folder.path()).unwrap().map(Result::unwrap).filter(|it| it.path().is_dir()) {
            for file in fs::read_dir(sub.path()).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                if let Ok(id) = format!("blake3:{name}").parse() {
                    store.get(id).await.unwrap();
                }
            }
        }
    }
}

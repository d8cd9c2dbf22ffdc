//! A bucket whose server misbehaves.

use std::collections::HashSet;
use std::time::Duration;

use loop_restate::blobs::{BlobErrorKind, BlobId, BlobStore, Sweep};

use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use crate::store::server::{Answer, Server, answer, error, options};

const URL: &str = "s3://bucket/some/prefix";

async fn store(server: &Server) -> BlobStore {
    BlobStore::open_with(URL, options(server.port)).await.unwrap()
}

const OLD: &str = "last-modified: Wed, 01 Jan 2020 00:00:00 GMT\r\netag: \"one\"\r\n";
const NEW: &str = "last-modified: Fri, 01 Jan 2100 00:00:00 GMT\r\netag: \"one\"\r\n";

fn object(body: &str) -> Answer {
    answer("200 OK", OLD, body)
}

/// The first half of a body of eight bytes; then the connection is closed.
fn cut_off() -> Answer {
    Answer::Bytes(format!("HTTP/1.1 200 OK\r\n{OLD}content-length: 8\r\n\r\n1234"))
}

#[tokio::test]
async fn a_request_is_signed_and_holds_no_secret() {
    let server = Server::answering([answer("200 OK", OLD, "")]).await;
    let id = store(&server).await.put("content").await.unwrap();
    let requests = server.requests();
    let digest = id.digest().to_string();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0][0], format!("PUT /bucket/some/prefix/{}/{digest} HTTP/1.1", &digest[..2]));
    let header = |name: &str| requests[0].iter().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    assert!(header("authorization: ").starts_with("aws4-hmac-sha256 credential=hidden-id/"));
    // The server can check what it received.
    assert_eq!(header("x-amz-content-sha256: ").len(), 64);
    assert!(!requests[0].iter().any(|line| line.contains("hidden-key")));
}

#[tokio::test]
async fn a_server_that_asks_to_slow_down_is_asked_again_a_counted_number_of_times() {
    let slow = || error("503 Slow Down", "SlowDown");
    let server = Server::answering([slow(), slow(), object("content")]).await;
    let id = BlobId::of(b"content");
    assert_eq!(store(&server).await.get(id).await.unwrap(), "content");
    assert_eq!(server.requests().len(), 3);

    let server = Server::answering([slow()]).await;
    let store = store(&server).await;
    let error = store.put("content").await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Unavailable("HTTP status 503, SlowDown".to_owned()));
    assert!(error.is_retryable());
    assert_eq!(server.requests().len(), 3);
    assert!(store.get(id).await.unwrap_err().is_retryable());
    assert!(store.delete(id).await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn a_body_that_breaks_off_is_continued_or_is_an_error() {
    let id = BlobId::of(b"12345678");
    let rest = answer("206 Partial Content", &format!("{OLD}content-range: bytes 4-7/8\r\n"), "5678");
    let server = Server::answering([cut_off(), rest]).await;
    assert_eq!(store(&server).await.get(id).await.unwrap(), "12345678");
    assert!(server.requests()[1].contains(&"range: bytes=4-7".to_owned()));

    // A server that does not know ranges sends the beginning again.
    let server = Server::answering([cut_off()]).await;
    let error = store(&server).await.get(id).await.unwrap_err();
    assert!(!matches!(error.kind, BlobErrorKind::Missing | BlobErrorKind::Damaged { .. }), "{error:?}");

    // The length is that of the part: the digest alone shows it.
    let server = Server::answering([object("1234")]).await;
    let error = store(&server).await.get(id).await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Damaged { found: BlobId::of(b"1234"), bytes: 4 });
    let digest = id.digest().to_string();
    assert!(
        error.to_string().starts_with(&format!("{URL}/{}/{digest}: the blob is damaged", &digest[..2])),
        "{error}"
    );
}

#[tokio::test]
async fn each_refusal_is_a_kind_of_its_own_and_shows_no_text_of_the_server() {
    let denied = |text: &str| BlobErrorKind::Denied(text.to_owned());
    let refused = |text: &str| BlobErrorKind::Refused(text.to_owned());
    let cases = [
        (error("404 Not Found", "NoSuchKey"), BlobErrorKind::Missing),
        (error("404 Not Found", "NoSuchBucket"), BlobErrorKind::NoBucket),
        (error("403 Forbidden", "SignatureDoesNotMatch"), denied("HTTP status 403, SignatureDoesNotMatch")),
        (error("403 Forbidden", "hidden text"), denied("HTTP status 403")),
        (error("401 Unauthorized", "InvalidToken"), denied("HTTP status 401, InvalidToken")),
        (error("301 Moved Permanently", "PermanentRedirect"), refused("HTTP status 301, PermanentRedirect")),
        (error("400 Bad Request", "InvalidRequest"), refused("HTTP status 400, InvalidRequest")),
        (answer("200 OK", "last-modified: hidden\r\n", "x"), refused("the answer is not one of S3")),
    ];
    for (answer, kind) in cases {
        let server = Server::answering([answer]).await;
        let store = store(&server).await;
        let error = store.get(BlobId::of(b"content")).await.unwrap_err();
        assert_eq!(error.kind, kind);
        assert_eq!(server.requests().len(), 1, "{kind:?} is not tried again");
        let shown = format!("{error} {error:?} {store:?}");
        assert!(!shown.contains("hidden") && !shown.contains('\n'), "{shown}");
    }
}

#[tokio::test]
async fn an_object_over_the_limit_is_not_read() {
    let server = Server::answering([Answer::Bytes(format!(
        "HTTP/1.1 200 OK\r\n{OLD}content-length: 99999999999\r\n\r\n"
    ))])
    .await;
    let error = store(&server).await.get(BlobId::of(b"content")).await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::TooLarge { bytes: 99_999_999_999, max: 64 << 20 });
}

#[tokio::test]
async fn a_server_that_does_not_answer_or_is_not_there_ends_the_operation() {
    let server = Server::answering([Answer::Silence]).await;
    let mut impatient = options(server.port);
    impatient.request_timeout = Duration::from_millis(100);
    impatient.retries = 1;
    impatient.deadline = Duration::from_secs(600);
    let store = BlobStore::open_with(URL, impatient).await.unwrap();
    let error = store.put("content").await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(server.requests().len() <= 2);

    let mut impatient = options(server.port);
    impatient.request_timeout = Duration::from_secs(600);
    impatient.deadline = Duration::from_millis(100);
    let store = BlobStore::open_with(URL, impatient).await.unwrap();
    let error = store.get(BlobId::of(b"content")).await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Unavailable("no result within 0.1 s".to_owned()));

    // The port is taken by a socket that does not listen, so no other test can have it.
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let store = BlobStore::open_with(URL, options(silent.local_addr().unwrap().port())).await.unwrap();
    let error = store.delete(BlobId::of(b"content")).await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Unavailable("there is no connection".to_owned()));
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_are_allowed() {
    for (allowed, peak) in [(2, 2..=2), (16, 3..=16)] {
        let server = Server::answering([object("content")]).await;
        let mut options = options(server.port);
        options.max_parallel = allowed;
        let store = BlobStore::open_with(URL, options).await.unwrap();
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let store = store.clone();
            tasks.spawn(async move { store.get(BlobId::of(b"content")).await.unwrap() });
        }
        tasks.join_all().await;
        assert!(peak.contains(&server.peak()), "{allowed}: {}", server.peak());
    }
}

#[tokio::test]
async fn a_store_without_keys_is_not_opened() {
    let mut options = options(1);
    options.s3.secret_access_key = None;
    let error = BlobStore::open_with(URL, options).await.unwrap_err();
    assert!(error.to_string().contains("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), "{error}");
}

/// The list is older than the look at the object: a put came between.
#[tokio::test]
async fn a_sweep_looks_at_an_object_again_before_it_deletes_it() {
    let digest = BlobId::of(b"content").digest().to_string();
    let list = format!(
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>some/prefix/{}/{digest}</Key>\
         <LastModified>2020-01-01T00:00:00.000Z</LastModified><Size>7</Size><ETag>\"one\"</ETag></Contents>\
         <Contents><Key>some/prefix/notes.txt</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified>\
         <Size>7</Size></Contents></ListBucketResult>",
        &digest[..2]
    );
    let head = |headers: &str| {
        Answer::Bytes(format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{headers}content-length: 7\r\n\r\n"))
    };
    for (looked, expected, requests) in [
        (head(NEW), Sweep { young: 1, ..Sweep::default() }, vec!["GET", "HEAD"]),
        (
            head(OLD),
            Sweep { deleted: 1, deleted_bytes: 7, ..Sweep::default() },
            vec!["GET", "HEAD", "DELETE"],
        ),
        (
            Answer::Bytes("HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n".to_owned()),
            Sweep::default(),
            vec!["GET", "HEAD"],
        ),
    ] {
        let server =
            Server::answering([answer("200 OK", "", &list), looked, answer("204 No Content", "", "")]).await;
        let swept = store(&server).await.sweep(&HashSet::new(), Duration::from_secs(60)).await.unwrap();
        assert_eq!(swept, expected);
        let methods: Vec<String> = server
            .requests()
            .iter()
            .map(|request| request[0].split(' ').next().unwrap().to_owned())
            .collect();
        assert_eq!(methods, requests);
    }
}

//! Receivers that are down, slow or full: runs end all the same, and the operator is reported once.

use std::net::TcpListener;
use std::time::Duration;

use loop_core::types::StopClass;

use crate::receiver::Receiver;
use crate::runs::{CALLS, Noted, item, runner, telemetry};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_down_costs_one_line() {
    // L5
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (telemetry, lines) = telemetry(&format!("http://{free}"), &[("OTEL_BSP_SCHEDULE_DELAY", "1")]);
    for _ in 0..3 {
        let outcome = telemetry.listen_to(runner(CALLS, &Noted::default())).run(item()).await.unwrap();
        assert_eq!(outcome.stop.class, StopClass::Answered);
        assert!(!telemetry.flush(SHORT).await);
    }
    telemetry.shut_down(SHORT).await;
    let lines = lines.lock().unwrap();
    let with = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(
        (with("it is tried again; runs are not affected"), with("were not sent")),
        (1, 1),
        "{lines:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_never_answers_holds_neither_runs_nor_the_end_up() {
    // L9
    let receiver = Receiver::answering(|_| None);
    let (telemetry, lines) = telemetry(&receiver.url, &[("OTEL_BSP_SCHEDULE_DELAY", "1")]);
    let outcome = telemetry.listen_to(runner(CALLS, &Noted::default())).run(item()).await.unwrap();
    assert_eq!(outcome.stop.class, StopClass::Answered);
    assert!(!telemetry.flush(SHORT).await);
    telemetry.shut_down(SHORT).await;
    assert!(lines.lock().unwrap().iter().any(|line| line.contains("were not sent")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_full_receiver_puts_off_is_sent_again_once() {
    // L1
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let receiver = Receiver::answering(move |nth| {
            Some(if nth == 1 { format!("{status}\r\nretry-after: 0\r\n") } else { "200 OK\r\n".to_owned() })
        });
        let none = [("OTEL_METRICS_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")];
        let (telemetry, lines) = telemetry(&receiver.url, &none);
        telemetry.listen_to(runner(CALLS, &Noted::default())).run(item()).await.unwrap();
        assert!(telemetry.flush(LONG).await);
        let got = receiver.got();
        assert_eq!(got.len(), 2, "{status}");
        assert_eq!(got[0].body, got[1].body);
        assert_eq!(lines.lock().unwrap().len(), 1, "{lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_receiver_refuses_is_not_sent_again() {
    // L4
    let receiver = Receiver::answering(|_| Some("401 Unauthorized\r\n".to_owned()));
    let none = [("OTEL_METRICS_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")];
    let (telemetry, lines) = telemetry(&receiver.url, &none);
    for _ in 0..2 {
        telemetry.listen_to(runner(CALLS, &Noted::default())).run(item()).await.unwrap();
        telemetry.flush(LONG).await;
    }
    assert_eq!(receiver.got().len(), 2);
    telemetry.shut_down(LONG).await;
    let lines = lines.lock().unwrap();
    let with = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!((with("401"), with("are dropped"), with("were not sent")), (1, 1, 1), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_compressed_and_go_to_a_receiver_whose_authority_is_named() {
    let (receiver, authority) = Receiver::over_tls();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, authority).unwrap();
    let compressed = ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
    let trusted = ("OTEL_EXPORTER_OTLP_CERTIFICATE", file.to_str().unwrap());
    let (sends, lines) = telemetry(&receiver.url, &[compressed, trusted]);
    sends.listen_to(runner(CALLS, &Noted::default())).run(item()).await.unwrap();
    assert!(sends.flush(LONG).await, "{lines:?}");
    assert_eq!(receiver.spans().len(), 8);
    assert!(receiver.got().iter().all(|got| got.head.contains("content-encoding: gzip")));
    // Without it the receiver is not trusted, and with a file that holds none nothing is sent.
    let (sends, lines) = telemetry(&receiver.url, &[]);
    sends.listen_to(runner(CALLS, &Noted::default())).run(item()).await.unwrap();
    assert!(!sends.flush(SHORT).await);
    assert!(lines.lock().unwrap().iter().any(|line| line.contains("certificate")), "{lines:?}");
    for (text, says) in [("no certificate", "it holds no certificate"), ("", "it holds no certificate")] {
        std::fs::write(&file, text).unwrap();
        let (_, lines) = telemetry(&receiver.url, &[trusted]);
        let lines = lines.lock().unwrap();
        assert!(lines.len() == 1 && lines[0].contains(says), "{lines:?}");
    }
    std::fs::remove_file(&file).unwrap();
    let (_, lines) = telemetry(&receiver.url, &[trusted]);
    assert!(lines.lock().unwrap()[0].contains("authority.pem"), "{lines:?}");
}

#[cfg(feature = "grpc")]
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_over_grpc_that_is_down_holds_nothing_up() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let over_grpc = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")];
    let (telemetry, lines) = telemetry(&format!("http://{free}"), &over_grpc);
    let outcome = telemetry.listen_to(runner(CALLS, &Noted::default())).run(item()).await.unwrap();
    assert_eq!(outcome.stop.class, StopClass::Answered);
    telemetry.shut_down(SHORT).await;
    assert!(lines.lock().unwrap().iter().any(|line| line.contains("were not sent")), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_bounded_and_reported_once() {
    // I-23
    let receiver = Receiver::answering(|_| None);
    let small = [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "50"),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ];
    let (telemetry, lines) = telemetry(&receiver.url, &small);
    let runs = (0..20).map(|_| {
        let runner = telemetry.listen_to(runner(CALLS, &Noted::default()));
        async move { runner.run(item()).await.unwrap().stop.class }
    });
    let classes = futures::future::join_all(runs).await;
    assert!(classes.iter().all(|class| *class == StopClass::Answered));
    assert!(!telemetry.flush(SHORT).await);
    telemetry.shut_down(SHORT).await;
    let lines = lines.lock().unwrap();
    assert_eq!(lines.iter().filter(|line| line.contains("are dropped")).count(), 1, "{lines:#?}");
    // Eight spans of each run; four wait at most.
    assert!(
        lines.iter().any(|line| line.starts_with("telemetry: 160 spans and 0 log records")),
        "{lines:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_stopped_before_its_first_call_has_a_span() {
    // S2-49
    let receiver = Receiver::accepting();
    let (telemetry, _) = telemetry(&receiver.url, &[]);
    let runner = telemetry.listen_to(runner(CALLS, &Noted::default()));
    let cancel = loop_runtime::run::CancellationToken::new();
    cancel.cancel();
    runner.run(item()).until(&cancel).await.unwrap();
    assert!(telemetry.flush(LONG).await);
    assert_eq!(receiver.spans().iter().filter(|span| span.parent.is_empty()).count(), 1);
}

//! Connections that break, stall or frame their bytes badly. What they carry is true.

use super::On::{Every, Main, Once};
use super::{Behaviour, Lie};
use loop_mock::Chunks;

pub(super) const LIES: &[Lie] = &[
    Lie::new(
        "closed-before-headers-once",
        "The first connection is closed before any byte of an answer",
        Once,
        || Behaviour::raw(""),
    ),
    Lie::new("ends-mid-stream", "Every stream ends cleanly after 600 bytes, before its end", Main, || {
        Behaviour::model().ends_after(600)
    }),
    Lie::new(
        "ends-mid-stream-once",
        "The first stream ends cleanly after 600 bytes, before its end",
        Once,
        || Behaviour::model().ends_after(600),
    ),
    Lie::new("stalls-before-headers", "Requests are read and never answered", Main, Behaviour::silence),
    Lie::new(
        "byte-by-byte",
        "Each byte of the first reply is a chunk of its own, in the middle of characters too",
        Once,
        || Behaviour::model().in_chunks(Chunks::Bytes(1)),
    ),
    Lie::new("random-chunks", "Chunks of 1 to 64 bytes, across events and characters", Every, || {
        Behaviour::model().in_chunks(Chunks::Random { seed: 11 })
    }),
    Lie::new(
        "garbage-head",
        "Something that is not HTTP comes in the place of the head",
        Main,
        Behaviour::garbage_head,
    ),
    Lie::new(
        "http-1-0-without-length",
        "An HTTP/1.0 answer without a length, which ends by closing",
        Every,
        || Behaviour::model().until_closed(),
    ),
    Lie::new(
        "content-length-too-long",
        "The head promises 10 MB; the connection closes after the true body",
        Every,
        || Behaviour::model().with_content_length(10_000_000),
    ),
    Lie::new("content-length-too-short", "The head promises 200 bytes of a longer body", Main, || {
        Behaviour::model().with_content_length(200)
    }),
    Lie::new("trailing-garbage", "Bytes that belong to nothing follow the body", Every, || {
        Behaviour::model().followed_by("HTTP/9.9 777 What\r\n\r\n{\"choices\": 7}")
    }),
    Lie::new("header-of-a-megabyte", "One header line of the answer has a megabyte", Main, || {
        Behaviour::model().with_header("x-trace", &"t".repeat(1 << 20))
    }),
    Lie::new("a-thousand-headers", "The answer has a thousand header lines", Main, || {
        let with_one = |behaviour: Behaviour, n| behaviour.with_header(&format!("x-hop-{n}"), "1");
        (0..1_000).fold(Behaviour::model(), with_one)
    }),
    Lie::new("bad-chunk-size", "The size of a chunk is not a number", Main, || {
        Behaviour::raw(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        )
    }),
    Lie::new("chunk-larger-than-it-says", "A chunk has more bytes than its size", Main, || {
        Behaviour::raw(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata: {}\n\n\r\n",
        )
    }),
    Lie::new("two-lengths", "The head has two lengths that differ", Main, || {
        Behaviour::raw("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 50\r\n\r\ndata: {}\n\n")
    }),
    Lie::new(
        "early-hints-without-end",
        "Interim answers (103) come one after another, and no final one",
        Main,
        || Behaviour::raw("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(200)),
    ),
    Lie::new(
        "says-gzip-and-sends-text",
        "The head says that the body is compressed, and it is not",
        Every,
        || Behaviour::model().with_header("content-encoding", "gzip"),
    ),
    Lie::new("gzip-garbage", "The body is compressed though nobody asked for that", Main, || {
        Behaviour::body(GZIP).with_header("content-encoding", "gzip")
    }),
    Lie::new("endless-line", "An event of 12 MB in one line without an end", Main, || {
        Behaviour::endless_line(12_000_000)
    }),
    Lie::new("signs-of-life-only", "A stream of comments alone, which then ends", Main, || {
        Behaviour::body(": keep-alive\n\n".repeat(5_000))
    }),
    Lie::new("signs-of-life-first", "A thousand comments come before a true reply", Every, || {
        Behaviour::model().with_keep_alives(1_000)
    }),
    Lie::new(
        "stays-open-after-the-end",
        "The reply is whole and the connection stays open for good",
        Main,
        || Behaviour::model().stays_open(),
    ),
];

/// The beginning of a compressed file, and noise.
const GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\xff\xfe\xfd";

//! Lies of connections: they break, stall, or have invalid framing. Their content is correct.

use super::LieOn::{Every, Main, Once};
use super::{Behaviour, Lie};
use loop_mock::Chunks;

lies! {
    "closed-before-headers-once", Once, "The first connection is closed before any byte of an answer" =>
        Behaviour::raw("");
    "ends-mid-stream", Main, "Every stream ends cleanly after 600 bytes, before its end" =>
        Behaviour::model().ends_after(600);
    "ends-mid-stream-once", Once, "The first stream ends cleanly after 600 bytes, before its end" =>
        Behaviour::model().ends_after(600);
    "stalls-before-headers", Main, "Requests are read and never answered" => Behaviour::silence();
    "byte-by-byte", Once, "Each byte of the first reply is a chunk of its own, in the middle of characters too" =>
        Behaviour::model().in_chunks(Chunks::Bytes(1));
    "random-chunks", Every, "Chunks of 1 to 64 bytes, across events and characters" =>
        Behaviour::model().in_chunks(Chunks::Random { seed: 11 });
    "garbage-head", Main, "Something that is not HTTP comes in the place of the head" =>
        Behaviour::garbage_head();
    "http-1-0-without-length", Every, "An HTTP/1.0 answer without a length, which ends by closing" =>
        Behaviour::model().until_closed();
    "content-length-too-long", Every, "The head promises 10 MB; the connection closes after the true body" =>
        Behaviour::model().with_content_length(10_000_000);
    "content-length-too-short", Main, "The head promises 200 bytes of a longer body" =>
        Behaviour::model().with_content_length(200);
    "trailing-garbage", Every, "Bytes that belong to nothing follow the body" =>
        Behaviour::model().followed_by("HTTP/9.9 777 What\r\n\r\n{\"choices\": 7}");
    "header-of-a-megabyte", Main, "One header line of the answer has a megabyte" =>
        Behaviour::model().with_header("x-trace", &"t".repeat(1 << 20));
    "a-thousand-headers", Main, "The answer has a thousand header lines" => {
        let with_one = |behaviour: Behaviour, n| behaviour.with_header(&format!("x-hop-{n}"), "1");
        (0..1_000).fold(Behaviour::model(), with_one)
    };
    "bad-chunk-size", Main, "The size of a chunk is not a number" =>
        Behaviour::raw(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        );
    "chunk-larger-than-it-says", Main, "A chunk has more bytes than its size" =>
        Behaviour::raw(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata: {}\n\n\r\n",
        );
    "two-lengths", Main, "The head has two lengths that differ" =>
        Behaviour::raw("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 50\r\n\r\ndata: {}\n\n");
    "early-hints-without-end", Main, "Interim answers (103) come one after another, and no final one" =>
        Behaviour::raw("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(200));
    "says-gzip-and-sends-text", Every, "The head says that the body is compressed, and it is not" =>
        Behaviour::model().with_header("content-encoding", "gzip");
    "gzip-garbage", Main, "The body is compressed though nobody asked for that" =>
        Behaviour::body(GZIP).with_header("content-encoding", "gzip");
    "endless-line", Main, "An event of 12 MB in one line without an end" =>
        Behaviour::endless_line(12_000_000);
    "signs-of-life-only", Main, "A stream of comments alone, which then ends" =>
        Behaviour::body(": keep-alive\n\n".repeat(5_000));
    "signs-of-life-first", Every, "A thousand comments come before a true reply" =>
        Behaviour::model().with_keep_alives(1_000);
    "stays-open-after-the-end", Main, "The reply is whole and the connection stays open for good" =>
        Behaviour::model().stays_open();
}

/// The beginning of a gzip file, and random bytes.
const GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\xff\xfe\xfd";

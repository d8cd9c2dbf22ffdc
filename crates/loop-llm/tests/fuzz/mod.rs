//! Fuzz targets of the codecs, on their committed inputs and mutations of them.

mod framing;
mod history;

use loop_testkit::fuzz::check;

#[test]
fn a_reply_is_the_same_in_any_pieces() {
    check("framing", framing::target);
}

#[test]
fn a_history_is_what_each_provider_requires() {
    check("history", history::target);
}

//! Providers that change their own events: ends, tokens, ids, forms of the stream.

use super::On::{Every, Main, Once};
use super::dialect::EndWord;
use super::twist::{Form, Piece, Tokens, Twist};
use super::{Behaviour, Lie};
use loop_core::types::FailureKind;

pub(super) const LIES: &[Lie] = &[
    // Ends.
    Lie::new("no-finish-reason", "The reply is whole and says no reason for its end", Every, || {
        twisted(Twist::End(EndWord::Missing))
    }),
    Lie::new("empty-finish-reason", "The reason for the end is an empty text", Every, || {
        twisted(Twist::End(EndWord::Empty))
    }),
    Lie::new(
        "unknown-finish-reason",
        "The reason for the end is a word that no documentation has",
        Every,
        || twisted(Twist::End(EndWord::Unknown)),
    ),
    Lie::new("no-end", "The stream ends cleanly without the event that tells the end", Main, || {
        twisted(Twist::NoEnd)
    }),
    Lie::new("no-end-once", "The first stream ends without the event that tells the end", Once, || {
        twisted(Twist::NoEnd)
    }),
    Lie::new("no-mark-of-the-end", "The mark that nothing follows is left out", Every, || {
        twisted(Twist::NoMark)
    }),
    Lie::new("mark-of-the-end-twice", "The last event comes twice", Every, || twisted(Twist::MarkTwice)),
    Lie::new("text-after-the-end", "An event with text follows the end", Every, || {
        twisted(Twist::TextAfterEnd)
    }),
    Lie::new("says-cut-off", "A whole reply says that it was cut at its output limit", Main, || {
        twisted(Twist::End(EndWord::Limit))
    }),
    Lie::new("content-filter", "A reply ends in a content filter", Main, || {
        twisted(Twist::End(EndWord::Filter))
    }),
    Lie::new("says-calls-without-calls", "A reply without calls ends as one that calls tools", Every, || {
        twisted(Twist::End(EndWord::Calls))
    }),
    Lie::new("says-answer-with-calls", "A reply with calls ends as an answer", Every, || {
        twisted(Twist::End(EndWord::Answer))
    }),
    // Failures within a stream.
    Lie::new(
        "overloaded-mid-stream-once",
        "An error of overload comes as an event in the first reply",
        Once,
        || Behaviour::model().fails(FailureKind::Overloaded),
    ),
    Lie::new(
        "unauthorized-mid-stream",
        "An error of a bad key comes as an event after some text",
        Main,
        || Behaviour::model().fails(FailureKind::Auth),
    ),
    // Tokens.
    Lie::new("no-usage", "Tokens are never told", Every, || twisted(Twist::Usage(Tokens::Never))),
    Lie::new("negative-usage", "Tokens are told as negative numbers", Every, || {
        twisted(Twist::Usage(Tokens::Negative))
    }),
    Lie::new("usage-a-thousand-times", "A thousand times the true tokens are told", Every, || {
        twisted(Twist::Usage(Tokens::ThousandTimes))
    }),
    Lie::new("usage-beyond-64-bits", "Tokens are told as numbers beyond 64 bits", Every, || {
        twisted(Twist::Usage(Tokens::BeyondWords))
    }),
    Lie::new("usage-in-fractions", "Tokens are told as fractions", Every, || {
        twisted(Twist::Usage(Tokens::Fractions))
    }),
    Lie::new("usage-as-texts", "Tokens are told as texts", Every, || twisted(Twist::Usage(Tokens::Texts))),
    Lie::new("usage-as-a-list", "Tokens are told in a list", Every, || twisted(Twist::Usage(Tokens::AList))),
    Lie::new("usage-twice-growing", "Tokens are told twice, the second time more", Every, || {
        twisted(Twist::Usage(Tokens::TwiceGrowing))
    }),
    Lie::new("usage-twice-shrinking", "Tokens are told twice, the second time fewer", Every, || {
        twisted(Twist::Usage(Tokens::TwiceShrinking))
    }),
    Lie::new("usage-swapped", "Tokens of input and output change places", Every, || {
        twisted(Twist::Usage(Tokens::Swapped))
    }),
    // Names, ids, roles.
    Lie::new("another-model", "Another model serves than the one that was asked", Every, || {
        twisted(Twist::Model("tiny-1-free"))
    }),
    Lie::new("model-with-escapes", "The name of the model would clear a terminal", Every, || {
        twisted(Twist::Model("\u{1b}[2J\u{1b}]0;owned\u{7}gpt\u{202e}\nstopped: confident"))
    }),
    Lie::new("reply-id-changes", "Each event gives the reply another id", Every, || {
        twisted(Twist::ReplyIdChanges)
    }),
    Lie::new("role-user", "The reply says that the user speaks", Every, || twisted(Twist::Role("user"))),
    Lie::new("role-of-nobody", "The reply has a role that no protocol knows", Every, || {
        twisted(Twist::Role("oracle"))
    }),
    // Forms of the stream.
    Lie::new("byte-order-mark", "The stream begins with a byte order mark", Every, || {
        form(Form::ByteOrderMark)
    }),
    Lie::new("carriage-returns", "Lines end with a carriage return and a line feed", Every, || {
        form(Form::CarriageReturns)
    }),
    Lie::new("old-line-ends", "Lines end with a carriage return alone", Every, || form(Form::OldLineEnds)),
    Lie::new("comments-between", "A comment stands before each event", Every, || form(Form::Comments)),
    Lie::new("no-space-after-data", "There is no space behind `data:`", Every, || form(Form::NoSpace)),
    Lie::new("many-data-lines", "The JSON of each event is written over many lines", Every, || {
        form(Form::ManyLines)
    }),
    Lie::new("more-fields", "Each event has an id, a time to wait and an unknown field", Every, || {
        form(Form::MoreFields)
    }),
    Lie::new("unknown-events", "Events of an unknown kind stand between the others", Every, || {
        form(Form::UnknownEvents)
    }),
    Lie::new("empty-events", "Events without data stand between the others", Every, || {
        form(Form::EmptyEvents)
    }),
    Lie::new("each-event-twice", "Each event comes twice", Main, || form(Form::EachTwice)),
    Lie::new("event-of-nonsense", "An event that is not JSON stands after the first one", Main, || {
        form(Form::Nonsense)
    }),
    Lie::new("event-of-a-number", "An event that is a number stands after the first one", Main, || {
        form(Form::NotAnObject)
    }),
    Lie::new("deep-json", "Each event has an unknown member of 5,000 arrays within each other", Main, || {
        form(Form::Deep(5_000))
    }),
    Lie::new("huge-number", "Each event has an unknown member with the number 1e999", Main, || {
        form(Form::HugeNumber)
    }),
    Lie::new("duplicate-members", "Each event has each member twice, `null` the first time", Every, || {
        form(Form::DuplicateMembers)
    }),
    Lie::new("padded-events", "Each event has 2 KB in a member that nobody knows", Every, || {
        form(Form::Padding(2_000))
    }),
    Lie::new("events-without-names", "Events have no names, where the protocol names them", Every, || {
        form(Form::NoNames)
    }),
    Lie::new("log-lines-first", "Lines of a log come before the first event", Every, || form(Form::LogLines)),
    // Texts.
    Lie::new("text-of-null", "Each piece of text is `null`", Main, || twisted(Twist::Text(Piece::Null))),
    Lie::new("text-of-numbers", "Each piece of text is a number", Main, || {
        twisted(Twist::Text(Piece::Number))
    }),
    Lie::new("text-of-lists", "Each piece of text is a list", Main, || twisted(Twist::Text(Piece::List))),
    Lie::new("text-of-objects", "Each piece of text is an object", Main, || {
        twisted(Twist::Text(Piece::Object))
    }),
    Lie::new("half-surrogates", "Each piece of text has half a surrogate pair", Main, || {
        twisted(Twist::Text(Piece::HalfSurrogate))
    }),
    Lie::new("bad-utf8", "Each piece of text has bytes that are not UTF-8", Main, || {
        twisted(Twist::Text(Piece::BadUtf8))
    }),
    Lie::new("first-piece-only", "The pieces of text after the first are left out", Main, || {
        twisted(Twist::Text(Piece::FirstOnly))
    }),
    Lie::new("body-of-null", "The list of choices or the piece is `null` in each event", Main, || {
        twisted(Twist::Body(Piece::Null))
    }),
    Lie::new(
        "body-of-texts",
        "The list of choices or the piece is a list of texts in each event",
        Main,
        || twisted(Twist::Body(Piece::List)),
    ),
];

fn twisted(twist: Twist) -> Behaviour {
    super::twisted(Behaviour::model(), twist)
}

fn form(form: Form) -> Behaviour {
    twisted(Twist::Form(form))
}

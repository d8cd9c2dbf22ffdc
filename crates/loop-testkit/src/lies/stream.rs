//! Lies of providers in their event streams: ends, usage, ids, and formats.

use super::LieOn::{Every, Main, Once};
use super::dialect::EndWord;
use super::twist::{Form, Piece, Tokens, Twist};
use super::{Behaviour, Lie};
use loop_core::types::FailureKind;

lies! {
    // Ends.
    "no-finish-reason", Every, "The reply is whole and says no reason for its end" =>
        twisted(Twist::End(EndWord::Missing));
    "empty-finish-reason", Every, "The reason for the end is an empty text" =>
        twisted(Twist::End(EndWord::Empty));
    "unknown-finish-reason", Every, "The reason for the end is a word that no documentation has" =>
        twisted(Twist::End(EndWord::Unknown));
    "no-end", Main, "The stream ends cleanly without the event that tells the end" => twisted(Twist::NoEnd);
    "no-end-once", Once, "The first stream ends without the event that tells the end" =>
        twisted(Twist::NoEnd);
    "no-mark-of-the-end", Every, "The mark that nothing follows is left out" => twisted(Twist::NoMark);
    "mark-of-the-end-twice", Every, "The last event comes twice" => twisted(Twist::MarkTwice);
    "text-after-the-end", Every, "An event with text follows the end" => twisted(Twist::TextAfterEnd);
    "says-cut-off", Main, "A whole reply says that it was cut at its output limit" =>
        twisted(Twist::End(EndWord::Limit));
    "content-filter", Main, "A reply ends in a content filter" => twisted(Twist::End(EndWord::Filter));
    "says-calls-without-calls", Every, "A reply without calls ends as one that calls tools" =>
        twisted(Twist::End(EndWord::Calls));
    "says-answer-with-calls", Every, "A reply with calls ends as an answer" =>
        twisted(Twist::End(EndWord::Answer));
    // Failures within a stream.
    "overloaded-mid-stream-once", Once, "An error of overload comes as an event in the first reply" =>
        Behaviour::model().fails(FailureKind::Overloaded);
    "unauthorized-mid-stream", Main, "An error of a bad key comes as an event after some text" =>
        Behaviour::model().fails(FailureKind::Auth);
    // Tokens.
    "no-usage", Every, "Tokens are never told" => twisted(Twist::Usage(Tokens::Never));
    "negative-usage", Every, "Tokens are told as negative numbers" => twisted(Twist::Usage(Tokens::Negative));
    "usage-a-thousand-times", Every, "A thousand times the true tokens are told" =>
        twisted(Twist::Usage(Tokens::ThousandTimes));
    "usage-beyond-64-bits", Every, "Tokens are told as numbers beyond 64 bits" =>
        twisted(Twist::Usage(Tokens::BeyondWords));
    "usage-in-fractions", Every, "Tokens are told as fractions" => twisted(Twist::Usage(Tokens::Fractions));
    "usage-as-texts", Every, "Tokens are told as texts" => twisted(Twist::Usage(Tokens::Texts));
    "usage-as-a-list", Every, "Tokens are told in a list" => twisted(Twist::Usage(Tokens::AList));
    "usage-twice-growing", Every, "Tokens are told twice, the second time more" =>
        twisted(Twist::Usage(Tokens::TwiceGrowing));
    "usage-twice-shrinking", Every, "Tokens are told twice, the second time fewer" =>
        twisted(Twist::Usage(Tokens::TwiceShrinking));
    "usage-swapped", Every, "Tokens of input and output change places" =>
        twisted(Twist::Usage(Tokens::Swapped));
    // Names, ids, roles.
    "another-model", Every, "Another model serves than the one that was asked" =>
        twisted(Twist::Model("tiny-1-free"));
    "model-with-escapes", Every, "The name of the model would clear a terminal" =>
        twisted(Twist::Model("\u{1b}[2J\u{1b}]0;owned\u{7}gpt\u{202e}\nstopped: confident"));
    "reply-id-changes", Every, "Each event gives the reply another id" => twisted(Twist::ReplyIdChanges);
    "role-user", Every, "The reply says that the user speaks" => twisted(Twist::Role("user"));
    "role-of-nobody", Every, "The reply has a role that no protocol knows" => twisted(Twist::Role("oracle"));
    // Forms of the stream.
    "byte-order-mark", Every, "The stream begins with a byte order mark" => form(Form::ByteOrderMark);
    "carriage-returns", Every, "Lines end with a carriage return and a line feed" =>
        form(Form::CarriageReturns);
    "old-line-ends", Every, "Lines end with a carriage return alone" => form(Form::OldLineEnds);
    "comments-between", Every, "A comment stands before each event" => form(Form::Comments);
    "no-space-after-data", Every, "There is no space behind `data:`" => form(Form::NoSpace);
    "many-data-lines", Every, "The JSON of each event is written over many lines" => form(Form::ManyLines);
    "more-fields", Every, "Each event has an id, a time to wait and an unknown field" =>
        form(Form::MoreFields);
    "unknown-events", Every, "Events of an unknown kind stand between the others" =>
        form(Form::UnknownEvents);
    "empty-events", Every, "Events without data stand between the others" => form(Form::EmptyEvents);
    "each-event-twice", Main, "Each event comes twice" => form(Form::EachTwice);
    "event-of-nonsense", Main, "An event that is not JSON stands after the first one" => form(Form::Nonsense);
    "event-of-a-number", Main, "An event that is a number stands after the first one" =>
        form(Form::NotAnObject);
    "deep-json", Main, "Each event has an unknown member of 5,000 arrays within each other" =>
        form(Form::Deep(5_000));
    "huge-number", Main, "Each event has an unknown member with the number 1e999" => form(Form::HugeNumber);
    "duplicate-members", Every, "Each event has each member twice, `null` the first time" =>
        form(Form::DuplicateMembers);
    "padded-events", Every, "Each event has 2 KB in a member that nobody knows" => form(Form::Padding(2_000));
    "events-without-names", Every, "Events have no names, where the protocol names them" =>
        form(Form::NoNames);
    "log-lines-first", Every, "Lines of a log come before the first event" => form(Form::LogLines);
    // Texts.
    "text-of-null", Main, "Each piece of text is `null`" => twisted(Twist::Text(Piece::Null));
    "text-of-numbers", Main, "Each piece of text is a number" => twisted(Twist::Text(Piece::Number));
    "text-of-lists", Main, "Each piece of text is a list" => twisted(Twist::Text(Piece::List));
    "text-of-objects", Main, "Each piece of text is an object" => twisted(Twist::Text(Piece::Object));
    "half-surrogates", Main, "Each piece of text has half a surrogate pair" =>
        twisted(Twist::Text(Piece::HalfSurrogate));
    "bad-utf8", Main, "Each piece of text has bytes that are not UTF-8" =>
        twisted(Twist::Text(Piece::BadUtf8));
    "first-piece-only", Main, "The pieces of text after the first are left out" =>
        twisted(Twist::Text(Piece::FirstOnly));
    "body-of-null", Main, "The list of choices or the piece is `null` in each event" =>
        twisted(Twist::Body(Piece::Null));
    "body-of-texts", Main, "The list of choices or the piece is a list of texts in each event" =>
        twisted(Twist::Body(Piece::List));
}

fn twisted(twist: Twist) -> Behaviour {
    super::twisted(Behaviour::model(), twist)
}

fn form(form: Form) -> Behaviour {
    twisted(Twist::Form(form))
}

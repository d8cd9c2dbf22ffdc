//! Lies of models and providers in tool calls: in the contract of a document, or native in a conversation.

use super::LieOn::{First, Main};
use super::prompt::{Prompt, call, numbered};
use super::twist::{Piece, Twist};
use super::words::deep;
use super::{Behaviour, Lie, Say, saying, twisted};

lies! {
    "asks-for-10000-calls", Main, "A reply asks for 10,000 calls" => saying(|prompt, honest| {
            let calls = (0..10_000).map(|nth| prompt.read(&format!("{}-{nth}", prompt.replies())));
            let calls = numbered(calls);
            prompt.asks(honest, calls)
        });
    "asks-for-100-calls", Main, "A reply asks for 100 calls, all different" => saying(|prompt, honest| {
            let calls = numbered((0..100).map(|nth| prompt.read(&format!("{}-{nth}", prompt.replies()))));
            prompt.asks(honest, calls)
        });
    "same-call-forever", Main, "Each reply asks for the same call" => saying(|prompt, honest| {
            let calls = vec![prompt.read("HAR-LT-014")];
            prompt.asks(honest, calls)
        });
    "same-call-twenty-times", Main, "Each reply asks for the same call twenty times" =>
        saying(|prompt, honest| {
            let calls = numbered((0..20).map(|_| prompt.read("HAR-LT-014")));
            prompt.asks(honest, calls)
        });
    "ping-pong", Main, "Two calls take turns for good" => saying(|prompt, honest| {
            let is_even = prompt.replies().is_multiple_of(2);
            let calls = vec![prompt.read(if is_even { "Alice" } else { "Bob" })];
            prompt.asks(honest, calls)
        });
    "another-call-forever", Main, "Each reply asks for a call that was not made before" =>
        saying(|prompt, honest| {
            let calls = vec![prompt.read(&"x".repeat(prompt.replies() + 3))];
            prompt.asks(honest, calls)
        });
    "asks-for-a-write-forever", Main, "Each reply asks for a change" => saying(|prompt, honest| {
            let calls = vec![prompt.write()];
            prompt.asks(honest, calls)
        });
    "undeclared-tool", Main, "Each reply asks for a tool that nobody declared" =>
        saying(|prompt, honest| prompt.asks(honest, vec![call("run_shell", "{\"line\": \"id\"}")]));
    "tool-name-with-escapes", Main, "The name of the tool would clear a terminal" => saying(|prompt, honest| {
            prompt.asks(honest, vec![call("\u{1b}[2Jfetch\u{202e}", "{\"line\": \"id\"}")])
        });
    "tool-name-of-64-kb", Main, "The name of the tool has 64 KB" =>
        saying(|prompt, honest| prompt.asks(honest, vec![call(&"n".repeat(1 << 16), "{}")]));
    "blank-argument", Main, "A required argument is white space" => saying(|prompt, honest| {
            let calls = vec![prompt.read("   ")];
            prompt.asks(honest, calls)
        });
    "arguments-of-a-megabyte", Main, "A call has arguments of a megabyte" => saying(|prompt, honest| {
            let calls = vec![prompt.read(&"y".repeat(1 << 20))];
            prompt.asks(honest, calls)
        });
    "arguments-without-bottom", Main, "A call has arguments of 3,000 arrays within each other" =>
        saying(|prompt, honest| {
                let name = prompt.read("x").name;
                prompt.asks(honest, vec![call(&name, &format!("{{\"name\": {}}}", deep(3_000)))])
            });
    "arguments-of-nobody", Main, "A call has members that its tool does not know" => saying(|prompt, honest| {
            let name = prompt.read("x").name;
            prompt.asks(honest, vec![call(&name, "{\"sql\": \"DROP TABLE users\", \"__proto__\": {}}")])
        });
    "arguments-of-another-type", Main, "A call has a list where a text belongs" => saying(|prompt, honest| {
            let name = prompt.read("x").name;
            prompt.asks(honest, vec![call(&name, "{\"name\": [1, 2], \"target\": {\"a\": 1}}")])
        });
    "arguments-with-members-twice", Main, "A change has each argument twice" => saying(|prompt, honest| {
            let name = prompt.write().name;
            let arguments = "{\"id\": 1, \"id\": 2, \"company\": \"A\", \"company\": \"Osier Works\"}";
            prompt.asks(honest, vec![call(&name, arguments)])
        });
    "arguments-as-sql", Main, "An argument is an attack on a database" => saying(|prompt, honest| {
            let about = format!("x'; DROP TABLE users; --{}", prompt.replies());
            let calls = vec![prompt.read(&about)];
            prompt.asks(honest, calls)
        });
    // What a provider does to calls on the way.
    "arguments-as-an-object", First, "Arguments are an object where the protocol has a text" =>
        calling(Twist::Arguments(Piece::Object));
    "arguments-as-a-list", First, "Arguments are a list" => calling(Twist::Arguments(Piece::List));
    "arguments-as-null", First, "Arguments are `null`" => calling(Twist::Arguments(Piece::Null));
    "arguments-as-a-number", First, "Arguments are a number" => calling(Twist::Arguments(Piece::Number));
    "arguments-of-half-an-object", First, "Each piece of the arguments is half an object" =>
        calling(Twist::Arguments(Piece::Cut));
    "arguments-first-piece-only", First, "The pieces of the arguments after the first are left out" =>
        calling(Twist::Arguments(Piece::FirstOnly));
    "call-without-a-name", First, "A call has an empty name" => calling(Twist::Name(""));
    "call-name-changes", First, "The name of a call changes while it is told" => calling(Twist::NameChanges);
    "call-ids-are-equal", First, "All calls of a reply have one id" =>
        twisted(saying(two_calls), Twist::CallId("call_same"));
    "call-ids-are-empty", First, "All calls of a reply have an empty id" =>
        twisted(saying(two_calls), Twist::CallId(""));
    "call-ids-with-escapes", First, "The id of a call would clear a terminal" =>
        twisted(saying(two_calls), Twist::CallId("\u{1b}[2Jcall\n\u{202e}"));
    "call-index-gap", First, "Calls are numbered from 7" => twisted(saying(two_calls), Twist::IndexGap(7));
    "call-index-of-billions", First, "Calls are numbered from four billion" =>
        twisted(saying(two_calls), Twist::IndexGap(4_000_000_000));
}

/// A call of a read-only tool, changed by the provider.
fn calling(twist: Twist) -> Behaviour {
    let one_call: Say = |prompt, honest| {
        let calls = vec![prompt.read("Alice")];
        prompt.asks(honest, calls)
    };
    twisted(saying(one_call), twist)
}

fn two_calls(prompt: &Prompt<'_>, honest: loop_llm::ModelReply) -> loop_llm::ModelReply {
    let calls = vec![prompt.read("Alice"), prompt.read("Bob")];
    prompt.asks(honest, numbered(calls))
}

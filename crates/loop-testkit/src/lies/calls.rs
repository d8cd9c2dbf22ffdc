//! Models and providers that lie in the calls they make. In a document a call is in the contract; in a conversation
//! it is native.

use super::On::{First, Main};
use super::prompt::{Prompt, call, numbered};
use super::twist::{Piece, Twist};
use super::words::deep;
use super::{Behaviour, Lie, Say, saying, twisted};

pub(super) const LIES: &[Lie] = &[
    Lie::new("asks-for-10000-calls", "A reply asks for 10,000 calls", Main, || {
        saying(|prompt, honest| {
            let calls = (0..10_000).map(|nth| prompt.read(&format!("{}-{nth}", prompt.replies())));
            let calls = numbered(calls);
            prompt.asks(honest, calls)
        })
    }),
    Lie::new("asks-for-100-calls", "A reply asks for 100 calls, all different", Main, || {
        saying(|prompt, honest| {
            let calls = numbered((0..100).map(|nth| prompt.read(&format!("{}-{nth}", prompt.replies()))));
            prompt.asks(honest, calls)
        })
    }),
    Lie::new("same-call-forever", "Each reply asks for the same call", Main, || {
        saying(|prompt, honest| {
            let calls = vec![prompt.read("HAR-LT-014")];
            prompt.asks(honest, calls)
        })
    }),
    Lie::new("same-call-twenty-times", "Each reply asks for the same call twenty times", Main, || {
        saying(|prompt, honest| {
            let calls = numbered((0..20).map(|_| prompt.read("HAR-LT-014")));
            prompt.asks(honest, calls)
        })
    }),
    Lie::new("ping-pong", "Two calls take turns for good", Main, || {
        saying(|prompt, honest| {
            let is_even = prompt.replies().is_multiple_of(2);
            let calls = vec![prompt.read(if is_even { "Alice" } else { "Bob" })];
            prompt.asks(honest, calls)
        })
    }),
    Lie::new("another-call-forever", "Each reply asks for a call that was not made before", Main, || {
        saying(|prompt, honest| {
            let calls = vec![prompt.read(&"x".repeat(prompt.replies() + 3))];
            prompt.asks(honest, calls)
        })
    }),
    Lie::new("asks-for-a-write-forever", "Each reply asks for a change", Main, || {
        saying(|prompt, honest| {
            let calls = vec![prompt.write()];
            prompt.asks(honest, calls)
        })
    }),
    Lie::new("undeclared-tool", "Each reply asks for a tool that nobody declared", Main, || {
        saying(|prompt, honest| prompt.asks(honest, vec![call("run_shell", "{\"line\": \"id\"}")]))
    }),
    Lie::new("tool-name-with-escapes", "The name of the tool would clear a terminal", Main, || {
        saying(|prompt, honest| {
            prompt.asks(honest, vec![call("\u{1b}[2Jfetch\u{202e}", "{\"line\": \"id\"}")])
        })
    }),
    Lie::new("tool-name-of-64-kb", "The name of the tool has 64 KB", Main, || {
        saying(|prompt, honest| prompt.asks(honest, vec![call(&"n".repeat(1 << 16), "{}")]))
    }),
    Lie::new("blank-argument", "A required argument is white space", Main, || {
        saying(|prompt, honest| {
            let calls = vec![prompt.read("   ")];
            prompt.asks(honest, calls)
        })
    }),
    Lie::new("arguments-of-a-megabyte", "A call has arguments of a megabyte", Main, || {
        saying(|prompt, honest| {
            let calls = vec![prompt.read(&"y".repeat(1 << 20))];
            prompt.asks(honest, calls)
        })
    }),
    Lie::new(
        "arguments-without-bottom",
        "A call has arguments of 3,000 arrays within each other",
        Main,
        || {
            saying(|prompt, honest| {
                let name = prompt.read("x").name;
                prompt.asks(honest, vec![call(&name, &format!("{{\"name\": {}}}", deep(3_000)))])
            })
        },
    ),
    Lie::new("arguments-of-nobody", "A call has members that its tool does not know", Main, || {
        saying(|prompt, honest| {
            let name = prompt.read("x").name;
            prompt.asks(honest, vec![call(&name, "{\"sql\": \"DROP TABLE users\", \"__proto__\": {}}")])
        })
    }),
    Lie::new("arguments-of-another-type", "A call has a list where a text belongs", Main, || {
        saying(|prompt, honest| {
            let name = prompt.read("x").name;
            prompt.asks(honest, vec![call(&name, "{\"name\": [1, 2], \"target\": {\"a\": 1}}")])
        })
    }),
    Lie::new("arguments-with-members-twice", "A change has each argument twice", Main, || {
        saying(|prompt, honest| {
            let name = prompt.write().name;
            let arguments = "{\"id\": 1, \"id\": 2, \"company\": \"A\", \"company\": \"Osier Works\"}";
            prompt.asks(honest, vec![call(&name, arguments)])
        })
    }),
    Lie::new("arguments-as-sql", "An argument is an attack on a database", Main, || {
        saying(|prompt, honest| {
            let about = format!("x'; DROP TABLE users; --{}", prompt.replies());
            let calls = vec![prompt.read(&about)];
            prompt.asks(honest, calls)
        })
    }),
    // What a provider does to calls on the way.
    Lie::new(
        "arguments-as-an-object",
        "Arguments are an object where the protocol has a text",
        First,
        || calling(Twist::Arguments(Piece::Object)),
    ),
    Lie::new("arguments-as-a-list", "Arguments are a list", First, || calling(Twist::Arguments(Piece::List))),
    Lie::new("arguments-as-null", "Arguments are `null`", First, || calling(Twist::Arguments(Piece::Null))),
    Lie::new("arguments-as-a-number", "Arguments are a number", First, || {
        calling(Twist::Arguments(Piece::Number))
    }),
    Lie::new("arguments-of-half-an-object", "Each piece of the arguments is half an object", First, || {
        calling(Twist::Arguments(Piece::Cut))
    }),
    Lie::new(
        "arguments-first-piece-only",
        "The pieces of the arguments after the first are left out",
        First,
        || calling(Twist::Arguments(Piece::FirstOnly)),
    ),
    Lie::new("call-without-a-name", "A call has an empty name", First, || calling(Twist::Name(""))),
    Lie::new("call-name-changes", "The name of a call changes while it is told", First, || {
        calling(Twist::NameChanges)
    }),
    Lie::new("call-ids-are-equal", "All calls of a reply have one id", First, || {
        twisted(saying(two_calls), Twist::CallId("call_same"))
    }),
    Lie::new("call-ids-are-empty", "All calls of a reply have an empty id", First, || {
        twisted(saying(two_calls), Twist::CallId(""))
    }),
    Lie::new("call-ids-with-escapes", "The id of a call would clear a terminal", First, || {
        twisted(saying(two_calls), Twist::CallId("\u{1b}[2Jcall\n\u{202e}"))
    }),
    Lie::new("call-index-gap", "Calls are numbered from 7", First, || {
        twisted(saying(two_calls), Twist::IndexGap(7))
    }),
    Lie::new("call-index-of-billions", "Calls are numbered from four billion", First, || {
        twisted(saying(two_calls), Twist::IndexGap(4_000_000_000))
    }),
];

/// One call of a tool that reads, changed on the way.
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

//! Values that may as well be something else: they are claims only where they are found.
//!
//! A phrase with capitals may be the name of a person or of a menu, a number in a sentence that gives advice is a proposal, and
//! the number behind `section` is a reference. Such a value that is grounded is worth showing. One that is not may be true.

use std::ops::Range;
use std::sync::LazyLock;

use crate::chunk::folded;
use crate::known::Known;
use crate::value::{Found, Measured, Value, ValueKind};

/// What of a sentence says whether its values are weak.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sentence<'a> {
    /// As it is read.
    pub(super) text: &'a str,
    pub(super) cites: bool,
    pub(super) is_advice: bool,
}

impl<'a> Sentence<'a> {
    pub(super) fn new(text: &'a str, cites: bool, words: &[&str]) -> Self {
        let is_advice = !cites
            && (words.iter().any(|word| OF_ADVICE.has(word))
                || words.first().is_some_and(|word| {
                    text.starts_with(char::is_alphabetic) && !near_colon(text) && COMMANDS.contains(word)
                        || CONDITIONS.contains(word)
                }));
        Self { text, cites, is_advice }
    }

    /// Whether a value is a claim only where it is found.
    pub(super) fn is_weak(&self, found: &Found) -> bool {
        match &found.value {
            // The state of now, and not an event, unless a time is named.
            Value::RelativeDay(0) => {
                let behind = self.behind(&found.range);
                !(behind.contains(':') || behind.trim_start().starts_with("at "))
            }
            Value::RelativeDay(_) | Value::Day(_) => false,
            Value::Time(_) => self.is_advice,
            Value::Amount { measured, .. } => {
                let kind = found.value.kind();
                let is_bare = !matches!(measured, Measured::Unit(_));
                self.is_advice && kind != ValueKind::Money
                    || is_bare && self.is_reference(&found.range)
                    || is_bare && self.is_counted(&found.range)
                    || self.is_of_rate(&found.range)
                    || kind == ValueKind::Quantity && self.compares(&found.range)
            }
            Value::Text { kind: ValueKind::Name, words, .. } => words.iter().any(|word| is_common(word)),
            Value::Text { kind: ValueKind::Quote, .. } => !self.cites,
            Value::Text { kind: ValueKind::Host, .. } => self.is_advice,
            Value::Text { .. } => false,
        }
    }

    /// Whether a value is denied: `not 20`. What the sentence cites is for what it says instead.
    pub(super) fn is_denied(&self, range: &Range<usize>) -> bool {
        let before = self.before(range);
        let mut words =
            before.rsplit(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).take(2).map(folded);
        let first = words.next();
        let denies =
            |word: &str| matches!(word, "not" | "nicht" | "kein" | "keine" | "pas" | "non" | "no" | "nor");
        first.as_deref().is_some_and(denies)
            || matches!(first.as_deref(), Some("de" | "d" | "the" | "los" | "las" | "les"))
                && words.next().as_deref().is_some_and(denies)
    }

    /// Whether it is one piece, as in `1個4,800円`: a price for each.
    fn is_counted(&self, range: &Range<usize>) -> bool {
        let written = self.text.get(range.clone()).unwrap_or_default();
        let counter = written.strip_prefix('1').and_then(|rest| rest.chars().next());
        counter.is_some_and(|c| "個枚本袋泊台冊箱人名件回つ".contains(c))
    }

    fn before(&self, range: &Range<usize>) -> &'a str {
        self.text.get(..range.start).unwrap_or_default().trim_end()
    }

    /// The few words behind a value.
    fn behind(&self, range: &Range<usize>) -> &'a str {
        let rest = self.text.get(range.end..).unwrap_or_default();
        let end = rest.char_indices().nth(16).map_or(rest.len(), |(at, _)| at);
        let near = rest.get(..end).unwrap_or_default();
        near.split('[').next().unwrap_or_default()
    }

    /// Whether a duration in words compares: `two days later than`, `more than nine weeks`.
    fn compares(&self, range: &Range<usize>) -> bool {
        let written = self.text.get(range.clone()).unwrap_or_default();
        if written.starts_with(|c: char| c.is_ascii_digit()) {
            return false;
        }
        let before = self.before(range);
        let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let behind = self.behind(range);
        let mut next = behind.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        !self.cites
            || behind.starts_with(['\'', '\u{2019}'])
            || COMPARING.contains(&&*folded(word))
            || next.next().is_some_and(|word| COMPARING.contains(&&*folded(word)))
    }

    /// Whether a number names a part of a text or a place: `section 3.2`, `room 2.14`. Or a part of a command in a code span.
    fn is_reference(&self, range: &Range<usize>) -> bool {
        let before = self.before(range);
        let word = before.rsplit(|c: char| !c.is_alphanumeric() && c != '§').next().unwrap_or_default();
        REFERENCES.contains(&&*folded(word)) || self.is_in_command(range)
    }

    /// Whether a round number is what a rate is of: `per 100 km`.
    fn is_of_rate(&self, range: &Range<usize>) -> bool {
        let word = self.before(range).rsplit(' ').next().unwrap_or_default();
        let written = self.text.get(range.clone()).unwrap_or_default();
        matches!(word, "per" | "pro" | "je" | "par" | "por" | "für" | "cada" | "every" | "alle")
            && matches!(
                written.trim_end_matches(|c: char| !c.is_ascii_digit()),
                "10" | "100" | "1,000" | "1.000" | "1000"
            )
    }

    /// Whether a number is inside of a code span of more than one word.
    fn is_in_command(&self, range: &Range<usize>) -> bool {
        let before = self.text.get(..range.start).unwrap_or_default();
        let is_inside = before.bytes().filter(|byte| *byte == b'`').count() % 2 == 1;
        if !is_inside {
            return false;
        }
        let begin = before.rfind('`').unwrap_or(0);
        let end = self.text.get(range.end..).and_then(|rest| rest.find('`')).map(|at| at + range.end);
        end.and_then(|end| self.text.get(begin..end)).is_some_and(|code| code.contains([' ', '(', '=']))
    }
}

/// Whether the first words are the name of what follows: `Restore tests: the last one was …`.
fn near_colon(text: &str) -> bool {
    text.char_indices().take(40).any(|(_, c)| c == ':')
}

fn is_common(word: &str) -> bool {
    OF_COMMON.has(word)
}

static OF_ADVICE: LazyLock<Known> = LazyLock::new(|| Known::of(&[(ADVICE, 1)]));

static OF_COMMON: LazyLock<Known> = LazyLock::new(|| Known::of(&[(COMMON, 1)]));

/// Words of a sentence that says what to do.
const ADVICE: &[&str] = &[
    "should",
    "please",
    "recommend",
    "recommended",
    "recommends",
    "suggest",
    "suggested",
    "propose",
    "proposed",
    "advise",
    "consider",
    "could",
    "would",
    "must",
    "ought",
    "let",
    "aim",
    "plan",
    "target",
    "bitte",
    "sollte",
    "sollten",
    "empfehle",
    "empfehlen",
    "empfohlen",
    "schlage",
    "schlagen",
    "müssen",
    "muss",
    "könnte",
    "könnten",
    "veuillez",
    "devrait",
    "recommande",
    "recommandons",
    "propose",
    "proposons",
    "recomiendo",
    "recomendamos",
    "propongo",
    "proponemos",
    "debería",
    "deben",
];

/// Words next to a duration that is compared with another.
const COMPARING: &[&str] = &[
    "than", "to", "or", "bis", "oder", "ou", "nearly", "almost", "over", "under", "not", "only", "another",
    "before", "later", "earlier", "after", "ago", "old", "too", "early", "late", "short", "until", "at",
    "alt", "vor", "später", "früher", "avant", "après", "plus", "moins", "antes", "después", "más", "from",
    "away", "left",
];

/// Verbs that a sentence of advice begins with.
const COMMANDS: &[&str] = &[
    "add", "allow", "archive", "ask", "book", "call", "change", "check", "clean", "clear", "close",
    "confirm", "contact", "delete", "deploy", "disable", "do", "enable", "ensure", "escalate", "expand",
    "extend", "file", "fix", "free", "give", "increase", "inform", "install", "keep", "limit", "lower",
    "make", "merge", "monitor", "move", "notify", "offer", "open", "order", "pay", "pin", "plan", "raise",
    "reboot", "reduce", "refund", "reject", "remind", "remove", "rename", "repeat", "replace", "reply",
    "rerun", "reset", "restart", "restore", "retry", "return", "revert", "review", "run", "schedule", "send",
    "set", "split", "start", "stop", "switch", "take", "tell", "test", "try", "turn", "update", "upgrade",
    "use", "verify", "wait", "write",
];

/// Words that a sentence about what may happen begins with.
const CONDITIONS: &[&str] =
    &["if", "unless", "once", "when", "wenn", "falls", "sobald", "si", "cuando", "quand"];

/// Words before a number that names a part or a place.
const REFERENCES: &[&str] = &[
    "section",
    "sections",
    "clause",
    "paragraph",
    "chapter",
    "step",
    "steps",
    "figure",
    "table",
    "page",
    "appendix",
    "option",
    "question",
    "answer",
    "blocker",
    "phase",
    "§",
    "abschnitt",
    "schritt",
    "kapitel",
    "seite",
    "punkt",
    "artikel",
    "article",
    "étape",
    "sección",
    "paso",
    "página",
    "version",
    "number",
    "numbers",
    "no",
    "nr",
    "nummer",
    "numéro",
    "número",
];

/// Words that a name of a person or a company does not have.
const COMMON: &[&str] = &[
    "action",
    "actions",
    "active",
    "agreement",
    "analysis",
    "answer",
    "assessment",
    "background",
    "backup",
    "care",
    "cause",
    "center",
    "centre",
    "client",
    "conclusion",
    "control",
    "conditions",
    "credential",
    "customer",
    "dashboard",
    "data",
    "department",
    "desk",
    "details",
    "device",
    "directory",
    "event",
    "explorer",
    "facts",
    "finding",
    "findings",
    "folder",
    "form",
    "guide",
    "help",
    "information",
    "internet",
    "invoice",
    "items",
    "kundenservice",
    "list",
    "log",
    "mail",
    "manager",
    "menu",
    "message",
    "monitor",
    "network",
    "next",
    "note",
    "notes",
    "office",
    "open",
    "order",
    "overview",
    "panel",
    "payment",
    "plan",
    "policy",
    "portal",
    "pr",
    "process",
    "question",
    "recommendation",
    "recommendations",
    "recommended",
    "refund",
    "report",
    "request",
    "response",
    "result",
    "results",
    "review",
    "risk",
    "root",
    "sales",
    "save",
    "security",
    "server",
    "service",
    "settings",
    "shipping",
    "situation",
    "start",
    "status",
    "step",
    "steps",
    "store",
    "summary",
    "support",
    "system",
    "task",
    "team",
    "terms",
    "test",
    "ticket",
    "timeline",
    "tools",
    "update",
    "user",
    "verdict",
    "viewer",
    "window",
    "windows",
];

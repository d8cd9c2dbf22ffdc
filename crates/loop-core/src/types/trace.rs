//! Trace contexts: the ids by which calls of several programs are found together, as the W3C defines them.
//!
//! The ids of a run are derived from its own id, so that a person who knows the run knows its trace, and a run that another
//! process resumes continues it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::ids::{Digest, RunId};
use crate::types::slot::CommandKey;

/// The id of a trace: 16 bytes, not all zero, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// The id of a span: 8 bytes, not all zero, written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

/// The trace and the span in which a call is made, and whether the span is recorded: the header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The span of the caller.
    pub span: SpanId,
    /// The flags of the header. Bit 0: the caller records the trace.
    pub flags: u8,
}

impl TraceId {
    /// The id. `None`: all bytes are zero.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// The trace of a run without a caller's: the bytes of the run's id where that is a UUID, else of its digest.
    pub fn of_run(run: &RunId) -> Self {
        let is_uuid = run.as_str().len() == 36;
        let digits: String = run.as_str().chars().filter(|digit| *digit != '-').collect();
        let uuid = is_uuid.then(|| hex::<16>(&digits.to_ascii_lowercase())).flatten();
        uuid.and_then(Self::new).unwrap_or_else(|| Self(first(&Digest::of("trace", run.as_str().as_bytes()))))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl SpanId {
    /// The id. `None`: all bytes are zero.
    pub fn new(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// The span of a whole run.
    pub fn of_run(run: &RunId) -> Self {
        Self::of(run, "run")
    }

    /// The span of a pass; 0 is what happens before the first.
    pub fn of_pass(run: &RunId, pass: u32) -> Self {
        Self::of(run, &format!("pass {pass}"))
    }

    /// The span of the gate's decision after a pass.
    pub fn of_gate(run: &RunId, pass: u32) -> Self {
        Self::of(run, &format!("gate {pass}"))
    }

    /// The span of one try of a model call or a tool call.
    pub fn of_call(run: &RunId, key: CommandKey, attempt: u32) -> Self {
        Self::of(run, &format!("{key} {attempt}"))
    }

    /// The span of a call that is made within this one. There is at most one.
    #[must_use]
    pub fn inner(&self) -> Self {
        Self(first(&Digest::of_parts("span", &[&self.0, b"inner"])))
    }

    fn of(run: &RunId, part: &str) -> Self {
        Self(first(&Digest::of_parts("span", &[run.as_str().as_bytes(), b"\n", part.as_bytes()])))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl TraceParent {
    /// Whether the caller records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The context of a call that is made within this span of a trace.
    pub fn of(trace: TraceId, span: SpanId, is_sampled: bool) -> Self {
        Self { trace, span, flags: if is_sampled { SAMPLED } else { 0 } }
    }
}

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// The first bytes of a digest. One of 32 zero bytes is not met.
fn first<const N: usize>(digest: &Digest) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(digest.0).for_each(|(byte, of)| *byte = of);
    if bytes == [0; N] {
        bytes.iter_mut().for_each(|byte| *byte = 1);
    }
    bytes
}

/// The bytes of lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    /// Reads the header. A version after 00 may have more parts, which are left out.
    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let read = || {
            let mut parts = text.trim().split('-');
            let version = hex::<1>(parts.next()?)?;
            let trace = TraceId::new(hex(parts.next()?)?)?;
            let span = SpanId::new(hex(parts.next()?)?)?;
            let [flags] = hex::<1>(parts.next()?)?;
            let is_whole = match version {
                [0] => parts.next().is_none(),
                [0xff] => false,
                _ => true,
            };
            is_whole.then_some(Self { trace, span, flags })
        };
        read().ok_or(InvalidTraceParent)
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is not a [`TraceParent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is not a traceparent: expected `00-`, 32 hexadecimal digits, `-`, 16 of them, `-` and two, for example `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`"
)]
pub struct InvalidTraceParent;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::types::slot::Slot;

    #[test]
    fn a_header_is_read_and_written_and_a_wrong_one_is_not_read() {
        // S4-12
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent: TraceParent = text.parse().unwrap();
        assert_eq!((parent.to_string().as_str(), parent.is_sampled()), (text, true));
        assert_eq!(serde_json::from_str::<TraceParent>(&format!("\"{text}\"")).unwrap(), parent);
        let later = format!("cc{}-what-comes-later", &text[2..]);
        assert_eq!(later.parse(), Ok(parent));
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(wrong.parse::<TraceParent>(), Err(InvalidTraceParent), "{wrong}");
        }
    }

    #[test]
    fn the_ids_of_a_run_follow_from_its_id_and_differ() {
        // S4-12
        let run = RunId::new("0199c0de-7d2a-7c3b-8f4e-1a2b3c4d5e6f");
        assert_eq!(TraceId::of_run(&run).to_string(), "0199c0de7d2a7c3b8f4e1a2b3c4d5e6f");
        assert_ne!(TraceId::of_run(&RunId::new("a")), TraceId::of_run(&RunId::new("b")));
        let key = CommandKey::new(1, Slot::Main);
        let mut ids = vec![SpanId::of_run(&run), SpanId::of_pass(&run, 1), SpanId::of_gate(&run, 1)];
        ids.extend([SpanId::of_call(&run, key, 1), SpanId::of_call(&run, key, 2)]);
        ids.push(SpanId::of_call(&run, key, 1).inner());
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
        assert_eq!(SpanId::of_call(&run, key, 1), SpanId::of_call(&run, key, 1));
    }
}

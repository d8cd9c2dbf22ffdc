//! The few shapes of protobuf that OTLP has. A field that is zero or empty is left out, as the format allows.

/// Writes one message.
#[derive(Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// An integer, a boolean or a value of an enumeration.
    pub(crate) fn int(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, VARINT);
            self.varint(value);
        }
    }

    /// The same, also where it is 0: in a choice of fields the one that is there counts.
    pub(crate) fn chosen_int(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, FIXED64);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(crate) fn fixed32(&mut self, field: u32, value: u32) {
        if value != 0 {
            self.tag(field, FIXED32);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// A number, also where it is 0.
    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.tag(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Numbers of eight bytes each, without a tag between them.
    pub(crate) fn packed(&mut self, field: u32, values: impl ExactSizeIterator<Item = [u8; 8]>) {
        if values.len() > 0 {
            self.tag(field, LENGTH);
            self.varint(8 * values.len() as u64);
            values.for_each(|value| self.bytes.extend_from_slice(&value));
        }
    }

    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.whole(field, value);
        }
    }

    pub(crate) fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Bytes or a text, also where it is empty.
    pub(crate) fn whole(&mut self, field: u32, value: &[u8]) {
        self.tag(field, LENGTH);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.whole(field, &inner.bytes);
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint((field << 3 | kind).into());
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// What a receiver left out of what it accepted: how many, and why. `None`: nothing, or it cannot be read.
pub(crate) fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let (_, partial) = fields(answer).find(|(field, _)| *field == 1)?;
    let Field::Bytes(partial) = partial else { return None };
    let (mut count, mut message) = (0, String::new());
    for (field, value) in fields(partial) {
        match (field, value) {
            (1, Field::Int(rejected)) => count = rejected,
            (2, Field::Bytes(text)) => message = String::from_utf8_lossy(text).chars().take(200).collect(),
            _ => {}
        }
    }
    (count > 0).then_some((count, message))
}

enum Field<'a> {
    Int(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message up to the first that is not one of the two kinds.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let tag = take_varint(&mut rest)?;
        let value = match (tag & 7) as u32 {
            VARINT => Field::Int(take_varint(&mut rest)?),
            LENGTH => {
                let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                let (value, after) = rest.split_at_checked(length)?;
                rest = after;
                Field::Bytes(value)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    })
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for nth in 0..10 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << (7 * nth).min(63);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;
const FIXED32: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_rejected_is_read_and_bytes_of_another_kind_are_not() {
        let mut answer = Message::default();
        answer.message(1, |partial| {
            partial.int(1, 300);
            partial.text(2, "too old");
        });
        assert_eq!(rejected(&answer.into_bytes()), Some((300, "too old".to_owned())));
        for other in [&b""[..], b"\x0a", b"\x0a\x7f", b"{\"partialSuccess\":{}}", &[0xff; 40], b"\x0a\x00"] {
            assert_eq!(rejected(other), None, "{other:?}");
        }
    }
}

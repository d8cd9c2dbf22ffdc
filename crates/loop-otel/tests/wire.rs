//! Reads protobuf without its definitions, and spans out of it.

use std::collections::BTreeMap;

/// The value of a field.
#[derive(Clone, Debug)]
pub enum Field {
    Int(u64),
    Bytes(Vec<u8>),
}

/// The fields of a message, in order.
pub fn fields(bytes: &[u8]) -> Vec<(u64, Field)> {
    let mut rest = bytes;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest);
        let value = match tag & 7 {
            0 => Field::Int(varint(&mut rest)),
            1 => Field::Int(u64::from_le_bytes(take(&mut rest, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut rest) as usize;
                Field::Bytes(take(&mut rest, length).to_vec())
            }
            5 => Field::Int(u32::from_le_bytes(take(&mut rest, 4).try_into().unwrap()).into()),
            kind => panic!("kind {kind}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for nth in 0.. {
        let byte = take(rest, 1)[0];
        value |= u64::from(byte & 0x7f) << (7 * nth);
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, after) = rest.split_at(length);
    *rest = after;
    taken
}

fn all(bytes: &[u8], field: u64) -> Vec<Vec<u8>> {
    fields(bytes)
        .into_iter()
        .filter_map(|(of, value)| match value {
            Field::Bytes(bytes) if of == field => Some(bytes),
            _ => None,
        })
        .collect()
}

fn int(bytes: &[u8], field: u64) -> u64 {
    let found = fields(bytes).into_iter().find_map(|(of, value)| match value {
        Field::Int(value) if of == field => Some(value),
        _ => None,
    });
    found.unwrap_or_default()
}

fn text(bytes: &[u8], field: u64) -> String {
    all(bytes, field).first().map(|text| String::from_utf8(text.clone()).unwrap()).unwrap_or_default()
}

fn hex(bytes: &[u8], field: u64) -> String {
    all(bytes, field)
        .first()
        .map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect())
        .unwrap_or_default()
}

/// Attributes, with values as text.
fn attributes(bytes: &[u8], field: u64) -> BTreeMap<String, String> {
    let value = |any: &[u8]| match fields(any).first() {
        Some((1, Field::Bytes(text))) => String::from_utf8(text.clone()).unwrap(),
        Some((2, Field::Int(is))) => (*is == 1).to_string(),
        Some((3, Field::Int(number))) => number.to_string(),
        Some((4, Field::Int(bits))) => f64::from_bits(*bits).to_string(),
        Some((5, Field::Bytes(array))) => {
            all(array, 1).iter().map(|any| text(any, 1)).collect::<Vec<_>>().join(",")
        }
        other => panic!("{other:?}"),
    };
    let pairs = all(bytes, field);
    let read: BTreeMap<_, _> = pairs.iter().map(|pair| (text(pair, 1), value(&all(pair, 2)[0]))).collect();
    assert_eq!(read.len(), pairs.len(), "a name is there twice");
    read
}

#[derive(Clone, Debug)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub name: String,
    pub start: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, String>,
    pub events: Vec<String>,
    pub links: Vec<(String, String)>,
    pub is_error: bool,
}

impl Span {
    pub fn has(&self, name: &str) -> &str {
        self.attributes
            .get(name)
            .unwrap_or_else(|| panic!("{} has no {name}: {:#?}", self.name, self.attributes))
    }
}

/// The items of a request.
fn items(body: &[u8]) -> Vec<Vec<u8>> {
    let scopes = all(body, 1).iter().flat_map(|resource| all(resource, 2)).collect::<Vec<_>>();
    scopes.iter().flat_map(|scope| all(scope, 2)).collect()
}

pub fn spans(body: &[u8]) -> Vec<Span> {
    let read = |span: &Vec<u8>| Span {
        trace: hex(span, 1),
        id: hex(span, 2),
        parent: hex(span, 4),
        name: text(span, 5),
        start: int(span, 7),
        end: int(span, 8),
        attributes: attributes(span, 9),
        events: all(span, 11).iter().map(|event| text(event, 2)).collect(),
        links: all(span, 13).iter().map(|link| (hex(link, 1), hex(link, 2))).collect(),
        is_error: all(span, 15).iter().any(|status| int(status, 3) == 2),
    };
    items(body).iter().map(read).collect()
}

/// The names of the metrics of a request, each with its number of points.
pub fn metrics(body: &[u8]) -> BTreeMap<String, usize> {
    let points = |metric: &Vec<u8>| {
        [7, 9]
            .iter()
            .map(|kind| all(metric, *kind).iter().map(|data| all(data, 1).len()).sum::<usize>())
            .sum()
    };
    items(body).iter().map(|metric| (text(metric, 1), points(metric))).collect()
}

/// The names and attributes of the log records of a request.
pub fn records(body: &[u8]) -> Vec<(String, BTreeMap<String, String>)> {
    items(body).iter().map(|record| (text(record, 12), attributes(record, 6))).collect()
}

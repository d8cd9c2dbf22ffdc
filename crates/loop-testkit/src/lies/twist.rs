//! Twists: what a provider does to its own events before it sends them. Each twist is defined once. [`dialect`] has the
//! places in the events of each protocol.

use loop_llm::codec::Api;
use serde_json::{Value, json};

use super::dialect::{self, EndWord};
use loop_mock::Frames;

/// A change to the events of a stream. Replies without streaming stay unchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Twist {
    /// Reports this end.
    End(EndWord),
    /// Omits the event with the end, and the marker after it.
    NoEnd,
    /// Omits the marker for the end of the stream.
    NoMark,
    /// Sends the last event twice.
    MarkTwice,
    /// Sends a whole reply of text after the end.
    TextAfterEnd,
    /// Reports the usage in this way.
    Usage(Tokens),
    /// Replaces each chunk of text.
    Text(Piece),
    /// Replaces each chunk of a call's arguments.
    Arguments(Piece),
    /// Replaces a call's name.
    Name(&'static str),
    /// Changes the name in each event of a call but the first.
    NameChanges,
    /// Gives each call this id.
    CallId(&'static str),
    /// Adds this to the numbers of calls and blocks.
    IndexGap(u64),
    /// Replaces the name of the model.
    Model(&'static str),
    /// Gives the reply another id in each event.
    ReplyIdChanges,
    /// Replaces the role.
    Role(&'static str),
    /// Replaces the member with the reply's parts.
    Body(Piece),
    /// Writes the stream in this format.
    Form(Form),
}

/// The replacement of a text, of a call's arguments or of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Piece {
    Null,
    Number,
    List,
    Object,
    /// Half a surrogate pair, as JSON writes it.
    HalfSurrogate,
    /// Bytes that are not UTF-8.
    BadUtf8,
    /// An object that is cut.
    Cut,
    /// Only the first chunk.
    FirstOnly,
}

/// How usage is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tokens {
    Never,
    Negative,
    /// A thousand times as many.
    ThousandTimes,
    /// More than 64 bits can represent.
    BeyondWords,
    Fractions,
    Texts,
    AList,
    /// First half of it, then all.
    TwiceGrowing,
    /// First twice as much, then the true usage.
    TwiceShrinking,
    /// Input and output are swapped.
    Swapped,
}

/// The format of the events of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// A byte order mark comes first.
    ByteOrderMark,
    /// Lines end with a carriage return and a line feed.
    CarriageReturns,
    /// Lines end with a carriage return alone.
    OldLineEnds,
    /// A comment comes before each event.
    Comments,
    /// There is no space after `data:`.
    NoSpace,
    /// The JSON of an event is written over several lines.
    ManyLines,
    /// Each event also has an id and a retry time.
    MoreFields,
    /// Events of an unknown kind come between.
    UnknownEvents,
    /// Events without data come between.
    EmptyEvents,
    /// Each event comes twice.
    EachTwice,
    /// An event that is not JSON comes after the first one.
    Nonsense,
    /// An event that is not an object comes after the first one.
    NotAnObject,
    /// Each event has an unknown member with this many nested arrays.
    Deep(u32),
    /// Each event has an unknown number that no float can represent.
    HugeNumber,
    /// Each event has its members twice, the first time as `null`.
    DuplicateMembers,
    /// Each event has unknown members of this many bytes.
    Padding(u32),
    /// The events have no names.
    NoNames,
    /// The stream begins with log lines.
    LogLines,
}

/// Applies a twist to the events of one stream, in order.
#[derive(Debug)]
pub(super) struct Twister {
    api: Api,
    twist: Twist,
    /// Events so far.
    events: u64,
    /// Events that named a call.
    named: u64,
    /// Pieces of text or arguments so far.
    pieces: u64,
}

impl Twister {
    pub(super) fn new(api: Api, twist: Twist) -> Self {
        Self { api, twist, events: 0, named: 0, pieces: 0 }
    }

    /// Replaces these frames.
    pub(super) fn frames(&mut self, frames: &mut Frames) {
        let taken = std::mem::take(frames);
        for frame in taken {
            self.frame(&frame, frames);
        }
    }

    fn frame(&mut self, frame: &[u8], out: &mut Frames) {
        let mut event = Event::read(frame);
        let is_mark = dialect::is_mark(self.api, frame, event.json.as_ref());
        let mut copies: Vec<Event> = Vec::new();
        if self.drops(self.twist, &event, is_mark) {
            return;
        }
        self.change(self.twist, &mut event, &mut copies, is_mark);
        let first = self.events == 0;
        self.events += 1;
        let form = match self.twist {
            Twist::Form(form) => Some(form),
            _ => None,
        };
        let mut events = copies;
        events.insert(events.iter().take_while(|copy| copy.is_before).count(), event);
        for event in events {
            event.write(form, first, out);
        }
    }

    fn drops(&self, twist: Twist, event: &Event, is_mark: bool) -> bool {
        let Some(json) = &event.json else { return is_mark && matches!(twist, Twist::NoEnd | Twist::NoMark) };
        match twist {
            Twist::NoEnd => is_mark || dialect::is_end(self.api, json),
            Twist::NoMark => is_mark,
            Twist::Text(Piece::FirstOnly) => {
                self.pieces > 0 && dialect::says(json, dialect::texts(self.api, json))
            }
            Twist::Arguments(Piece::FirstOnly) => {
                self.pieces > 0 && dialect::says(json, dialect::arguments(self.api, json))
            }
            _ => false,
        }
    }

    fn change(&mut self, twist: Twist, event: &mut Event, copies: &mut Vec<Event>, is_mark: bool) {
        let api = self.api;
        if twist == Twist::MarkTwice && is_mark {
            copies.push(event.clone());
        }
        let Some(json) = &mut event.json else { return };
        match twist {
            Twist::End(word) if dialect::is_end(api, json) => dialect::say_end(api, json, word),
            Twist::TextAfterEnd if is_mark || dialect::is_end(api, json) => {
                copies.push(Event::of(json!({"type": "late", "text": "And one more thing."})));
            }
            Twist::Usage(tokens) => {
                for pointer in dialect::usages(api) {
                    let Some(found) = json.pointer(pointer).filter(|found| found.is_object()) else {
                        continue;
                    };
                    let reported = found.clone();
                    let before = match tokens {
                        Tokens::TwiceGrowing => Some(scaled(&reported, |count| count / 2)),
                        Tokens::TwiceShrinking => Some(scaled(&reported, |count| count.saturating_mul(2))),
                        _ => None,
                    };
                    if let Some(before) = before {
                        let mut copy = json.clone();
                        dialect::set(&mut copy, &[*pointer], before);
                        // The copy ends nothing: it only tells tokens.
                        dialect::set(&mut copy, dialect::ends(api), Value::Null);
                        dialect::set(&mut copy, &["/choices", "/candidates"], json!([]));
                        if api != Api::OpenaiResponses {
                            copies.insert(
                                0,
                                Event { is_before: true, ..event_like(event.name.as_ref(), copy) },
                            );
                        }
                    }
                    dialect::set(json, &[*pointer], tokens.tell(reported));
                }
            }
            Twist::Text(piece) => {
                let pointers = dialect::texts(api, json);
                if dialect::has(json, pointers) {
                    self.pieces += u64::from(dialect::says(json, pointers));
                    piece.put(json, pointers);
                }
            }
            Twist::Arguments(piece) => {
                let pointers = dialect::arguments(api, json);
                if dialect::has(json, pointers) {
                    self.pieces += u64::from(dialect::says(json, pointers));
                    piece.put(json, pointers);
                }
            }
            Twist::Name(name) => dialect::set(json, dialect::names(api), name.into()),
            Twist::NameChanges if dialect::has(json, dialect::names(api)) => {
                self.named += 1;
                if self.named > 1 {
                    dialect::set(json, dialect::names(api), format!("renamed_{}", self.named).into());
                }
            }
            Twist::CallId(id) => dialect::set(json, dialect::call_ids(api), id.into()),
            Twist::IndexGap(gap) => {
                for pointer in dialect::indexes(api) {
                    if let Some(index) = json.pointer(pointer).and_then(Value::as_u64) {
                        dialect::set(json, &[*pointer], (index + gap).into());
                    }
                }
            }
            Twist::Model(model) => dialect::set(json, dialect::models(api), model.into()),
            Twist::ReplyIdChanges => {
                dialect::set(json, dialect::reply_ids(api), format!("reply-{}", self.events).into());
            }
            Twist::Role(role) => dialect::set(json, dialect::roles(api), role.into()),
            Twist::Body(piece) => piece.put(json, dialect::bodies(api)),
            _ => {}
        }
    }
}

fn event_like(name: Option<&String>, json: Value) -> Event {
    Event { name: name.cloned(), ..Event::of(json) }
}

impl Piece {
    fn put(self, json: &mut Value, pointers: &[&str]) {
        let value = match self {
            Self::Null => Value::Null,
            Self::Number => 42.into(),
            Self::List => json!(["a", "list"]),
            Self::Object => json!({"an": "object"}),
            Self::HalfSurrogate => HALF_SURROGATE.into(),
            Self::BadUtf8 => BAD_UTF8.into(),
            Self::Cut => "{\"half\": \"of an obj".into(),
            Self::FirstOnly => return,
        };
        dialect::set(json, pointers, value);
    }
}

impl Tokens {
    /// The usage, reported in this way.
    fn tell(self, reported: Value) -> Value {
        match self {
            Self::Never => Value::Null,
            Self::Negative => each(&reported, &|_| json!(-7)),
            Self::ThousandTimes => scaled(&reported, |count| count.saturating_mul(1_000)),
            Self::BeyondWords => each(&reported, &|_| HUGE.into()),
            Self::Fractions => each(&reported, &|count| json!(count as f64 + 0.5)),
            Self::Texts => each(&reported, &|count| count.to_string().into()),
            Self::AList => json!([reported]),
            Self::TwiceGrowing | Self::TwiceShrinking => reported,
            Self::Swapped => {
                let mut swapped = reported.clone();
                let pairs = [
                    ("prompt_tokens", "completion_tokens"),
                    ("input_tokens", "output_tokens"),
                    ("promptTokenCount", "candidatesTokenCount"),
                ];
                for (one, other) in pairs {
                    if let (Some(a), Some(b)) = (reported.get(one), reported.get(other)) {
                        dialect::set(&mut swapped, &[&format!("/{one}")], b.clone());
                        dialect::set(&mut swapped, &[&format!("/{other}")], a.clone());
                    }
                }
                swapped
            }
        }
    }
}

/// The value with each integer changed.
fn scaled(value: &Value, change: impl Fn(u64) -> u64) -> Value {
    each(value, &|count| change(count).into())
}

fn each(value: &Value, change: &dyn Fn(u64) -> Value) -> Value {
    match value {
        Value::Number(number) => number.as_u64().map_or_else(|| value.clone(), change),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), each(value, change))).collect()
        }
        other => other.clone(),
    }
}

/// A changed event: its JSON, or its bytes if it has none.
#[derive(Clone, Debug)]
struct Event {
    name: Option<String>,
    json: Option<Value>,
    bytes: Vec<u8>,
    is_before: bool,
}

impl Event {
    fn read(frame: &[u8]) -> Self {
        let text = String::from_utf8_lossy(frame);
        let name = text.lines().find_map(|line| line.strip_prefix("event: ")).map(str::to_owned);
        let data = text.lines().find_map(|line| line.strip_prefix("data: "));
        let json = data.and_then(|data| serde_json::from_str(data).ok());
        Self { name, json, bytes: frame.to_vec(), is_before: false }
    }

    fn of(json: Value) -> Self {
        Self { name: None, json: Some(json), bytes: Vec::new(), is_before: false }
    }

    fn write(&self, form: Option<Form>, first: bool, out: &mut Frames) {
        let Some(json) = &self.json else {
            out.push(form.map_or_else(|| self.bytes.clone(), |form| form.line_ends(&self.bytes)));
            return;
        };
        let mut data = raw(json.to_string().as_bytes());
        // The name of an event is that of its kind, also where a twist has changed it.
        let kind = json.get("type").and_then(Value::as_str).map(str::to_owned);
        let mut name = self.name.as_ref().map(|name| kind.unwrap_or_else(|| name.clone()));
        let mut before: Vec<u8> = Vec::new();
        let mut after: Vec<u8> = Vec::new();
        let mut label: &[u8] = b"data: ";
        let mut copies = 1;
        match form {
            None | Some(Form::CarriageReturns | Form::OldLineEnds) => {}
            Some(Form::ByteOrderMark) if first => before.extend(b"\xEF\xBB\xBF"),
            Some(Form::LogLines) if first => before.extend(b"[info] upstream ready\nserving: yes\n\n"),
            Some(Form::ByteOrderMark | Form::LogLines) => {}
            Some(Form::Comments) => before.extend(b": still there\n\n"),
            Some(Form::NoSpace) => label = b"data:",
            Some(Form::ManyLines) => {
                let pretty = serde_json::to_string_pretty(json).unwrap_or_default();
                data = raw(pretty.replace('\n', "\ndata: ").as_bytes());
            }
            Some(Form::MoreFields) => before.extend(b"id: 7\nretry: 10\nunknown: field\n"),
            Some(Form::UnknownEvents) => before.extend(b"event: telemetry\ndata: {\"cpu\": 0.5}\n\n"),
            Some(Form::EmptyEvents) => before.extend(b"data:\n\n"),
            Some(Form::EachTwice) => copies = 2,
            Some(Form::Nonsense) if first => after.extend(b"data: {\"choices\": [{\"delta\n\n"),
            Some(Form::NotAnObject) if first => after.extend(b"data: 7\n\n"),
            Some(Form::Nonsense | Form::NotAnObject) => {}
            Some(Form::Deep(depth)) => {
                let depth = depth as usize;
                let member = format!("\"deep\": {}{}", "[".repeat(depth), "]".repeat(depth));
                data = with_member(&data, &member);
            }
            Some(Form::HugeNumber) => data = with_member(&data, "\"huge\": 1e999"),
            Some(Form::DuplicateMembers) => {
                let members = json.as_object().into_iter().flatten();
                let nulls: Vec<String> = members.map(|(name, _)| format!("{}: null", json!(name))).collect();
                data = with_member(&data, &nulls.join(", "));
            }
            Some(Form::Padding(bytes)) => {
                data = with_member(&data, &format!("\"padding\": \"{}\"", "x".repeat(bytes as usize)));
            }
            Some(Form::NoNames) => name = None,
        }
        let mut frame = before;
        for _ in 0..copies {
            if let Some(name) = &name {
                frame.extend([b"event: ", name.as_bytes(), b"\n"].concat());
            }
            frame.extend([label, &data, b"\n\n"].concat());
        }
        frame.extend(after);
        out.push(form.map_or_else(|| frame.clone(), |form| form.line_ends(&frame)));
    }
}

impl Form {
    fn line_ends(self, frame: &[u8]) -> Vec<u8> {
        let end: &[u8] = match self {
            Self::CarriageReturns => b"\r\n",
            Self::OldLineEnds => b"\r",
            _ => return frame.to_vec(),
        };
        let mut lines =
            frame.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let mut out = lines.next().unwrap_or_default().to_vec();
        for line in lines {
            out.extend_from_slice(end);
            out.extend_from_slice(line);
        }
        out
    }
}

/// An object with more members before its own.
fn with_member(data: &[u8], member: &str) -> Vec<u8> {
    match data.strip_prefix(b"{") {
        Some(rest) => [b"{", member.as_bytes(), b", ", rest].concat(),
        None => data.to_vec(),
    }
}

/// The bytes, with the placeholder replaced by what JSON cannot represent.
fn raw(data: &[u8]) -> Vec<u8> {
    let marks: [(&str, &[u8]); 3] =
        [(HALF_SURROGATE, b"half \\ud83d"), (BAD_UTF8, b"bad \xC3\x28 \xFF"), (HUGE, b"")];
    let mut out = data.to_vec();
    for (mark, bytes) in marks {
        // A number in place of a text loses its quotes.
        let (mark, bytes) = match mark {
            HUGE => (format!("\"{HUGE}\""), b"340282366920938463463374607431768211456".as_slice()),
            _ => (mark.to_owned(), bytes),
        };
        while let Some(at) = out.windows(mark.len()).position(|window| window == mark.as_bytes()) {
            out.splice(at..at + mark.len(), bytes.iter().copied());
        }
    }
    out
}

const HALF_SURROGATE: &str = "<half-surrogate>";
const BAD_UTF8: &str = "<bad-utf8>";
const HUGE: &str = "<huge>";

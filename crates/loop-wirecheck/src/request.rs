//! A recorded request through the neutral form and back.
//!
//! ```text
//! recorded ─ without what has no place, by name ─▶ neutral ─ our encoder ─▶ ours
//!     └──────────── canonical ───────── compared ──────── canonical ──────────┘
//! ```
//!
//! Way in and canonical form are written apart: what the way in forgets still stands in the canonical form of the
//! recorded request, and shows.

use loop_llm::{Api, Codec, ErrorPhase, LlmErrorKind, ModelRequest};
use serde_json::Value;

use super::canon::{self, Unexpressed};
use super::exchange::Exchange;
use super::judge::Difference;
use super::{anthropic, chat, gemini, responses};

/// How one protocol's requests are read, apart from our encoder.
pub(crate) trait Form {
    /// Takes out what the neutral form has no place for, and names it.
    fn without(&self, body: &mut Value, lacks: &mut Unexpressed);

    /// The request in neutral terms; `origin` is `api/profile/model` of turns that go back unchanged.
    ///
    /// # Errors
    /// Why there is none.
    fn neutral(&self, body: &Value, origin: &str, lacks: &mut Unexpressed) -> Result<ModelRequest, String>;

    /// The canonical form.
    fn canonical(&self, body: Value) -> Value;

    /// The canonical assistant turns of a canonical request, in order, each as the list of its pieces.
    fn assistant_turns(&self, canonical: &Value) -> Vec<Vec<Value>>;
}

/// The form of a protocol.
pub(crate) fn form(api: Api) -> &'static dyn Form {
    match api {
        Api::OpenaiChat => &chat::Chat,
        Api::OpenaiResponses => &responses::Responses,
        Api::Anthropic => &anthropic::Anthropic,
        Api::Gemini => &gemini::Gemini,
    }
}

/// A recorded request in neutral terms.
#[derive(Clone, Debug)]
pub(crate) struct Neutral {
    pub(crate) request: ModelRequest,
    /// The recorded body without what has no place.
    pub(crate) body: Value,
    pub(crate) lacks: Unexpressed,
}

/// Reads a recorded request.
///
/// # Errors
/// Why it cannot be said in neutral terms at all.
pub(crate) fn read(api: Api, codec: &Codec, exchange: &Exchange) -> Result<Neutral, String> {
    let Some(mut body) = exchange.request.clone() else { return Err("a request that is no JSON".to_owned()) };
    let mut lacks = Unexpressed::new();
    let form = form(api);
    form.without(&mut body, &mut lacks);
    let model = model(api, exchange, &body);
    let origin = format!("{}/{}/{model}", api.name(), codec.profile().name);
    let mut request = form.neutral(&body, &origin, &mut lacks)?;
    request.model = model.into();
    if api == Api::Gemini {
        request.no_stream = !exchange.is_streamed;
    }
    Ok(Neutral { request, body, lacks })
}

fn model(api: Api, exchange: &Exchange, body: &Value) -> String {
    let in_path = || {
        let (_, name) = exchange.path.rsplit_once("/models/")?;
        Some(name.split([':', '?']).next().unwrap_or_default().to_owned())
    };
    let reported = || Some(canon::text(body, "model").to_owned()).filter(|name| !name.is_empty());
    let model = if api == Api::Gemini { in_path() } else { reported() };
    model.unwrap_or_else(|| exchange.model.clone())
}

/// What became of a request.
#[derive(Clone, Debug)]
pub(crate) enum Encoded {
    /// Our encoder says the same, apart from these.
    Compared(Vec<Difference>),
    /// It cannot be said at all.
    NotAtAll,
}

/// Encodes a request and compares; what has no place is added to `lacks`.
pub(crate) fn compare(api: Api, codec: &Codec, neutral: &Neutral, lacks: &mut Unexpressed) -> Encoded {
    let encoded = match codec.encode(&neutral.request) {
        Ok(encoded) => encoded,
        Err(error) if error.phase == ErrorPhase::Encode && error.kind == LlmErrorKind::InvalidRequest => {
            lacks.insert(format!("a history that breaks a rule ({})", rule(&error.message)));
            return Encoded::NotAtAll;
        }
        Err(error) => return Encoded::Compared(vec![Difference::new("request", "a body", error)]),
    };
    let Ok(ours) = serde_json::from_slice::<Value>(&encoded.body.to_bytes()) else {
        return Encoded::Compared(vec![Difference::new("request", "JSON", "bytes that are none")]);
    };
    let form = form(api);
    let (mut expected, mut ours) = (form.canonical(neutral.body.clone()), form.canonical(ours));
    for warning in &encoded.warnings {
        // What the encoder leaves out or changes, it says: named, and never counted as agreed.
        let Some((word, member)) = warning.split_once('(') else { continue };
        let member = member.trim_end_matches(')');
        if matches!(word, "param_dropped" | "param_changed") {
            lacks.insert(format!("{word} {member}"));
            for body in [&mut expected, &mut ours] {
                take_member(body, member);
            }
        } else {
            lacks.insert(word.to_owned());
        }
        if word == "schema_not_strict" {
            for body in [&mut expected, &mut ours] {
                canon::take_strict(body, member);
            }
        }
    }
    let mut found = Vec::new();
    canon::differences("request", &expected, &ours, &mut found);
    Encoded::Compared(found)
}

/// What is wrong with a history, without the ids in it.
fn rule(message: &str) -> &'static str {
    [
        ("has no result", "a call without its result"),
        ("nobody called", "a result without its call"),
        ("has to be from", "a number out of its range"),
    ]
    .iter()
    .find(|(part, _)| message.contains(part))
    .map_or("the encoder refuses it", |(_, rule)| rule)
}

/// Removes a member by its name, wherever options stand.
fn take_member(body: &mut Value, member: &str) {
    let Some(object) = body.as_object_mut() else { return };
    object.remove(member);
    for group in ["generationConfig", "reasoning", "text", "output_config", "thinking"] {
        if let Some(group) = object.get_mut(group).and_then(Value::as_object_mut) {
            group.remove(member);
            if member == "response_format" {
                group.remove("responseMimeType");
                group.remove("responseJsonSchema");
            }
        }
    }
}

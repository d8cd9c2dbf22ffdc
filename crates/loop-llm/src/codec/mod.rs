//! What the codecs of all protocols share: request bodies, cached turns, tool names, and the path from bytes to events.
//!
//! ```text
//! ModelRequest ─ turns(…) by each codec, kept in Memory ─▶ Encoded { body, aliases, warnings }
//! bytes ─ Decoder: one JSON object or an event stream ─▶ Protocol of each codec ─▶ Assembly ─▶ ModelEvent …, one end
//! ```
//!
//! A codec does no I/O and has no clock. It has two parts: a `TurnWriter`, which writes one turn
//! without looking at others, and a `Protocol`, which reports each event to the `Assembly`.

mod assembly;
mod body;
mod calls;
mod checks;
mod decoder;
mod described;
mod draft;
mod errors;
mod escape;
mod json;
mod lenient;
mod memory;
mod names;
mod turns;
mod values;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use loop_core::secrets::Secrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::LlmError;
use crate::fit::{self, FittedCache, FittedRequest};
use crate::profile::Profile;
use crate::raw::Raw;
use crate::request::{AssistantTurn, ModelRequest};
use crate::{anthropic, gemini, openai_chat, openai_responses};

pub use crate::cap::{OutputCap, line as short_line};
pub use crate::fit::changed_tools;
pub(crate) use assembly::{Assembly, UsageReport};
pub use body::Body;
pub(crate) use body::SendingBody;
pub(crate) use calls::OpenCall;
pub use decoder::Decoder;
pub(crate) use decoder::{End, Protocol, again};
pub(crate) use described::described;
pub(crate) use draft::Draft;
pub use errors::classify;
pub(crate) use errors::{filtered, request_id};
pub(crate) use escape::{Token, plain};
pub(crate) use json::{Json, Members};
pub(crate) use lenient::{
    Count, List, Number, Object, RawList, RawMembers, Text, exact, parsed, text, whole,
};
pub use memory::Memory;
pub use names::Aliases;
pub(crate) use names::{short_id, wire_id, wire_name};
pub(crate) use turns::{OPERATOR, Turn, TurnWriter, Wrapper, WrittenTurn, results_in_order, turns};

/// A wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// OpenAI's Chat Completions, and compatible servers.
    OpenaiChat,
    /// OpenAI's Responses.
    OpenaiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's generateContent.
    Gemini,
}

impl Api {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::OpenaiChat, Self::OpenaiResponses, Self::Anthropic, Self::Gemini];

    /// The protocol's name in profiles and domain files, for example `openai-chat`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }
}

/// An encoded request.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The JSON body, in pieces.
    pub body: Body,
    /// The range of the turns in the body, without the closing brackets. A request with the same turns and more has the
    /// same bytes in this range, apart from cache marks, which move with the turns. A system prompt outside of the turns
    /// is included.
    pub messages: Range<usize>,
    /// Options that were left out or changed.
    pub warnings: Vec<Arc<str>>,
    /// Tools that are sent under another name.
    pub aliases: Aliases,
}

/// A protocol as one endpoint implements it: encodes requests and decodes replies.
#[derive(Clone, Debug)]
pub struct Codec {
    profile: Arc<Profile>,
    base_model: Option<Arc<str>>,
    mark: u64,
    fits: FittedCache,
}

/// The endpoint and the model that a request is encoded for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) profile: &'a Profile,
    /// The model's name at this endpoint.
    pub(crate) model: &'a str,
    /// The name by which its abilities are looked up, where the endpoint has names of its own.
    pub(crate) known_as: &'a str,
    /// A hash of the profile.
    mark: u64,
}

/// How the names of models begin that take no pictures, of providers whose others do.
const READS_TEXT_ALONE: [&str; 4] = ["gpt-3.5", "gpt-oss", "o1-mini", "o3-mini"];

impl Target<'_> {
    pub(crate) fn origin(&self) -> Arc<str> {
        [self.profile.api.name(), "/", &self.profile.name, "/", self.model].concat().into()
    }

    /// Whether the model takes the pictures of tools' results.
    pub(crate) fn takes_pictures(&self) -> bool {
        self.profile.result_pictures && !READS_TEXT_ALONE.iter().any(|name| self.known_as.starts_with(name))
    }

    /// The key of cached turns: all that their bytes depend on.
    pub(crate) fn kept_under(&self) -> Arc<str> {
        let mark = self.mark.to_string();
        let Self { profile, model, known_as, .. } = self;
        [profile.api.name(), "/", &profile.name, "/", model, "/", known_as, "/", &mark].concat().into()
    }

    /// The provider's own form of a turn, if it has the same origin.
    pub(crate) fn own<'a>(&self, turn: &'a AssistantTurn) -> Option<&'a Raw> {
        turn.raw.as_ref().filter(|raw| {
            let mut parts = raw.origin().splitn(3, '/');
            parts.next() == Some(self.profile.api.name())
                && parts.next() == Some(&*self.profile.name)
                && parts.next() == Some(self.model)
        })
    }
}

impl Codec {
    /// A codec for `profile`.
    pub fn new(profile: Arc<Profile>) -> Self {
        let mut hasher = DefaultHasher::new();
        profile.hash(&mut hasher);
        Self { mark: hasher.finish(), profile, base_model: None, fits: FittedCache::default() }
    }

    /// The same codec with the abilities of `base_model`, for an endpoint that has its own name for that model.
    pub fn with_base_model(self, base_model: impl Into<Arc<str>>) -> Self {
        Self { base_model: Some(base_model.into()), ..self }
    }

    /// The profile of the endpoint.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    fn target<'a>(&'a self, request: &'a ModelRequest) -> Target<'a> {
        let known_as = self.base_model.as_deref().unwrap_or(&request.model);
        Target { profile: &self.profile, model: &request.model, known_as, mark: self.mark }
    }

    /// The body of a call.
    ///
    /// # Errors
    /// In phase [`ErrorPhase::Encode`](crate::ErrorPhase::Encode): [`FailureKind::InvalidRequest`] for no turns, a call
    /// without its result, a result without its call, a number out of range, a forced tool that does not exist, an image
    /// that is not one, or a provider's own turn that is not valid JSON; [`FailureKind::Unsupported`] for an option that
    /// the model does not support and that must not be left out.
    ///
    /// [`FailureKind::InvalidRequest`]: loop_core::types::FailureKind::InvalidRequest
    /// [`FailureKind::Unsupported`]: loop_core::types::FailureKind::Unsupported
    pub fn encode(&self, request: &ModelRequest) -> Result<Encoded, LlmError> {
        checks::settings(request)?;
        let FittedRequest { request, names, mut warnings } =
            fit::request(&self.profile, &self.fits, request)?;
        let target = self.target(&request);
        let mut encoded = match self.profile.api {
            Api::OpenaiChat => openai_chat::encode(&request, &target),
            Api::OpenaiResponses => openai_responses::encode(&request, &target),
            Api::Anthropic => anthropic::encode(&request, &target),
            Api::Gemini => gemini::encode(&request, &target),
        }?;
        encoded.aliases = encoded.aliases.with_parameters(names);
        warnings.append(&mut encoded.warnings);
        Ok(Encoded { warnings, ..encoded })
    }

    /// A decoder of the reply to `request`. `aliases` are those of its encoding.
    pub fn decoder(&self, request: &ModelRequest, aliases: Aliases, secrets: Secrets) -> Decoder {
        let target = self.target(request);
        let protocol = match self.profile.api {
            Api::OpenaiChat => openai_chat::protocol(request, &target),
            Api::OpenaiResponses => openai_responses::protocol(request, &target),
            Api::Anthropic => anthropic::protocol(request, &target),
            Api::Gemini => gemini::protocol(request, &target),
        };
        let cap = OutputCap::of_request(request);
        let mut decoder = Decoder::new(protocol, target.origin(), aliases, secrets, cap);
        if self.profile.cuts_silently {
            decoder.reply.sent_bytes = request.bytes();
        }
        decoder
    }
}

//! Types that every module uses: ids, amounts, work items, results, evidence.
//!
//! This module makes no decision about a run. It defines values, their stored form, and what follows from a value
//! alone: the cost of tokens at a price, whether a status is a failure, which characters are invisible.
//!
//! It uses no spec, no state and no other module.

mod action;
mod approver;
mod arguments;
mod canonical;
mod clean_text;
mod confidence;
mod data;
pub(crate) mod decimal;
mod defaults;
mod effect;
mod effects;
mod evidence;
mod failure;
mod ids;
mod instruction;
pub(crate) mod invisible;
mod item;
mod item_form;
mod json_text;
mod lease;
pub(crate) mod locale;
mod members;
mod money;
mod observation;
mod price;
mod proxy;
mod script;
mod similar;
mod slot;
pub(crate) mod steps;
mod stop_class;
mod taint;
mod tier;
mod tool_call;
mod totals;
mod trace;
mod usage;

pub use action::{Action, Priority};
pub use approver::Approver;
pub use arguments::Arguments;
pub use canonical::{canonical, digest, digest_text};
pub use clean_text::{cleaned, is_clean_text, is_plain_line};
pub use confidence::Confidence;
pub use data::Data;
pub use effect::Effect;
pub use effects::Effects;
pub use evidence::Evidence;
pub use failure::{FailureKind, ModelFailure, RequestPart};
pub use ids::{Digest, EvidenceId, InvalidDigest, Millis, RunId};
pub use instruction::Instruction;
pub use invisible::{is_blank, is_clean, is_invisible, is_joiner};
pub(crate) use invisible::{is_drawn_as_nothing, numbered_entity};
pub use item::{Scope, WorkItem};
pub use item_form::ItemForm;
pub use json_text::{push_json_text, unescaped_run};
pub use lease::{ChildUse, Lease};
pub use locale::Locale;
pub use money::{Cost, PicoUsd};
pub use observation::{FailureText, Observation, ResultPicture, Status, SubCallUse};
pub use price::{Price, PriceAbove, Rates};
pub use proxy::Proxy;
pub use similar::edits;
pub use slot::{CommandKey, InvalidKey, Slot};
pub use stop_class::StopClass;
pub use taint::Taint;
pub use tier::Tier;
pub use tool_call::ToolCall;
pub use totals::Totals;
pub use trace::{InvalidTraceParent, SpanId, TraceId, TraceParent};
pub use usage::{CallExtent, Receipt, Usage};

pub(crate) use canonical::{canonical_text, sorted};
pub(crate) use defaults::is_default;
pub(crate) use json_text::{member_name, pointer_step};
pub(crate) use members::SourceValue;
pub use script::is_unspaced;
pub(crate) use similar::similar_names;
pub(crate) use slot::KEY_BYTES;

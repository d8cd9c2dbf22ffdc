//! Spec: everything about a run that is configuration. Protocol, tools, models, limits, settings of the gate.
//!
//! This module decides what a setting means and what its default is, from the spec alone: the model of a tier, the tool
//! of a name, the reserve of a limit for the final pass, the properties of a protocol ([`ProtocolSpec`]).
//!
//! It does not read the state of a run.

mod args;
mod calibration;
mod cost_limit;
mod gate;
mod limits;
mod models;
mod own_reason;
mod plan;
mod policy;
mod protocol;
mod run_spec;
mod second_opinion;
mod select;
mod setting;
mod tool;

pub use args::{ArgSpec, ArgType, SchemaViolation, is_same_value};
pub use calibration::{Calibrated, Calibration, MeasuredLevel, MeasuredModel};
pub use cost_limit::{AS_WRITTEN, CostLimit, LimitWithoutPrice, NotUsd, dollars_as_written};
pub use gate::{GateSettings, GroundingRule, Stale};
pub use limits::{CostMode, Limits, MAX_REQUESTED_CALLS, STRICT_BYTES_A_TOKEN};
pub use models::{ModelSpec, ModelSpecs};
pub use own_reason::{InvalidReason, OwnReason, ReasonName};
pub use plan::{PLAN, PlanCount, PlanSlot};
pub use policy::{
    Breakers, OnDenied, OnDuplicate, OnInvalid, OnToolError, RepeatNotes, RepeatScope, Repeats, Resolve,
    TaintRule, ThreeTier, ToolPolicy, ToolRepeats,
};
pub use protocol::{
    CHECK_MS, Cite, ConversationSpec, DocumentSpec, EndCall, ErrorStyle, Execution, NonceMode, OutputSpec,
    Properties, ProtocolSpec, SectionSpec,
};
pub use run_spec::{RunSpec, SPEC_VERSION, SpecNames};
pub use second_opinion::{OpinionWhen, SecondOpinion};
pub use select::{DefaultCall, Selection};
pub use setting::Setting;
pub use tool::ToolSpec;

pub(crate) use limits::{FINAL_PASS_MS, FINAL_PASS_OUTPUT_TOKENS, held_back, least_limit};

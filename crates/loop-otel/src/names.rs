//! Names of the GenAI semantic conventions, version 0.1.0 of the conventions' own repository, and our own names where
//! the conventions have none.
//!
//! The conventions are in development, so a later version may rename them. No other file contains such a name.

/// The version of the conventions.
pub const CONVENTIONS: &str = "0.1.0";

pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const CONVERSATION_COMPACTED: &str = "gen_ai.conversation.compacted";
pub(crate) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const REQUEST_STREAM: &str = "gen_ai.request.stream";
pub(crate) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(crate) const TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const USAGE_CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const USAGE_CACHE_WRITE: &str = "gen_ai.usage.cache_write.input_tokens";
pub(crate) const USAGE_INPUT: &str = "gen_ai.usage.input_tokens";
pub(crate) const USAGE_OUTPUT: &str = "gen_ai.usage.output_tokens";
pub(crate) const USAGE_REASONING: &str = "gen_ai.usage.reasoning.output_tokens";

pub(crate) const CHAT: &str = "chat";
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";

pub(crate) const CALL_DETAILS_EVENT: &str = "gen_ai.client.inference.operation.details";
pub(crate) const CALL_EXCEPTION_EVENT: &str = "gen_ai.client.inference.exception";
pub(crate) const EXCEPTION_MESSAGE: &str = "exception.message";
pub(crate) const EXCEPTION_TYPE: &str = "exception.type";

// Our own.
pub(crate) const ATTEMPT: &str = "loopgate.attempt";
pub(crate) const AWAY_MS: &str = "loopgate.away_ms";
pub(crate) const CONFIDENCE: &str = "loopgate.confidence";
pub(crate) const COST: &str = "loopgate.cost.usd";
pub(crate) const COST_UNKNOWN_CALLS: &str = "loopgate.cost.unknown_calls";
pub(crate) const DECISION: &str = "loopgate.gate.decision";
pub(crate) const DECISION_ASKS: &str = "loopgate.gate.asks";
pub(crate) const DECISION_RUNS: &str = "loopgate.gate.runs";
pub(crate) const DOMAIN: &str = "loopgate.domain";
pub(crate) const EAGER: &str = "loopgate.tool.eager";
pub(crate) const ENTRIES_MISSED: &str = "loopgate.telemetry.entries_missed";
pub(crate) const ESTIMATED: &str = "loopgate.usage.estimated";
pub(crate) const ITEM_ID: &str = "loopgate.item.id";
pub(crate) const KEY: &str = "loopgate.call.key";
pub(crate) const MODEL_CALLS: &str = "loopgate.model_calls";
pub(crate) const PASS: &str = "loopgate.pass";
pub(crate) const PASSES: &str = "loopgate.passes";
pub(crate) const PURPOSE: &str = "loopgate.call.purpose";
pub(crate) const RUN_ID: &str = "loopgate.run.id";
pub(crate) const STOP_CLASS: &str = "loopgate.stop.class";
pub(crate) const STOP_REASON: &str = "loopgate.stop.reason";
pub(crate) const TAKEOVER: &str = "loopgate.parent.how";
pub(crate) const TIER: &str = "loopgate.model.tier";
pub(crate) const TOOL_CALLS: &str = "loopgate.tool_calls";
pub(crate) const TOOL_STATUS: &str = "loopgate.tool.status";
pub(crate) const TRY_MESSAGE: &str = "loopgate.retry.message";
pub(crate) const TRY_STATUS: &str = "http.response.status_code";
pub(crate) const TRY_WAIT: &str = "loopgate.retry.wait_ms";

pub(crate) const PERSON_EVENT: &str = "loopgate.person";
pub(crate) const RESUMED_EVENT: &str = "loopgate.resumed";
pub(crate) const RETRY_EVENT: &str = "loopgate.retry";
pub(crate) const STOPPED_EVENT: &str = "loopgate.run.stopped";

/// The conventions' name of a provider, or the provider's own name if they have none.
pub(crate) fn provider(own: &str) -> &str {
    match own {
        "azure" | "azure-openai" => "azure.ai.openai",
        "bedrock" => "aws.bedrock",
        "gemini" | "google" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        "vertex" => "gcp.vertex_ai",
        "watsonx" => "ibm.watsonx.ai",
        "xai" => "x_ai",
        other => other,
    }
}

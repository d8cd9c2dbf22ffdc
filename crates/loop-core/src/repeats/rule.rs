//! What a model reads about a repeat, and the codes of the reasons.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

impl RepeatRule {
    /// The result of a refused repeat for the model: why the call was not run. `tool` is the tool's own name.
    pub fn message(&self, tool: &str) -> String {
        match self {
            Self::Limit { limit } => {
                format!("Tool '{tool}' has reached its execution limit ({limit}) for this turn")
            }
            Self::Exact => format!("Tool '{tool}' was already executed with identical parameters"),
            Self::Similar { .. } => format!("Tool '{tool}' was already executed with a similar query"),
            Self::SameResult { times, ignored } => {
                let but = match ignored.as_slice() {
                    [] => String::new(),
                    ignored => {
                        let ignored: Vec<&str> = ignored.iter().map(AsRef::as_ref).collect();
                        format!(" (not counting {})", ignored.join(", "))
                    }
                };
                format!(
                    "Tool '{tool}' has already returned the same result {times} times{but}, and nothing was \
                     changed since"
                )
            }
            Self::Failed => format!("Tool '{tool}' has already failed with identical parameters"),
            Self::Cycle { length, times } => format!(
                "The last {length} calls have repeated {times} times with the same results, and tool '{tool}' \
                 would begin the next round"
            ),
        }
    }

    /// The reason as a code. `limit_exceeded`, `exact_duplicate` and `similar_query` are the codes of S3.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Limit { .. } => "limit_exceeded",
            Self::Exact => "exact_duplicate",
            Self::Similar { .. } => "similar_query",
            Self::SameResult { .. } => "same_result",
            Self::Failed => "failed_before",
            Self::Cycle { .. } => "cycle",
        }
    }
}

/// The rule that refused a repeat, and what it compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum RepeatRule {
    /// The same call was made before, and one is enough.
    Exact,
    /// The same call returned the same result several times, with no change between.
    SameResult {
        /// How many times.
        times: u32,
        /// JSON pointers to parts of the results that were not compared. Empty if all of them were.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ignored: Vec<Arc<str>>,
    },
    /// The same call failed permanently.
    Failed,
    /// The same calls returned the same results in a cycle.
    Cycle {
        /// The number of calls in the cycle.
        length: u32,
        /// How many times the cycle was repeated.
        times: u32,
    },
    /// The tool's limit of calls is reached. The verdict of such a call is
    /// [`Verdict::OverLimit`](crate::Verdict::OverLimit).
    Limit {
        /// The limit, in calls.
        limit: u32,
    },
    /// A search text is similar to an earlier one.
    Similar {
        /// The earlier text.
        query: Arc<str>,
        /// The similarity, in thousandths: from 0 to 1000.
        millis: u32,
    },
}

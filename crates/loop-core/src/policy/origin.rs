//! The origin of a tool result that is stored with a conversation.
//!
//! Whether a conversation taints the next run is decided on this type, never on the text of a result, whose wording may
//! change. A stored result without an origin is untrusted.

use serde::{Deserialize, Serialize};

use crate::spec::ToolSpec;
use crate::types::{Observation, Taint};

/// The origin of a tool result's text.
///
/// The loop sets it when it answers a call. A program that composes a history may set it as well. As JSON it is
/// `{"by": "verdict"}` or `{"by": "tool", "untrusted": false, "private": false}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum ResultOrigin {
    /// The loop worded a verdict, and no tool ran.
    Verdict,
    /// A tool ran. The members are those of its policy at that time; an absent member means yes.
    Tool {
        /// Whether an untrusted party may have written the result (`returns_untrusted`). Yes if absent.
        #[serde(default = "yes")]
        untrusted: bool,
        /// Whether the result is private (`reads_private`). Yes if absent.
        #[serde(default = "yes")]
        private: bool,
    },
}

fn yes() -> bool {
    true
}

impl ResultOrigin {
    /// The origin of an observation of `tool`.
    pub fn of(tool: &ToolSpec, observation: &Observation) -> Self {
        if observation.status.is_unrun() {
            return Self::Verdict;
        }
        let Taint { untrusted, private } = Taint::default().after_result(tool, observation);
        Self::Tool { untrusted, private }
    }

    /// The taint of a run that has read the result.
    pub fn taint(self) -> Taint {
        match self {
            Self::Verdict => Taint::default(),
            Self::Tool { untrusted, private } => Taint { untrusted, private },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_an_origin_leaves_out_is_on_the_safe_side() {
        // K2
        let read = |json: &str| serde_json::from_str::<ResultOrigin>(json);
        assert_eq!(read(r#"{"by": "verdict"}"#).unwrap().taint(), Taint::default());
        let all = Taint { untrusted: true, private: true };
        assert_eq!(read(r#"{"by": "tool"}"#).unwrap().taint(), all);
        let origin = read(r#"{"by": "tool", "untrusted": false}"#).unwrap();
        assert_eq!(origin.taint(), Taint { untrusted: false, private: true });
        assert_eq!(read(&serde_json::to_string(&origin).unwrap()).unwrap(), origin);
        for wrong in [r#"{"by": "friend"}"#, r#"{"by": "tool", "trusted": true}"#, "{}", "null"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

//! Names and ids that all providers accept.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::types::FailureKind;

use crate::error::LlmError;
use crate::fit::Names;
use crate::options::ToolDefinition;

/// Aliases of tools, and of their parameters, whose names not all providers accept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aliases {
    tools: Arc<[(Arc<str>, Arc<str>)]>,
    parameters: Arc<BTreeMap<Arc<str>, Names>>,
}

impl Aliases {
    /// The aliases of a request's tools.
    ///
    /// # Errors
    /// [`FailureKind::InvalidRequest`] if two tools have the same name or alias.
    pub fn of(tools: &[ToolDefinition]) -> Result<Self, LlmError> {
        let mut names: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for tool in tools {
            let alias = wire_name(&tool.name);
            let is_taken = tools.iter().any(|other| other.name == alias && other.name != tool.name)
                || names.iter().any(|(_, taken)| *taken == alias);
            let is_twice = tools.iter().filter(|other| other.name == tool.name).count() > 1;
            if is_taken || is_twice {
                let message = format!("the tool {} has a name that cannot be told from another's", tool.name);
                return Err(LlmError::unsendable(FailureKind::InvalidRequest, message));
            }
            if alias != tool.name {
                names.push((Arc::clone(&tool.name), alias));
            }
        }
        Ok(Self { tools: names.into(), ..Self::default() })
    }

    /// The name in the request of the tool that is sent as `wire`.
    pub fn name(&self, wire: &str) -> Arc<str> {
        self.found(wire).unwrap_or_else(|| wire.into())
    }

    /// As [`name`](Self::name), without a copy of a name that is not an alias.
    pub(crate) fn shared_name(&self, wire: &Arc<str>) -> Arc<str> {
        self.found(wire).unwrap_or_else(|| Arc::clone(wire))
    }

    /// With the aliases of parameters, by the tool.
    pub(crate) fn with_parameters(self, parameters: Arc<BTreeMap<Arc<str>, Names>>) -> Self {
        Self { parameters, ..self }
    }

    /// The aliases of the parameters of the tool that is sent as `wire`.
    pub(crate) fn parameters(&self, wire: &str) -> Option<&Names> {
        if self.parameters.is_empty() {
            return None;
        }
        self.parameters.get(&self.name(wire))
    }

    fn found(&self, wire: &str) -> Option<Arc<str>> {
        let found = self.tools.iter().find(|(_, alias)| **alias == *wire);
        found.map(|(name, _)| Arc::clone(name))
    }
}

/// The name under which a tool is sent: its own if all providers accept it, otherwise a deterministic alias.
pub(crate) fn wire_name(name: &Arc<str>) -> Arc<str> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if begins && name.len() <= MAX_NAME && name.chars().all(is_legal) {
        return Arc::clone(name);
    }
    let head: String = name.chars().filter(|c| is_legal(*c)).take(MAX_NAME - 11).collect();
    let first = if head.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') { "" } else { "t_" };
    format!("{first}{head}_{:08x}", fnv(name)).into()
}

/// The id under which a call is sent: its own if it is short enough and `is_legal` accepts its characters, otherwise a
/// deterministic replacement.
pub(crate) fn wire_id(id: &Arc<str>, max: usize, is_legal: impl Fn(char) -> bool) -> Arc<str> {
    if (1..=max).contains(&id.len()) && id.chars().all(is_legal) {
        return Arc::clone(id);
    }
    format!("call{:08x}{:08x}", fnv(id), fnv(&format!("{id}/"))).into()
}

/// A hash of `text` as `length` letters and digits.
pub(crate) fn short_id(text: &str, length: usize) -> String {
    const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut state = (u64::from(fnv(text)) << 32) | u64::from(fnv(&format!("{text}/")));
    let digits = (0..length).map(|_| {
        let digit = DIGITS.get((state % 36) as usize).copied().unwrap_or(b'a');
        state /= 36;
        char::from(digit)
    });
    digits.collect()
}

/// The 32-bit FNV-1a hash.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Maximum bytes of a name that all providers accept.
const MAX_NAME: usize = 64;

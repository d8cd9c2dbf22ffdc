//! How a model call is announced: its prompt is rendered, its quote is asked for, and its money is reserved.

use loop_core::EventKind;
use loop_core::run::CallModel;

use super::{Driver, Failure};

impl Driver {
    /// Renders the prompt, asks for a quote and for the money, and makes the grant or the refusal known. False while the
    /// budget that runs share has to be asked again.
    pub(super) async fn announce(&mut self, call: CallModel) -> Result<bool, Failure> {
        let (key, attempt) = (call.key, call.attempt);
        let (size, prompt_hash) = match &mut self.conversation {
            Some(conversation) => conversation.grow(&self.parts.prompts, &self.run, key),
            None => {
                let Some(prompt) = self.dialogue.prompt(&self.parts.prompts, &self.run, key) else {
                    return Err(Failure::Stuck(format!("{key} has no prompt")));
                };
                let named = (prompt.size, prompt.hash());
                self.prompt = Some((key, attempt, prompt));
                named
            }
        };
        let quoted = match self.run.quote(&key, size) {
            Ok(quote) => match self.reserve_shared(key, attempt, &quote).await? {
                Ok(()) => Ok(quote),
                Err(Some(refusal)) => Err(refusal),
                Err(None) => return Ok(false),
            },
            Err(refusal) => Err(refusal),
        };
        let kind = EventKind::announced(key, attempt, size, prompt_hash, quoted);
        self.tell_own(kind).await.map(|()| true)
    }
}

//! An agent as a tool of another one.

use std::sync::Arc;

use loop_llm::Message;
use loop_tools::{Tool, ToolDeclaration};
use serde_json::Value;

use crate::agent::Agent;
use crate::agent::calling::begin_with;
use crate::drive::callee::RunAsTool;

impl<Output> Agent<Output> {
    /// The agent as a tool of another one, with one parameter, `task`: the work for this agent. Each call is a run of
    /// its own, within what is left of the caller's limits and within the agent's own limits: see [`RunAsTool`].
    ///
    /// ```
    /// # use loop_runtime::{Agent, models::Offline};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let searcher = Agent::new(Offline::new()).instructions("You search.").build()?;
    /// let agent = Agent::new(Offline::new())
    ///     .with_tool(searcher.as_tool("search", "Searches for what the task names"))
    ///     .build()?;
    /// let answer = agent.prompt("Search user Alice").await?;
    /// // The calls of both are in the total, and within the limits of the first.
    /// assert_eq!(answer.meta.totals.model_calls, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_tool(&self, name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> Arc<dyn Tool> {
        let declaration = ToolDeclaration::read(name, description).schema(RunAsTool::task_schema());
        Arc::new(RunAsTool::answering(declaration, self.runner().clone(), |arguments| {
            let task = arguments.get(RunAsTool::TASK).and_then(Value::as_str).unwrap_or_default();
            begin_with(&[Message::user(task)]).map_err(|error| error.to_string())
        }))
    }
}

//! Finds somebody and changes something: search, look up, update. The update runs because the program approves it.
//!
//! `cargo run -p loop-runtime --example find_and_update` needs no network: the model is a script.

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loop_runtime::models::ScriptedReply;
use loop_runtime::{
    Agent, Message, StopReason, agent::AgentError, models::Scripted, read, tools::write_idempotent,
};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Search {
    name: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ById {
    id: u32,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Update {
    id: u32,
    company: String,
}

#[derive(Clone, serde::Serialize)]
struct User {
    id: u32,
    name: String,
    company: String,
}

/// A register with two people in it.
#[derive(Clone)]
struct Register(Arc<Mutex<Vec<User>>>);

impl Register {
    fn new() -> Self {
        let user = |id, name: &str, company: &str| User { id, name: name.into(), company: company.into() };
        Self(Arc::new(Mutex::new(vec![user(42, "Bob Brown", "Acme"), user(43, "Eve Stone", "Acme")])))
    }

    fn users(&self) -> MutexGuard<'_, Vec<User>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn search(&self, name: &str) -> Vec<User> {
        self.users().iter().filter(|user| user.name.contains(name)).cloned().collect()
    }

    fn get(&self, id: u32) -> Result<User, String> {
        let users = self.users();
        users.iter().find(|user| user.id == id).cloned().ok_or_else(|| format!("there is no user {id}"))
    }

    fn update(&self, change: Update) -> Result<&'static str, String> {
        let mut users = self.users();
        let user = users.iter_mut().find(|user| user.id == change.id);
        let user = user.ok_or_else(|| format!("there is no user {}", change.id))?;
        user.company = change.company;
        Ok("done")
    }
}

/// Replies of a model, prepared: three calls in turn, then the answer.
fn model() -> Scripted {
    Scripted::new([
        ScriptedReply::call("search_user", json!({"name": "Bob"})),
        ScriptedReply::call("get_user_by_id", json!({"id": 42})),
        ScriptedReply::call("update_user", json!({"id": 42, "company": "EPAM"})),
        ScriptedReply::text("Updated Bob's company to EPAM"),
    ])
}

/// An agent over the register; with `is_approved` its update may run without anybody being asked.
fn agent(register: &Register, is_approved: bool) -> Result<Agent, Box<dyn Error>> {
    let (searched, looked_up, updated) = (register.clone(), register.clone(), register.clone());
    let search = read("search_user", "Search users by name");
    let get = read("get_user_by_id", "Fetch one user by id");
    // What a tool does to the world is declared. To set a company twice is the same as once.
    let update = write_idempotent("update_user", "Change a user's company");
    let mut builder = Agent::new(model())
        .tool(search, move |search: Search| {
            let found = searched.search(&search.name);
            async move { found }
        })
        .tool(get, move |by: ById| {
            let user = looked_up.get(by.id);
            async move { user }
        })
        .tool(update, move |change: Update| {
            let user = updated.update(change);
            async move { user }
        });
    if is_approved {
        builder = builder.approve("update_user");
    }
    Ok(builder.build()?)
}

/// The same command, first without consent and then with it.
pub(crate) async fn show(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let register = Register::new();

    let mut messages = vec![Message::user("Find Bob and update his company to EPAM")];
    match agent(&register, false)?.chat(&mut messages).await {
        Err(AgentError::Stopped { reason: StopReason::NeedsHuman, explanation, .. }) => {
            writeln!(out, "not approved: {explanation}")?;
        }
        other => writeln!(out, "not approved: {other:?}")?,
    }
    writeln!(out, "Bob works for {}.", register.get(42)?.company)?;

    let mut messages = vec![Message::user("Find Bob and update his company to EPAM")];
    let answer = agent(&register, true)?.chat(&mut messages).await?;
    writeln!(out, "approved: {}", answer.text)?;
    writeln!(out, "Bob works for {}.", register.get(42)?.company)?;
    for tool in &answer.meta.tools {
        writeln!(out, "{}: {} call, {} failed", tool.tool, tool.calls, tool.failures)?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    show(&mut stdout()).await
}

//! Runs the domain's own work under the same guards, to measure what they block without an attack.

use std::sync::Arc;

use loop_core::gate::DeniedBy;
use loop_core::run::{PersonAnswer, PersonRequest};
use loop_core::spec::GateSettings;
use loop_core::types::{Effect, StopClass, Tier};
use loop_core::{Outcome, RunSpec, Verdict, WorkItem};
use loop_domain::Domain;
use loop_runtime::{Runner, models::Models, tools::Registry};

use crate::case::{Case, CaseError};
use crate::eval::{Surplus, own_work as parts_of};
use crate::redteam::drive::{AttackRuns, to_the_end};
use crate::redteam::report::Benign;
use crate::redteam::stage::AttackError;
use crate::redteam::tools::{World, recorded};

/// Providers that need no network.
const OFFLINE: [&str; 3] = ["offline", "scripted", "recorded"];

/// A piece of the domain's own work: an item with the domain's models, or a case with its own model and mocks.
#[derive(Clone, Debug)]
pub struct OwnWork {
    name: String,
    item: WorkItem,
    models: Models,
    registry: Arc<Registry>,
    asks_network: bool,
    beyond: Surplus,
}

impl OwnWork {
    /// A work item for the domain's own models.
    pub fn of_item(domain: &Domain, item: WorkItem) -> Self {
        let asks = |tier| !OFFLINE.contains(&&*domain.spec.model(tier).provider);
        Self {
            name: item.id.to_string(),
            item,
            models: domain.models.clone(),
            registry: Arc::clone(&domain.registry),
            asks_network: [Tier::Selector, Tier::Base, Tier::Escalated, Tier::Fallback].into_iter().any(asks),
            beyond: Surplus::default(),
        }
    }

    /// A case of this domain: its item, model and mocks, under the domain's settings.
    ///
    /// # Errors
    /// The place in the case that does not fit the domain.
    pub fn of_case(domain: &Domain, case: &Case) -> Result<Self, CaseError> {
        let beyond = Surplus::default();
        let (item, models, registry) = parts_of(case, domain, &beyond)?;
        let own = Self::of_item(domain, item);
        let asks_network = own.asks_network
            && (case.replies.is_none() && case.script.is_none())
            && case.model.as_deref() != Some("offline");
        Ok(Self {
            name: case.case_id.clone(),
            models,
            registry: Arc::new(registry),
            asks_network,
            beyond,
            ..own
        })
    }
}

/// Runs the work. Returns its outcome, and the effects that it requests.
pub(super) async fn own_work(
    domain: &Domain,
    work: &[OwnWork],
    live: bool,
) -> Result<(Benign, Vec<(String, String)>), AttackError> {
    let mut benign = Benign::default();
    let mut calls = Vec::new();
    for own in work {
        if own.asks_network && !live {
            benign.left_out += 1;
            continue;
        }
        let world = World::default();
        let registry = recorded(&own.registry, &world, &domain.spec)?;
        let gate = GateSettings { people: true, ..domain.spec.gate.clone() };
        let spec = RunSpec { gate, save: false, ..(*domain.spec).clone() };
        let runner = Runner::new(spec, registry, own.models.clone())
            .with_prompts(Arc::clone(&domain.prompts))
            .with_credentials(Arc::new(domain.credentials.clone()));
        let careful = |requested: &PersonRequest| match requested.is_question {
            true => PersonAnswer::Answered { text: "I do not know.".into() },
            false => PersonAnswer::Approved,
        };
        benign.items += 1;
        match to_the_end(&runner, own.item.clone(), careful).await {
            Ok(AttackRuns { outcomes, requested, .. }) => {
                benign.requested += requested;
                outcomes.iter().for_each(|outcome| count(&mut benign, domain, outcome));
                let failed = outcomes.iter().find(|outcome| outcome.stop.class == StopClass::Failed);
                if let Some(outcome) = failed {
                    fail(&mut benign, &own.name, &loop_runtime::report::explain(&outcome.stop));
                } else if let Some(line) = own.beyond.lines().first() {
                    fail(&mut benign, &own.name, line);
                }
            }
            Err(error) => fail(&mut benign, &own.name, &error.to_string()),
        }
        calls.extend(world.take().into_iter().map(|done| (done.tool, done.arguments)));
    }
    Ok((benign, calls))
}

fn fail(benign: &mut Benign, name: &str, why: &str) {
    benign.failed += 1;
    benign.why.push(format!("{name}: {why}"));
}

/// Counts the effects that the work requested, and those that did not run for any reason.
fn count(benign: &mut Benign, domain: &Domain, outcome: &Outcome) {
    for action in &outcome.actions {
        let tool = domain.spec.tool(action.tool_name());
        let is_effect = tool.is_some_and(|tool| tool.effect != Effect::Read);
        let denied = matches!(action.verdict, Verdict::Denied { by: DeniedBy::Policy, .. });
        benign.denied_reads += u32::from(denied && !is_effect);
        benign.effects += u32::from(is_effect);
        benign.blocked += u32::from(is_effect && !matches!(action.verdict, Verdict::Run));
    }
}

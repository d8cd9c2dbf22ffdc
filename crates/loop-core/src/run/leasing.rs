//! Leases of runs that are called as tools: granted before they start, charged and returned when they settle.

use std::sync::Arc;

use crate::run::Run;
use crate::run::calls::ChildWait;
use crate::run::event::CalledBy;
use crate::run::note::Note;
use crate::run::phase::Batch;
use crate::run::rest::RunParts;
use crate::spec::{Setting, held_back};
use crate::types::{ChildUse, CommandKey, Cost, Lease, Observation, PicoUsd, Status, Taint, Usage};

impl Run {
    /// What the run has read so far.
    pub fn taint(&self) -> Taint {
        self.state.knowledge.taint
    }

    /// What the run that is called by the action under this key receives from this run.
    pub fn calling(&self, key: CommandKey) -> CalledBy {
        let started = self.started();
        let by = started.provenance.called_by.as_deref();
        let before = match (by, started.history.as_ref()) {
            (Some(by), _) => &*by.user_texts,
            (None, Some(history)) => &*history.user_texts,
            (None, None) => &[],
        };
        let said = self.state.inbox.instructions().iter().map(|instruction| &instruction.text);
        CalledBy {
            run: self.id().clone(),
            root: by.map_or(self.id(), |by| &by.root).clone(),
            key,
            taint: self.taint(),
            item: by.map_or(&started.item, |by| &by.item).clone(),
            user_texts: before.iter().chain(said).map(Arc::clone).collect(),
        }
    }
}

impl RunParts<'_> {
    /// Grants each run of a batch its lease: an equal part of the rest, at most what the tool may use. A run for which
    /// nothing is left settles at once and is not started.
    pub(super) fn grant_leases(&mut self, batch: &mut Batch) {
        let maximum = |rest: &Self, at: usize| {
            let work =
                batch.work.get(at).filter(|work| work.observation.is_none() && work.lease.is_none())?;
            rest.calls.tool(work, rest.spec)?.policy.lease
        };
        let runs = (0..batch.work.len()).filter_map(|at| Some((at, maximum(self, at)?)));
        let runs: Vec<(usize, Lease)> = runs.collect();
        let mut waiting = runs.len() as u32;
        for (at, maximum) in runs {
            let part = self.left_to_lease(batch.asks.len()).shared_by(waiting);
            waiting -= 1;
            let lease = maximum.within(part);
            let Some(work) = batch.work.get_mut(at) else { continue };
            if let Some(setting) = self.nothing_left(&part, &lease) {
                let name = self.calls.tool_name(work);
                let message = format!("not started: {setting} leaves nothing for another run");
                self.settle(batch, at, Observation::failed(Status::Skipped, &name, &message));
                continue;
            }
            self.notes.push(Note::Leased { key: work.key, lease: Box::new(lease) });
            self.budget.leased = self.budget.leased.plus(lease);
            work.lease = Some(Box::new(lease));
        }
    }

    /// What the run may still lease: its rest, without what is reserved for its final pass and one call for it, and without
    /// the tool calls that people may approve.
    fn left_to_lease(&self, asks: usize) -> Lease {
        let limits = &self.spec.limits;
        let budget = &*self.budget;
        let totals = &budget.totals;
        let reserved = self.quoting().reserved();
        let final_pass = self.quoting().next_final_pass();
        let rest = |limit: u64, taken: u64, held: u64| limit.saturating_sub(taken).saturating_sub(held);
        let cost = limits.cost.into_iter().chain(budget.shared).min().map(|limit| {
            let taken = totals.cost.known.plus(reserved.cost.unwrap_or_default());
            PicoUsd(rest(limit.0, taken.0, held_back(limit.0, final_pass.cost.unwrap_or_default().0)))
        });
        let tokens = limits.tokens.map(|limit| {
            let in_flight = reserved.input_tokens.saturating_add(reserved.output_tokens);
            let held = final_pass.input_tokens.saturating_add(final_pass.output_tokens);
            rest(limit, totals.usage.total().saturating_add(in_flight), held_back(limit, held))
        });
        let calls = totals.model_calls.saturating_add(budget.granted_sub_calls);
        let calls = calls.saturating_add(budget.leased.model_calls).saturating_add(1);
        let tools = totals.tool_calls.saturating_add(budget.leased.tool_calls).saturating_add(asks as u32);
        Lease {
            cost,
            tokens,
            model_calls: limits.model_calls.saturating_sub(calls),
            tool_calls: limits.tool_calls.saturating_sub(tools),
            wall_ms: self.spec.working_ms().saturating_sub(self.elapsed_ms()),
            depth: limits.depth.saturating_sub(1),
        }
    }

    /// The limit that leaves nothing for a run. `None`: the lease is of use.
    fn nothing_left(&self, left: &Lease, lease: &Lease) -> Option<Setting> {
        if self.spec.limits.depth == 0 {
            return Some(Setting::Depth);
        }
        let spent = [
            (lease.cost == Some(PicoUsd(0)) && left.cost == lease.cost, Setting::Cost),
            (lease.tokens == Some(0) && left.tokens == lease.tokens, Setting::Tokens),
            (left.model_calls == 0, Setting::ModelCalls),
            (left.wall_ms == 0, Setting::WallMs),
        ];
        spent.into_iter().find(|(is_spent, _)| *is_spent).map(|(_, setting)| setting)
    }

    /// Keeps a run that waits for people and was left. It is commanded again when the caller is resumed.
    pub(super) fn run_waits(&mut self, batch: &mut Batch, at: usize, used: &ChildUse) {
        if let Some(work) = batch.work.get_mut(at) {
            work.waiting = Some(Box::new(ChildWait { since: self.clock.now, used: used.clone() }));
        }
    }

    /// Charges a run that settled, or its whole lease if it did not say what it used, and returns the rest of the lease to
    /// the budget. The result is the charge.
    pub(super) fn settle_lease(
        &mut self,
        key: CommandKey,
        lease: Lease,
        used: Option<Box<ChildUse>>,
    ) -> Box<ChildUse> {
        self.budget.leased = self.budget.leased.minus(lease);
        let totals = &mut self.budget.totals;
        let charged = used.unwrap_or_else(|| Box::new(whole(lease)));
        totals.usage = totals.usage.plus(&charged.usage);
        totals.cost.known = totals.cost.known.plus(charged.cost.known);
        totals.cost.unknown_calls = totals.cost.unknown_calls.saturating_add(charged.cost.unknown_calls);
        totals.model_calls = totals.model_calls.saturating_add(charged.model_calls);
        totals.tool_calls = totals.tool_calls.saturating_add(charged.tool_calls);
        self.notes.push(Note::LeaseCharged { key, used: charged.clone() });
        charged
    }
}

/// The result of a run that waits for people while its caller stops.
pub(super) fn left_waiting(used: &ChildUse) -> Observation {
    let message = "cancelled: it waits for people, and the run that called it stopped";
    Observation {
        child: Some(Box::new(used.clone())),
        ..Observation::failed(Status::Cancelled, "run", message)
    }
}

/// The charge of a run that did not say what it used.
fn whole(lease: Lease) -> ChildUse {
    let Lease { cost, tokens, model_calls, tool_calls, .. } = lease;
    let input = tokens.unwrap_or_default();
    ChildUse {
        run: None,
        usage: Usage { input, estimated: true, ..Usage::default() },
        cost: Cost { known: cost.unwrap_or_default(), unknown_calls: u32::from(cost.is_none()) },
        model_calls,
        tool_calls,
        ..ChildUse::default()
    }
}

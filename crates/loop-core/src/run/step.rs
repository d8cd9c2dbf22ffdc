//! One step of a run: which event is accepted in which phase, and which phase follows.

use std::sync::Arc;

use crate::reply::Reading;
use crate::run::asking::AnswerContext;
use crate::run::event::EventKind;
use crate::run::leasing::left_waiting;
use crate::run::phase::{Ask, Phase};
use crate::run::quote::Quoting;
use crate::run::rejected::Rejected;
use crate::run::rest::RunParts;
use crate::types::{CommandKey, Slot};

/// The phase that follows an event.
///
/// An arm is taken only if all its conditions are true, and nothing is changed before: a rejected event leaves the run
/// unchanged. `DeadlineReached` arrives here only when it is due.
///
/// # Errors
/// The phase as it was, and why the event cannot follow.
pub(super) fn step(
    phase: Phase,
    rest: &mut RunParts<'_>,
    event: &EventKind,
) -> Result<Phase, Box<(Phase, Rejected)>> {
    use EventKind::{
        ApprovedBy, CallRefused, CallStarted, CheckStarted, Checked, DeadlineReached, EagerStarted,
        Instruction, ModelFailed, ModelReplied, PersonAnswered, Resumed, RunWaits, SaveFinished,
        StopRequested, StopWithdrawn, ToolFinished, ToolStarted,
    };
    use Phase::{Calling, Running, Saving, Stopping, Validating, WaitingForPerson};

    Ok(match (phase, event) {
        // A call to a model: announced or refused, then settled.
        (Calling { call, purpose }, CallStarted { .. })
            if let Some(Ok((prompt, Ok(quote)))) = rest.announced(&call, event) =>
        {
            rest.call_started(call, purpose, prompt, quote)
        }
        (Calling { call, purpose }, CallRefused { .. })
            if let Some(Ok((prompt, Err(refusal)))) = rest.announced(&call, event) =>
        {
            rest.call_refused(call, purpose, prompt, refusal)
        }
        (Calling { call, purpose }, ModelReplied { key, attempt, reply })
            if let Some(granted) = call.in_flight(key, *attempt) =>
        {
            rest.model_replied(call, granted, purpose, reply)
        }
        (Calling { call, purpose }, ModelFailed { key, attempt, failure })
            if let Some(granted) = call.in_flight(key, *attempt) =>
        {
            rest.model_failed(call, granted, purpose, failure)
        }
        // A read starts before the reply is complete. `apply` has checked that it may.
        (Calling { mut call, purpose }, EagerStarted { .. }) if let Some(read) = rest.eager.pop() => {
            call.eager.push(read);
            Calling { call, purpose }
        }
        (Calling { mut call, purpose }, ToolFinished { key, attempt, observation })
            if let Some(at) = call.eager_in_flight(key, *attempt) =>
        {
            call.eager_finished(at, observation);
            Calling { call, purpose }
        }
        (Calling { call, purpose }, DeadlineReached) => rest.call_deadline(call, purpose),
        (Calling { call, purpose }, Resumed { away_ms, .. }) => {
            rest.leave_out(*away_ms);
            let phase = rest.lose_call(call, purpose);
            rest.stop_at_gate(phase)
        }

        // Tools: writes are announced, all settle.
        (Running { mut batch, stage }, ToolStarted { key, attempt })
            if let Some(at) = rest.may_start(&batch, key, *attempt) =>
        {
            batch.announce(at);
            Running { batch, stage }
        }
        (Running { mut batch, stage }, ToolFinished { key, attempt, observation })
            if let Some(at) = batch.in_flight(key, *attempt) =>
        {
            rest.tool_finished(&mut batch, at, observation);
            rest.batch_settled(batch, stage)
        }
        (Running { mut batch, stage }, RunWaits { key, attempt, used })
            if let Some(at) = batch.leased_in_flight(key, *attempt) =>
        {
            rest.run_waits(&mut batch, at, used);
            rest.batch_settled(batch, stage)
        }
        (Running { batch, stage }, DeadlineReached) => rest.end_if_over(Running { batch, stage }),
        (Running { mut batch, stage }, Resumed { away_ms, .. }) => {
            match batch.waiting_since() {
                // Time without a driver is part of the wait.
                Some(since) => rest.count_waiting(since),
                None => rest.leave_out(*away_ms),
            }
            rest.lose_tools(&mut batch, /*is_working*/ true);
            if rest.inbox.stop_requested.is_some() && !batch.is_in_flight() {
                rest.stop_by_hand(Running { batch, stage })
            } else {
                rest.batch_settled(batch, stage)
            }
        }

        // A person is asked, and answers or does not.
        (WaitingForPerson { asks, since }, PersonAnswered { key, answer, binding })
            if let Ok(at) =
                rest.asking(&asks, &[]).answers(rest.clock.now, key, answer, binding.as_ref()) =>
        {
            rest.person_answered(asks, since, at, answer)
        }
        (WaitingForPerson { asks, since }, ApprovedBy { key, by, binding })
            if let Ok(at) = rest.asking(&asks, &[]).approves(rest.clock.now, key, by, binding.as_ref()) =>
        {
            rest.approved_by(asks, since, at, by)
        }
        (WaitingForPerson { asks, since }, DeadlineReached) => rest.expire_asks(asks, since),
        // Time without a driver is part of the wait.
        (WaitingForPerson { asks, since }, Resumed { .. }) => {
            rest.stop_at_gate(WaitingForPerson { asks, since })
        }

        // A document or an output is checked. A check that asks a model is announced.
        (Validating(mut checking), CheckStarted { key, attempt })
            if checking.is_due(key, *attempt) && rest.inbox.stop_requested.is_none() =>
        {
            checking.announced = true;
            Validating(checking)
        }
        (Validating(checking), Checked { key, attempt, result, used })
            if checking.is_in_flight(key, *attempt) =>
        {
            rest.checked(checking, result, used.as_deref())
        }
        (phase @ Validating(_), DeadlineReached) => rest.end_if_over(phase),
        (Validating(checking), Resumed { away_ms, .. }) => {
            rest.leave_out(*away_ms);
            let phase = rest.lose_check(checking);
            rest.stop_at_gate(phase)
        }

        // Instructions and requested stops, at any time before the stop reason is fixed.
        (phase, Instruction { text }) if phase.takes_instruction() && !text.trim().is_empty() => {
            rest.take_instruction(&phase, text);
            phase
        }
        (phase, StopRequested { how }) if phase.is_working() => rest.stop_requested(phase, *how),
        (phase, StopWithdrawn) if phase.is_working() && rest.inbox.stop_requested.is_some() => {
            rest.inbox.stop_requested = None;
            phase
        }

        // The stop reason is fixed: what was in flight settles and is not retried.
        (Stopping(stopping), ModelReplied { key, attempt, reply })
            if let Some(granted) = stopping.call_in_flight(key, *attempt) =>
        {
            rest.replied_too_late(stopping, granted, reply)
        }
        (Stopping(stopping), ModelFailed { key, attempt, failure })
            if let Some(granted) = stopping.call_in_flight(key, *attempt) =>
        {
            rest.failed_too_late(stopping, granted, failure)
        }
        (Stopping(stopping), ToolFinished { key, attempt, observation })
            if let Some(at) = stopping.tool_in_flight(key, *attempt) =>
        {
            rest.finished_too_late(stopping, at, observation)
        }
        (Stopping(stopping), RunWaits { key, attempt, used })
            if let Some(at) = stopping.tool_in_flight(key, *attempt) =>
        {
            rest.finished_too_late(stopping, at, &Arc::new(left_waiting(used)))
        }
        (Stopping(stopping), Checked { key, attempt, used, .. })
            if stopping.check.as_ref().is_some_and(|check| check.is_in_flight(key, *attempt)) =>
        {
            rest.checked_too_late(stopping, used.as_deref())
        }
        (Stopping(stopping), DeadlineReached) => rest.finish(stopping),
        (Stopping(mut stopping), Resumed { away_ms, .. }) => {
            rest.leave_out(*away_ms);
            stopping.batch.iter_mut().for_each(|batch| rest.lose_tools(batch, /*is_working*/ false));
            rest.finish(stopping)
        }

        // The outcome is saved. After its deadline a save that had to wait becomes due.
        (Saving { outcome, attempt, not_before }, SaveFinished { attempt: tried, result })
            if attempt == *tried && not_before.is_none_or(|at| at <= rest.clock.now) =>
        {
            rest.save_finished(outcome, attempt, result)
        }
        (phase @ Saving { .. }, DeadlineReached) => phase,
        (phase @ Saving { .. }, Resumed { away_ms, .. }) => {
            rest.leave_out(*away_ms);
            phase
        }

        (phase, event) => {
            let why = rest.why_not(&phase, event);
            return Err(Box::new((phase, why)));
        }
    })
}

impl RunParts<'_> {
    /// Why an event cannot follow.
    fn why_not(&self, phase: &Phase, event: &EventKind) -> Rejected {
        let (name, in_phase) = (event.name(), phase.name());
        let out_of_order = || Rejected::OutOfOrder { event: name, phase: in_phase };
        let not_open = |key: &CommandKey, attempt: u32| Rejected::NotOpen {
            event: name,
            key: *key,
            attempt,
            phase: in_phase,
        };
        match event {
            EventKind::Started(_) => Rejected::NotTheStart(name),
            EventKind::CallStarted { key, attempt, .. } | EventKind::CallRefused { key, attempt, .. } => {
                match phase.call().filter(|_| phase.is_working()) {
                    None => out_of_order(),
                    Some(call) => {
                        let other_quote = self.announced(call, event).and_then(Result::err);
                        other_quote.unwrap_or_else(|| not_open(key, *attempt))
                    }
                }
            }
            EventKind::ModelReplied { key, attempt, .. } | EventKind::ModelFailed { key, attempt, .. } => {
                phase.call().map_or_else(out_of_order, |_| not_open(key, *attempt))
            }
            EventKind::ToolFinished { key, attempt, .. }
                if phase.call().is_some_and(|call| !call.eager.is_empty()) =>
            {
                not_open(key, *attempt)
            }
            EventKind::ToolStarted { key, attempt }
            | EventKind::RunWaits { key, attempt, .. }
            | EventKind::ToolFinished { key, attempt, .. } => {
                phase.batch().map_or_else(out_of_order, |_| not_open(key, *attempt))
            }
            EventKind::EagerStarted { .. } => out_of_order(),
            EventKind::PersonAnswered { key, answer, binding } => {
                let asking = self.asking(phase.asks(), phase.asks_later());
                match asking.answers(self.clock.now, key, answer, binding.as_ref()) {
                    Err(why) => Rejected::Answer { key: *key, why },
                    Ok(_) => out_of_order(),
                }
            }
            EventKind::ApprovedBy { key, by, binding } => {
                let asking = self.asking(phase.asks(), phase.asks_later());
                match asking.approves(self.clock.now, key, by, binding.as_ref()) {
                    Err(why) => Rejected::Answer { key: *key, why },
                    Ok(_) => out_of_order(),
                }
            }
            EventKind::Instruction { .. } if phase.takes_instruction() => Rejected::EmptyInstruction,
            EventKind::Instruction { .. }
            | EventKind::StopRequested { .. }
            | EventKind::StopWithdrawn
            | EventKind::DeadlineReached
            | EventKind::Resumed { .. } => out_of_order(),
            EventKind::CheckStarted { key, attempt } | EventKind::Checked { key, attempt, .. } => {
                phase.check().map_or_else(out_of_order, |_| not_open(key, *attempt))
            }
            EventKind::SaveFinished { attempt, .. } => match phase {
                Phase::Saving { .. } => not_open(&CommandKey::new(0, Slot::Save), *attempt),
                _ => out_of_order(),
            },
        }
    }

    /// Milliseconds that count against the wall clock. A wait for a person is excluded when it ends, before any other
    /// decision.
    pub(super) fn elapsed_ms(&self) -> u64 {
        self.clock.elapsed_ms(None)
    }

    /// Excludes time without a driver from the wall clock. It is at most the time since the last event.
    fn leave_out(&mut self, away_ms: u64) {
        self.clock.leave_out(away_ms.min(self.since_last_ms));
    }

    /// The data against which a person's answer is validated.
    fn asking<'s>(&'s self, asks: &'s [Ask], later: &'s [u32]) -> AnswerContext<'s> {
        AnswerContext { spec: self.spec, started: self.started, calls: self.calls, asks, later }
    }

    /// The input of a quote for a call that is not in flight.
    pub(super) fn quoting(&self) -> Quoting<'_> {
        Quoting { spec: self.spec, budget: self.budget, route: self.route, in_flight: None }
    }

    /// The context in which a reply is read.
    pub(super) fn reading(&self) -> Reading<'_> {
        Reading {
            spec: self.spec,
            nonce: &self.started.nonce,
            echoes: &self.knowledge.echoes,
            has_read_untrusted: self.knowledge.taint.untrusted,
        }
    }
}

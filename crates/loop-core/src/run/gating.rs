//! The gate after a pass: verdicts, then stop or act.

use std::sync::Arc;

use crate::action::{Priority, Verdict};
use crate::gate::{self, Candidates, View};
use crate::judge::{Bench, Judged, Room, judge};
use crate::note::{Decision, Note};
use crate::proposal::Proposal;
use crate::run::Run;
use crate::stop::Condition;

impl Run {
    /// The gate after a pass: verdicts, then stop or act.
    pub(super) fn judge_and_decide(
        &mut self,
        proposal: Proposal,
        cause: Option<Condition>,
        notes: &mut Vec<Note>,
    ) {
        let pass = self.state.passes.len() as u32;
        self.take_confidence(&proposal, notes);
        let limit = self.spec.limits.tool_calls;
        let room =
            Room { left: limit.saturating_sub(self.state.totals.tool_calls), setting: "limits.tool_calls" };
        let bench = Bench { spec: &self.spec, ledger: &self.state.ledger, pass, room };
        let mut judged = judge(&proposal.actions, bench);
        let missing = self.missing();
        let view = View {
            limits: &self.spec.limits,
            totals: &self.state.totals,
            elapsed_ms: self.elapsed_ms(),
            stop_asked: self.state.stop_asked,
            confidence: proposal.confidence,
            refused: proposal.refused.as_ref(),
            escalated: proposal.escalated.as_ref(),
            candidates: count(&judged),
            people: self.spec.gate.people,
            missing: &missing,
        };
        match gate::decide(&view, cause) {
            Some(certificate) => {
                let stopped_by = certificate.primary.change.as_ref().map_or_else(
                    || Arc::from(certificate.reason().name()),
                    |change| Arc::clone(&change.setting),
                );
                for judged in judged.iter_mut().filter(|judged| judged.judged.verdict == Verdict::Run) {
                    judged.judged.verdict = Verdict::OverLimit { setting: Arc::clone(&stopped_by) };
                }
                self.admit(judged, notes);
                let decision = Decision::Stop(certificate.clone());
                notes.push(Note::GateDecided { pass, confidence: proposal.confidence, decision });
                self.stop(certificate, notes);
            }
            None => {
                let batch = self.admit(judged, notes);
                let decision = Decision::Act { runs: batch.work.len() as u32, asks: batch.asks.len() as u32 };
                notes.push(Note::GateDecided { pass, confidence: proposal.confidence, decision });
                self.act(batch, notes);
            }
        }
    }
}

fn count(judged: &[Judged]) -> Candidates {
    let mut candidates = Candidates::default();
    for judged in judged {
        if judged.judged.action.priority == Priority::NiceToHave {
            continue;
        }
        candidates.all += 1;
        match judged.judged.verdict {
            Verdict::Run => candidates.run += 1,
            Verdict::NeedsPerson { .. } => candidates.needs_person += 1,
            Verdict::Denied { .. } => candidates.denied += 1,
            Verdict::OverLimit { .. } => candidates.over_limit += 1,
            Verdict::UnknownTool { .. }
            | Verdict::InvalidArguments { .. }
            | Verdict::Duplicate { .. }
            | Verdict::Skipped => {}
        }
    }
    candidates
}

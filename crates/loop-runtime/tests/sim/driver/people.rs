//! The people of a simulated run: they read it, answer what they are asked, and interrupt it.

use std::sync::Arc;

use futures::StreamExt;
use loop_core::run::{PersonAnswer, PersonRequest, Phase, StopMode};
use loop_core::types::Approver;
use loop_core::{Run, RunSpec};
use loop_runtime::observe::RunEvent;
use loop_runtime::run::{Remote, RunStream};

use super::disk::Disk;
use super::world::SimWorld;

/// Reads a run to its end, and is its people.
pub(crate) async fn follow(world: &Arc<SimWorld>, disk: &Disk, stream: &mut RunStream) {
    let remote = stream.remote();
    let mut copy: Option<Run> = None;
    let spec = disk.acknowledged().first().and_then(|_| disk.spec());
    for entry in disk.acknowledged() {
        apply(&mut copy, &entry.event, spec.as_ref());
    }
    // A run that was resumed while it waited is asked about again.
    answer(world, copy.as_ref(), &remote);
    let mut seen = disk.acknowledged().len() as u64;
    while let Some(event) = stream.next().await {
        let RunEvent::Recorded(entry) = event else { continue };
        if entry.seq >= seen || copy.is_none() {
            apply(&mut copy, &entry.event, disk.spec().as_ref());
            seen = entry.seq + 1;
        }
        answer(world, copy.as_ref(), &remote);
        match world.below(60) {
            57 => remote.stop(StopMode::AtGate),
            58 => _ = remote.tell("Hurry."),
            59 if world.below(3) == 1 => remote.stop(StopMode::Now),
            59 => remote.withdraw_stop(),
            _ => {}
        }
    }
}

fn apply(copy: &mut Option<Run>, event: &loop_core::Event, spec: Option<&Arc<RunSpec>>) {
    match copy {
        None => *copy = spec.and_then(|spec| Run::open(event, Arc::clone(spec)).ok()).map(|(run, _)| run),
        Some(run) => {
            // The journal is checked at the end.
            let _ = run.apply(event);
        }
    }
}

/// People answer what they are asked: once, twice, or with the binding of something else.
fn answer(world: &SimWorld, run: Option<&Run>, remote: &Remote) {
    let Some(run) = run.filter(|run| matches!(run.phase(), Phase::WaitingForPerson { .. })) else { return };
    for request in run.requested() {
        let answer = match world.below(4) {
            0 | 1 => PersonAnswer::Approved,
            2 => PersonAnswer::Denied { why: "no".into() },
            _ => continue,
        };
        if answer == PersonAnswer::Approved && (request.approvals > 1 || world.below(3) == 2) {
            approve(world, &request, remote);
            continue;
        }
        match world.below(4) {
            0 | 1 => _ = remote.answer_as_shown(request.key, answer, request.binding),
            2 => {
                remote.answer(request.key, answer.clone());
                remote.answer(request.key, answer);
            }
            _ => {
                _ = remote.answer_as_shown(
                    request.key,
                    answer,
                    loop_core::types::Digest::of("sim", b"another"),
                );
            }
        }
    }
}

/// A person approves by an account: another person, one who has approved already, or an account that was not
/// checked.
fn approve(world: &SimWorld, request: &PersonRequest, remote: &Remote) {
    let known = request.approvers.len() as u32;
    let account = match world.below(8) {
        0..=5 => format!("token {}", known + 1),
        6 => format!("token {}", known.max(1)),
        _ => String::new(),
    };
    let binding = match world.below(8) {
        7 => loop_core::types::Digest::of("sim", b"another"),
        _ => request.binding,
    };
    let by = Approver { account: account.into(), user: "".into(), claim: None };
    _ = remote.approve_as(request.key, by, binding);
}

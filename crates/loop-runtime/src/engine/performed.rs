//! Makes a call that a run commanded, with the models, tools and validators of a loop.

use std::sync::Arc;
use std::time::Duration;

use loop_core::EventKind;
use loop_core::run::{CallModel, SaveResult};
use loop_core::types::Tier;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::work::{End, EngineWork, Kind, ModelWork, SaveWork, Settlement, unix_ms};
use crate::drive::model::{self, WorkEnd};
use crate::drive::parts::RunParts;
use crate::drive::runner::Runner;
use crate::drive::save::{SaveError, seconds, try_to_save};
use crate::drive::tool::Dispatch;
use crate::watch::sink;
use crate::watch::waits::{OnEvent, Waits};

impl Runner {
    /// Makes a call that a run commanded. It ends in its time, and soon after `cancel` is cancelled.
    pub async fn perform(&self, work: EngineWork, cancel: CancellationToken) -> Settlement {
        let (parts, of) = (self.parts(), work.key());
        let hear: OnEvent = Arc::new(|_| {});
        let WorkEnd { kind, retry, .. } = match work.0 {
            Kind::Model(work) => call(parts, *work, cancel, hear).await,
            Kind::Tool(work) => {
                let model = parts.models.of(work.asks().unwrap_or(Tier::Selector));
                let dispatch = Dispatch::new(*work, model, &parts.prompts, cancel, || hear);
                dispatch.run(&parts.registry, &parts.credentials).await
            }
            Kind::Check(work) => work.run(Arc::clone(parts), hear, cancel).await,
            Kind::Save(work) => save(parts, *work, cancel).await,
        };
        // What an engine keeps holds no secret.
        let kind = Box::new(sink::kind(&parts.secrets, kind));
        let retry_ms = retry.map(millis);
        Settlement { of, unix_ms: unix_ms(), end: End::Happened { kind, retry_ms } }
    }
}

async fn call(parts: &RunParts, work: ModelWork, cancel: CancellationToken, hear: OnEvent) -> WorkEnd {
    let ModelWork { of, tier, timeout_ms, mut request } = work;
    let ends = Instant::now() + Duration::from_millis(timeout_ms);
    let granted = request.max_output_tokens;
    let command = CallModel { key: of.key, attempt: of.attempt, tier, granted, timeout_ms };
    let client = Arc::clone(parts.models.of(tier));
    let waits = Arc::new(Waits::new(&cancel));
    request.secrets = parts.secrets.clone();
    let calling = model::call(client, Box::new(request), command, ends, waits, hear, None);
    tokio::pin!(calling);
    tokio::select! {
        biased;
        settled = &mut calling => settled,
        () = tokio::time::sleep_until(ends) => {
            cancel.cancel();
            calling.await
        }
    }
}

async fn save(parts: &RunParts, work: SaveWork, cancel: CancellationToken) -> WorkEnd {
    let SaveWork { attempt, left_ms, started, outcome } = work;
    let (left, limit) = (Duration::from_millis(left_ms), parts.save_limit);
    let saving = try_to_save(parts.saver.as_deref(), &started, &outcome, left, limit);
    let saved = tokio::select! {
        biased;
        saved = saving => saved,
        () = cancel.cancelled() => Err(SaveError { message: crate::drive::controls::STOPPED.into(), retry: None }),
    };
    let (result, retry) = match saved {
        Ok(location) => (SaveResult::Saved { location }, None),
        Err(SaveError { message, retry: Some(delay) }) if left <= delay => {
            let limit = seconds(limit);
            let message = format!("{message}; not tried again, since saving may take {limit} in all");
            (SaveResult::Failed { message: message.into(), retry_at: None }, None)
        }
        Err(SaveError { message, retry }) => (SaveResult::Failed { message, retry_at: None }, retry),
    };
    WorkEnd { retry, ..WorkEnd::of(EventKind::SaveFinished { attempt, result }) }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

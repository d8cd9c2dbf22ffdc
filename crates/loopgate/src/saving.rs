//! Saving that says what it does: a run is over by then, and a person who waits for the program sees why it has not ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loop_core::Outcome;
use loop_core::run::Started;
use loop_core::secrets::Secrets;
use loop_domain::Domain;
use loop_runtime::{
    Runner,
    save::{DetailedTarget, SaveError, Saver},
};

use crate::{hooks, stream, telemetry};

/// A loop that runs this domain, and saves where it says if it `saves`.
pub(crate) fn to_loop(domain: &Domain, saves: bool) -> Runner {
    let runner = match &domain.save {
        Some(target) if saves => domain.to_loop().with_saver(Arc::new(ReportingSaver {
            target: target.clone().with_spec(Arc::clone(&domain.spec)),
        })),
        _ => domain.unsaved_loop(),
    };
    telemetry::listen_to(runner.with_hooks(hooks::reporting(domain.hooks())))
}

/// Tells on standard error of a save that takes its time, or is tried again.
#[derive(Debug)]
struct ReportingSaver {
    target: DetailedTarget,
}

#[async_trait]
impl Saver for ReportingSaver {
    fn secrets(&self) -> Secrets {
        self.target.secrets()
    }

    async fn save(&self, started: &Started, outcome: &Outcome) -> Result<Arc<str>, SaveError> {
        let saving = self.target.save(started, outcome);
        tokio::pin!(saving);
        let saved = tokio::select! {
            biased;
            saved = &mut saving => saved,
            () = tokio::time::sleep(PATIENCE) => {
                stream::note("saving:  not done yet; Ctrl-C ends it, and the journal has the outcome");
                saving.await
            }
        };
        if let Err(SaveError { message, retry: Some(_) }) = &saved {
            stream::note(format!("saving:  {message}; it is tried again"));
        }
        saved
    }
}

/// How long nothing is said.
const PATIENCE: Duration = Duration::from_millis(700);

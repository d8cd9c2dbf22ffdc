//! What a loop is put together from: spec, tools, models, prompts, journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use loop_core::run::{
    CalledBy, History, Overridden, PersonAnswer, PersonRequest, Phase, Program, Provenance, Purpose, Started,
};
use loop_core::secrets::Secrets;
use loop_core::spec::SpecNames;
use loop_core::types::{CommandKey, RunId, Slot};
use loop_core::{EventKind, Facts, Run, RunSpec, WorkItem};
use loop_journal::shared::SharedBudgets;
use loop_journal::{Header, Journal};
use loop_llm::Message;
use loop_prompts::{Dialogue, Prompts};
use loop_tools::{Credentials, Registry};

use crate::drive::check::Validator;
use crate::drive::conversation::{Conversation, OfferedTools, SystemPrompts};
use crate::drive::fresh::nonce;
use crate::drive::hooks::{HookMessage, Hooks, StatusBefore};
use crate::drive::model::Models;
use crate::drive::save::Saver;
use crate::drive::start_error::StartError;
use crate::watch::observer::{Observer, Watcher};
use crate::watch::sink;
use crate::watch::trace::TraceSampler;

/// Answers what runs ask people.
pub(crate) type Approver = Arc<dyn Fn(PersonRequest) -> BoxFuture<'static, PersonAnswer> + Send + Sync>;

/// Everything that a driver needs beside the run.
pub(crate) struct RunParts {
    pub(crate) spec: Arc<RunSpec>,
    /// The names of the spec, once a run has begun.
    pub(crate) names: OnceLock<SpecNames>,
    pub(crate) registry: Registry,
    pub(crate) models: Models,
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) credentials: Arc<Credentials>,
    /// What no run reads, journals, shows or sends to a model: see `sink`.
    pub(crate) secrets: Secrets,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) saver: Option<Arc<dyn Saver>>,
    /// The tools as models see them.
    pub(crate) offered: OfferedTools,
    pub(crate) rules: Arc<SystemPrompts>,
    /// Observers that are called on the run's own task.
    pub(crate) in_place: Vec<Arc<dyn Observer>>,
    /// What an output is compared with, beside its schema.
    pub(crate) validators: Arc<[Arc<dyn Validator>]>,
    /// The budgets that all its runs share. `None`: they share none.
    pub(crate) shared: Option<SharedBudgets>,
    /// Whether a run that waits for people is left alone.
    pub(crate) leaves: bool,
    /// How long saving may take, all its tries together.
    pub(crate) save_limit: Duration,
    /// Whether the limit of messages counts those of a run alone.
    pub(crate) counts_own: bool,
    pub(crate) origin: Option<Arc<str>>,
    pub(crate) overridden: Vec<Overridden>,
    /// The program as the record of its runs names it.
    pub(crate) program: Program,
    pub(crate) watchers: Vec<Arc<Watcher>>,
    /// Which runs are traced. `None`: none has spans of its own.
    pub(crate) sampler: Option<Arc<dyn TraceSampler>>,
    pub(crate) hooks: Hooks,
    /// A function of the program that answers what its runs ask. `None`: others do.
    pub(crate) approver: Option<Approver>,
    /// The call that its runs answer. `None`: no run calls them.
    pub(crate) called_by: Option<CalledBy>,
    /// What people said to runs that its runs called, until those are taken up.
    pub(crate) said: Arc<Mutex<BTreeMap<RunId, Vec<EventKind>>>>,
}

impl RunParts {
    /// The digests of the spec.
    pub(crate) fn names(&self) -> SpecNames {
        *self.names.get_or_init(|| SpecNames::of(&self.spec))
    }

    /// An error if the spec has a cost limit that an unknown price makes void.
    pub(crate) fn check_price(&self) -> Result<(), StartError> {
        let model = || Arc::clone(&self.spec.models.base.model);
        if self.shared.is_some() && self.spec.models.base.price.is_none() {
            return Err(StartError::SharedBudgetWithoutPrice { model: model() });
        }
        let unpriced = self.spec.unpriced_limit();
        unpriced.map_or(Ok(()), |limit| Err(StartError::CostWithoutPrice { limit, model: model() }))
    }

    /// An error if the limits of a run that is about to begin do not pay for its first pass.
    pub(crate) fn check_first_pass(&self, run: &Run, history: Arc<[Message]>) -> Result<(), StartError> {
        let limits = &run.spec().limits;
        if limits.cost.is_none() && limits.tokens.is_none() {
            return Ok(());
        }
        let main = CommandKey::new(1, Slot::Main);
        let (select, main) = match run.spec().protocol.properties().answers_every_call {
            true => {
                let mut said = Conversation::new(&self.rules, &self.prompts, run, &self.offered, history);
                (None, Some(said.grow(&self.prompts, run, main).0))
            }
            false => {
                let mut dialogue = Dialogue::default();
                let mut size = |key| Some(dialogue.prompt(&self.prompts, run, key)?.size);
                let selects = matches!(run.phase(), Phase::Calling { purpose: Purpose::Select, .. });
                let select = selects.then(|| size(CommandKey::new(0, Slot::Select))).flatten();
                (select, size(main))
            }
        };
        let least = main.map_or_else(Vec::new, |main| run.first_pass_unpaid(select, main));
        if least.is_empty() { Ok(()) } else { Err(StartError::FirstPassUnpaid { least }) }
    }

    /// What a run that begins now is started with.
    pub(crate) fn facts(&self, history: Option<History>) -> Facts {
        Facts {
            unix_ms: unix_ms(),
            nonce: nonce(),
            prompts: self.prompts.hash(),
            tools: self.registry.manifest_hash(),
            history,
            provenance: self.provenance(),
        }
    }

    /// What the journal stores besides the entries of a run that begins now.
    pub(crate) fn header(&self, run: &RunId, facts: &Facts, item: &WorkItem) -> Header {
        self.header_of(run, facts.unix_ms, item)
    }

    /// The same, of a run that began at this time.
    pub(crate) fn header_of(&self, run: &RunId, unix_ms: u64, item: &WorkItem) -> Header {
        Header {
            run: run.clone(),
            unix_ms,
            item: Arc::clone(&item.id),
            title: Arc::clone(&item.title),
            spec: Arc::clone(&self.spec),
            manifest_hash: self.registry.manifest_hash(),
            manifest: Arc::clone(self.registry.manifest()),
            origin: self.origin.clone().map(|mut origin| {
                sink::json(&self.secrets, &mut origin);
                origin
            }),
            request_key: None,
        }
    }

    /// The messages of hooks about what is new of a run.
    pub(crate) fn new_messages(&self, before: StatusBefore, run: &Run) -> Vec<HookMessage> {
        self.hooks.messages(before, run, run.started().unix_ms_at(run.now()))
    }

    fn provenance(&self) -> Provenance {
        let kept = |setting: &Overridden| {
            let value = self.secrets.mask(&setting.value);
            Overridden { setting: Arc::clone(&setting.setting), value: (*value).into() }
        };
        Provenance {
            program: Arc::clone(&self.program.name),
            decisions: self.program.decisions,
            overridden: self.overridden.iter().map(kept).collect(),
            prices: loop_llm::prices::origin().into(),
            engine: "".into(),
            called_by: self.called_by.clone().map(Box::new),
        }
    }
}

/// The messages before a run that was recorded.
pub(crate) fn read_history(started: &Started) -> Result<Arc<[Message]>, StartError> {
    match &started.history {
        None => Ok(Arc::new([])),
        Some(history) => serde_json::from_str::<Vec<Message>>(&history.json)
            .map(Arc::from)
            .map_err(|error| StartError::History { message: error.to_string() }),
    }
}

fn unix_ms() -> u64 {
    loop_journal::unix_ms(std::time::SystemTime::now())
}

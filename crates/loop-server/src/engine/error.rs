//! Errors of the engine, with one line for people.

use loop_core::Rejected;
use loop_core::run::AnswerFault;
use loop_core::types::RunId;
use loop_runtime::journal::JournalError;
use loop_runtime::journal::ReplayError;
use loop_runtime::run::StartError;

/// Why the engine refuses a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No domain of this name is served.
    #[error("domain: `{name}` is not served here; GET /v1/domains lists the domains")]
    UnknownDomain {
        /// The name that was given.
        name: String,
    },
    /// Several domains are served, and the request does not name one.
    #[error("domain: several domains are served; name one, GET /v1/domains lists them")]
    NoDomain,
    /// There is no such run.
    #[error("no run has this id; GET /v1/runs lists the runs")]
    UnknownRun,
    /// The work item cannot be used.
    #[error("{0}")]
    Item(String),
    /// A setting, a tag or a key is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The domain does not let callers change this setting.
    #[error("settings: {0}")]
    Setting(String),
    /// The idempotency key was used for another request.
    #[error(
        "Idempotency-Key: you used this key for another request, which is run {run}; give this request a key of its own"
    )]
    OtherRequest {
        /// The run of that request.
        run: RunId,
    },
    /// The queue is full.
    #[error("{bound} submissions wait{}, which is the maximum; send the request again later", of(domain.as_deref()))]
    Full {
        /// The domain whose limit it is. `None`: the limit of all domains together.
        domain: Option<String>,
        /// The limit.
        bound: u64,
    },
    /// The server is shutting down.
    #[error("the server is ending and accepts no new work; send the request again in a moment")]
    Draining,
    /// The run's state does not allow this.
    #[error("{0}")]
    State(String),
    /// The run is driven by another process.
    #[error(
        "another process drives the run and did not take this; send the request again when the run has ended or waits"
    )]
    Elsewhere,
    /// The run has no action with this key.
    #[error("no action of the run has the key `{key}`; GET /v1/pending lists what waits")]
    NoAction {
        /// The key that was given.
        key: String,
    },
    /// The binding is not that of the action, so the caller has not seen what would run.
    #[error(
        "binding: it is not that of {key}, so it is not what you were shown; GET /v1/pending shows what waits now"
    )]
    Binding {
        /// The action's key.
        key: String,
    },
    /// An approval or answer does not count.
    #[error("{key}: {fault}")]
    Answer {
        /// The action's key.
        key: String,
        /// Why it does not count.
        fault: AnswerFault,
    },
    /// The run's state does not allow this event.
    #[error("the run does not accept this now: {0}")]
    Rejected(Rejected),
    /// Another version of the program drives the run: see [`StartError::is_of_another_version`].
    #[error("{0}; a server of that version continues the run")]
    OtherVersion(String),
    /// A durable engine drives the run, so this server cannot act on it.
    #[error("{0}")]
    OnEngine(String),
    /// The run cannot be resumed.
    #[error("the run cannot be continued here; the operator finds the reason in the server's log")]
    NotResumed(String),
    /// The journal failed.
    #[error("the journal cannot be read or written now; the operator finds the reason in the server's log")]
    Journal(JournalError),
}

fn of(domain: Option<&str>) -> String {
    domain.map_or_else(String::new, |domain| format!(" for {domain}"))
}

impl EngineError {
    /// Details for the operator. They may name a path, so callers do not get them.
    pub fn for_operator(&self) -> Option<String> {
        match self {
            Self::NotResumed(why) => Some(why.clone()),
            Self::Journal(error) => Some(error.to_string()),
            _ => None,
        }
    }
}

impl From<JournalError> for EngineError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Unknown { .. } | JournalError::Pruned { .. } => Self::UnknownRun,
            JournalError::Busy { .. } => Self::Elsewhere,
            error @ JournalError::NotEnded { .. } => Self::State(error.to_string()),
            error @ JournalError::UnknownEntry { .. } => Self::OtherVersion(error.to_string()),
            error => Self::Journal(error),
        }
    }
}

impl From<ReplayError> for EngineError {
    fn from(error: ReplayError) -> Self {
        StartError::from(error).into()
    }
}

impl From<StartError> for EngineError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Journal(error) => error.into(),
            StartError::Refused { rejected, .. } => Self::Rejected(rejected),
            error @ (StartError::NotForked { .. }
            | StartError::NoEntry { .. }
            | StartError::NotTakenOver { .. }) => Self::State(error.to_string()),
            error if error.is_of_another_version() => Self::OtherVersion(error.to_string()),
            error @ StartError::Replay(ReplayError::OnEngine { .. }) => Self::OnEngine(error.to_string()),
            error => Self::NotResumed(error.to_string()),
        }
    }
}

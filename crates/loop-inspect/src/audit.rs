//! Audits a recorded run: whether its journal is complete and unchanged, whether this program decides the same again,
//! and whether every invariant of the core holds.

use std::sync::Arc;

use loop_core::invariants::{Checker, Transition};
use loop_core::types::RunId;
use loop_core::{Event, EventKind, Note, Rejected, Run};
use schemars::JsonSchema;
use serde::Serialize;

use loop_runtime::journal::transfer::{LostEntries, SalvagedRun};
use loop_runtime::journal::{Journal as _, JournalError, Recorded, StoredJournal};

/// The version of an audit as JSON.
pub const AUDIT_VERSION: u32 = 1;

/// How many violated invariants of one run are listed. The rest is counted.
const MAX_VIOLATIONS: usize = 20;

/// What `loopgate verify` finds in the runs of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JournalAudit {
    /// The version of this form.
    pub version: u32,
    /// The journal's file.
    pub journal: String,
    /// Whether nothing is wrong with any of the runs.
    pub ok: bool,
    /// The runs, newest first.
    pub runs: Vec<RunAudit>,
    /// The runs of which the key's records know, and which are not in the journal. Empty if there are none, or if not
    /// all runs were checked.
    pub missing: Vec<String>,
}

/// What an audit found in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunAudit {
    /// The run's id.
    pub run: String,
    /// Whether nothing is wrong with it.
    pub ok: bool,
    /// How many entries can be read, from the first on.
    pub entries: u64,
    /// The sequence number of the last entry up to which nothing is wrong. Null: there is none.
    pub last_good: Option<u64>,
    /// How many entries are known to be missing behind those that can be read. Null: it is not known.
    pub lost: Option<u64>,
    /// The name of the reason for which it stopped. Null: it has not, as far as its entries can be read.
    pub stop: Option<String>,
    /// The program that began it, with its version. Empty: not known.
    pub program: String,
    /// Whether it was imported: the key vouches for what it is since then, and not for the program that wrote it.
    pub imported: bool,
    /// What is wrong. Empty if nothing is.
    pub findings: Vec<AuditFinding>,
    /// How many more invariants do not hold than are listed.
    pub more: u64,
}

/// Something that is wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditFinding {
    /// What kind of fault it is.
    pub fault: AuditFault,
    /// The ids of the invariants, for example `I-9`. Empty for other faults.
    pub invariant: String,
    /// The sequence number of the entry. Null: it is not about one entry.
    pub entry: Option<u64>,
    /// One sentence.
    pub message: String,
    /// How to continue, in one sentence.
    pub next: String,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditFault {
    /// An entry, the run's row, its spec or its manifest was changed, is missing, or cannot be read.
    Damaged,
    /// The run can be read, and the key's records do not vouch for it: they are missing, or count more entries.
    Unverified,
    /// An event cannot follow the ones before it.
    Rejected,
    /// This program decides otherwise than the one that wrote the entry.
    DecidedOtherwise,
    /// An invariant does not hold.
    Invariant,
}

impl JournalAudit {
    /// Checks these runs of a journal.
    ///
    /// # Errors
    /// If there is no such run, or if the journal cannot be read at all.
    pub async fn of(journal: &StoredJournal, runs: &[RunId]) -> Result<Self, JournalError> {
        let mut audits = Vec::with_capacity(runs.len());
        for run in runs {
            audits.push(RunAudit::of(journal, run).await?);
        }
        Ok(Self {
            version: AUDIT_VERSION,
            journal: journal.path().display().to_string(),
            ok: audits.iter().all(|audit| audit.ok),
            runs: audits,
            missing: Vec::new(),
        })
    }

    /// Checks all runs of a journal, and whether one is missing.
    ///
    /// # Errors
    /// If the journal cannot be read at all.
    pub async fn of_all(journal: &StoredJournal) -> Result<Self, JournalError> {
        let runs: Vec<RunId> = journal.runs().await?.into_iter().map(|line| line.run).collect();
        let mut audit = Self::of(journal, &[]).await?;
        for run in &runs {
            audit.runs.push(match RunAudit::of(journal, run).await {
                // Its row is in the table, and the table's index does not lead to it.
                Err(JournalError::Unknown { run, .. }) => RunAudit::unreadable(&run, &not_found(&run)),
                of_run => of_run?,
            });
        }
        audit.ok = audit.runs.iter().all(|audit| audit.ok);
        audit.missing = journal.missing_runs().await?.iter().map(ToString::to_string).collect();
        audit.ok &= audit.missing.is_empty();
        Ok(audit)
    }
}

impl RunAudit {
    /// Checks one run of a journal: the chain of its entries, its row and its records under the key, each decision, and
    /// the invariants of [`loop_core::invariants`]. It changes nothing.
    ///
    /// # Errors
    /// If there is no such run, or if the journal cannot be read at all. What is wrong with the run is not an error.
    pub async fn of(journal: &StoredJournal, run: &RunId) -> Result<Self, JournalError> {
        Ok(Self::read(journal, run).await?.0)
    }

    /// [`of`](Self::of), and the entries that can be read. `None`: the run cannot be read at all.
    ///
    /// # Errors
    /// As for [`of`](Self::of).
    pub async fn read(
        journal: &StoredJournal,
        run: &RunId,
    ) -> Result<(Self, Option<Recorded>), JournalError> {
        match journal.read(run).await {
            Ok(recorded) => Ok((Self::of_recorded(run, &recorded), Some(recorded))),
            Err(error @ JournalError::Unknown { .. }) => Err(error),
            Err(error) => match journal.salvage(run).await {
                Ok(salvaged) => Ok((Self::of_salvaged(run, &error, &salvaged), Some(salvaged.recorded))),
                Err(
                    of_run @ (JournalError::Corrupt { .. }
                    | JournalError::Storage { .. }
                    | JournalError::UnknownEntry { .. }
                    | JournalError::Unverified { .. }),
                ) => Ok((Self::unreadable(run, &of_run), None)),
                Err(error) => Err(error),
            },
        }
    }

    /// Checks a run as it was read from any journal: whether the journal vouches for it, each decision, and the
    /// invariants.
    pub fn of_recorded(run: &RunId, recorded: &Recorded) -> Self {
        let mut audit = Self::replayed(run, recorded);
        if let Some(message) = recorded.unverified.as_ref().filter(|_| !recorded.imported) {
            audit.findings.insert(0, AuditFinding::unverified(message));
        }
        audit.close()
    }

    fn of_salvaged(run: &RunId, error: &JournalError, salvaged: &SalvagedRun) -> Self {
        let mut audit = Self::replayed(run, &salvaged.recorded);
        let finding = AuditFinding::damaged(error);
        audit.lost = match salvaged.lost {
            LostEntries::Nothing => Some(0),
            LostEntries::Entries(count) => Some(count),
            LostEntries::Unknown => None,
        };
        // The journal may have refused the run for its row, which is not about an entry.
        let vouched = salvaged.vouched.checked_sub(1);
        audit.last_good = audit.last_good.min(vouched.or(finding.entry.and_then(|seq| seq.checked_sub(1))));
        audit.findings.insert(0, finding);
        audit.close()
    }

    fn unreadable(run: &RunId, error: &JournalError) -> Self {
        let mut audit = Self::empty(run);
        audit.lost = None;
        audit.findings.push(AuditFinding::damaged(error));
        audit.close()
    }

    fn empty(run: &RunId) -> Self {
        Self {
            run: run.to_string(),
            ok: false,
            entries: 0,
            last_good: None,
            lost: Some(0),
            stop: None,
            program: String::new(),
            imported: false,
            findings: Vec::new(),
            more: 0,
        }
    }

    /// Applies the entries again, and checks each step.
    fn replayed(run: &RunId, recorded: &Recorded) -> Self {
        let mut audit = Self::empty(run);
        audit.entries = recorded.entries.len() as u64;
        audit.imported = recorded.imported;
        let mut entries = recorded.entries.iter();
        let Some(first) = entries.next() else {
            audit.findings.push(AuditFinding::rejected(0, &Rejected::NotTheStart("nothing")));
            return audit;
        };
        if let EventKind::Started(started) = &first.event.kind {
            audit.program = started.provenance.program.to_string();
        }
        let program = audit.program.clone();
        let (mut state, notes) = match Run::open(&first.event, Arc::clone(&recorded.spec)) {
            Ok(opened) => opened,
            Err(rejected) => {
                audit.findings.push(AuditFinding::rejected(0, &rejected));
                return audit;
            }
        };
        if notes != first.notes {
            audit.findings.push(AuditFinding::decided(0, &program, &first.notes, &notes));
            return audit;
        }
        let (mut checker, violations) = Checker::start(&state, &notes);
        let mut found = violations;
        audit.last_good = found.is_empty().then_some(0);
        for entry in entries {
            let before = state.clone();
            let notes = match state.apply(&entry.event) {
                Ok(notes) => notes,
                Err(rejected) => {
                    audit.findings.push(AuditFinding::rejected(entry.seq, &rejected));
                    break;
                }
            };
            if notes != entry.notes {
                audit.findings.push(AuditFinding::decided(entry.seq, &program, &entry.notes, &notes));
                break;
            }
            let event: &Event = &entry.event;
            let step = Transition { before: &before, event, notes: &notes, after: &state };
            found.extend(checker.step(&step));
            if found.is_empty() {
                audit.last_good = Some(entry.seq);
            }
        }
        audit.stop = state.outcome().map(|outcome| outcome.stop.reason().name().to_owned());
        audit.more = found.len().saturating_sub(MAX_VIOLATIONS) as u64;
        let listed = found.into_iter().take(MAX_VIOLATIONS);
        audit.findings.extend(listed.map(|violation| AuditFinding {
            fault: AuditFault::Invariant,
            invariant: violation.id.to_owned(),
            entry: Some(violation.seq),
            message: format!("{}: {}", violation.name, violation.message),
            next: "do not resume the run, and report this as a bug of the program that wrote it".to_owned(),
        }));
        audit
    }

    fn close(mut self) -> Self {
        self.ok = self.findings.is_empty();
        if self.ok {
            self.last_good = self.entries.checked_sub(1);
        }
        self
    }
}

/// The error of a run that the journal lists but does not find by its id.
fn not_found(run: &RunId) -> JournalError {
    let message = "it is listed and cannot be found by its id: an index of the journal is damaged".to_owned();
    JournalError::Corrupt { run: run.clone(), seq: 0, message }
}

impl AuditFinding {
    fn damaged(error: &JournalError) -> Self {
        let (fault, entry) = match error {
            JournalError::Corrupt { seq, .. } => (AuditFault::Damaged, Some(*seq)),
            JournalError::Unverified { .. } => (AuditFault::Unverified, None),
            JournalError::UnknownEntry { seq, message, .. } => {
                return Self {
                    fault: AuditFault::Rejected,
                    invariant: String::new(),
                    entry: Some(*seq),
                    message: format!("the entry is whole, and this program does not know it: {message}"),
                    next: "use the version of loopgate that wrote the run".to_owned(),
                };
            }
            _ => (AuditFault::Damaged, None),
        };
        let message = match error {
            JournalError::Corrupt { message, .. } | JournalError::Unverified { message, .. } => {
                message.clone()
            }
            other => other.to_string(),
        };
        let next = "put an undamaged copy of the journal's files back, or continue its good entries with `loopgate verify RUN --salvage`";
        Self { fault, invariant: String::new(), entry, message, next: next.to_owned() }
    }

    fn unverified(message: &str) -> Self {
        Self {
            fault: AuditFault::Unverified,
            invariant: String::new(),
            entry: None,
            message: message.to_owned(),
            next: "put the files back that belong to the journal, or continue its good entries with `loopgate verify RUN --salvage`"
                .to_owned(),
        }
    }

    fn rejected(seq: u64, rejected: &Rejected) -> Self {
        Self {
            fault: AuditFault::Rejected,
            invariant: String::new(),
            entry: Some(seq),
            message: format!("the event cannot follow the ones before it: {rejected}"),
            next: "use the version of loopgate that wrote the run, or begin it anew".to_owned(),
        }
    }

    fn decided(seq: u64, program: &str, recorded: &[Note], now: &[Note]) -> Self {
        let differs = recorded.iter().zip(now).position(|(recorded, now)| recorded != now);
        let at = differs.unwrap_or(recorded.len().min(now.len())) + 1;
        let writer = if program.is_empty() { "the program that wrote it" } else { program };
        Self {
            fault: AuditFault::DecidedOtherwise,
            invariant: String::new(),
            entry: Some(seq),
            message: format!(
                "this program decides otherwise than {writer}: decision {at} differs ({} recorded, {} now)",
                recorded.len(),
                now.len()
            ),
            next: format!("resume the run with {writer}, or begin it anew"),
        }
    }
}

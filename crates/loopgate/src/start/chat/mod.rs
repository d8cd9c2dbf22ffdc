//! `loopgate chat`: holds a conversation turn by turn. It keeps the history, and asks the person for approvals.

mod args;
mod view;

pub(crate) use args::ChatArgs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anstyle::Style;
use futures::StreamExt;
use loop_core::policy::is_forbidden;
use loop_core::run::StopMode;
use loop_core::spec::ProtocolSpec;
use loop_core::types::{PicoUsd, StopClass, Tier, Totals};
use loop_core::{Run, StopReason};
use loop_domain::Domain;
use loop_runtime::{
    Message, Runner,
    agent::Meta,
    journal::{Journal as _, RunLine, StoredJournal},
    report::counted,
    run::Remote,
};

use view::TurnView;

use crate::args::{DomainArgs, JournalArgs, tiered};
use crate::context::{FoundRun, Origin, ReceivedSignal, Signals, find, on_journal, places, reporting};
use crate::drive::{Listening, PersonEvents, ask, ask_all, asking, denied};
use crate::output::{
    Failure, TextLine, at_journal, cut, edited::LineInput, screen, stream, stream::note, typed,
    typed::TypedInput,
};
use crate::shown::{bill, doubts, warned};

const BOLD: Style = Style::new().bold();

/// The most characters of a message in `/history`.
const MAX_SHOWN: usize = 160;

const HELP: &str = "/help     this list
/clear    forget what was said
/history  show what was said
/tools    list the tools that the agent may call
/limits   show the limits of a turn
/model    show the model; /model PROVIDER/NAME changes it from the next turn on
/bill     show what the chat has used so far
/quit     end the chat, as Ctrl-D does
At a question whether an action may run, /approve and /deny answer it.
The arrow keys move in a line and bring back the messages before; Ctrl-R finds one.
A line that ends with \\ continues in the next one.
Ctrl-C stops a turn; what was said until then stays.";

pub(crate) async fn chat(args: ChatArgs) -> Result<ExitCode, Failure> {
    let continued = match &args.continues {
        Some(named) => Some(last_turn(named, &args.journal).await?),
        None => None,
    };
    let (arguments, cwd) = arguments(&args, continued.as_ref())?;
    let domain = loaded(&arguments, args.record.as_deref(), &cwd)?;
    let journal = places::journal(&args.journal, domain.sync)?;
    places::say_prices(&domain);
    let item_bytes_max = domain.item_bytes_max();
    let lines = typed::Lines::with_editor(item_bytes_max);
    let mut chat = Chat {
        runner: runner(&domain, &arguments, cwd.clone(), &journal, lines.is_answered())?,
        arguments,
        cwd,
        record: args.record.clone(),
        limits: domain.limits_in_words(),
        begun: String::new(),
        stored: journal,
        journal: args.journal.journal.clone(),
        signals: Signals::new()?,
        lines,
        messages: Vec::new(),
        session: Session::default(),
        item_bytes_max,
        is_warned: false,
        is_in_doubt: false,
        is_undone: false,
    };
    if chat.lines.is_terminal() {
        note(TextLine::new().styled(BOLD, &domain.spec.domain).plain("  ").plain(&domain.spec.goal));
        note("/help lists what can be typed");
    }
    stream::outlive_reader();
    if screen::is_able() {
        // Where the signal cannot be heard, Ctrl-Z leaves a row behind, and all else is as it was.
        let _ = screen::stop_cleanly();
    }
    let ended = match continued {
        Some(turn) => chat.continued(turn, &domain).await,
        None => Ok(None),
    };
    let ended = match ended {
        Ok(None) => chat.conversation().await,
        Ok(Some(end)) => Ok(end),
        Err(failure) => Err(failure),
    };
    note(chat.session.to_string());
    places::finish_recording(&domain, args.record.as_deref());
    match ended? {
        End::Quit | End::Waiting if chat.is_in_doubt => Ok(ExitCode::from(StopClass::InDoubt.exit_code())),
        End::Quit if chat.is_undone => Ok(ExitCode::from(StopClass::Partial.exit_code())),
        End::Quit => Ok(ExitCode::SUCCESS),
        End::Waiting => Ok(ExitCode::from(StopClass::NeedsHuman.exit_code())),
        // The person who ended it does not wait for what is still read from standard input.
        End::Signal(received) => stream::exit(received.exit_code().into()),
    }
}

/// Loads and prepares the domain of a chat.
fn loaded(arguments: &DomainArgs, record: Option<&Path>, cwd: &Path) -> Result<Domain, Failure> {
    let domain = places::load_with(arguments, record, cwd.to_owned())?;
    check(&domain)?;
    domain.ready(false)?;
    domain.start_servers();
    Ok(domain)
}

/// The runner of the chat's turns.
fn runner(
    domain: &Domain,
    arguments: &DomainArgs,
    cwd: PathBuf,
    journal: &Arc<StoredJournal>,
    is_answered: bool,
) -> Result<Runner, Failure> {
    let origin = Origin::of_folder(arguments, cwd, /*saves*/ false, /*asks*/ true)?.text()?;
    let runner =
        domain.unsaved_loop().with_hooks(reporting(domain.hooks())).with_people().counting_own_messages();
    let runner = on_journal(runner, domain, journal, /*batch*/ None).with_origin(origin);
    // What is piped in answers nothing, and what a called run asks is not seen here: the turn waits in the journal.
    let is_asked_here = is_answered && domain.spec.tools.iter().all(|tool| tool.policy.lease.is_none());
    Ok(if is_asked_here { runner } else { runner.leave_when_waiting() })
}

/// The last turn of the chat to continue: the named run, or the latest turn in the journal.
async fn last_turn(named: &str, journal: &JournalArgs) -> Result<FoundRun, Failure> {
    let at = places::existing_journal(journal)?;
    let run = if named == "last" {
        let turn = at.runs().await?.into_iter().find(is_turn).map(|line| line.run);
        turn.ok_or_else(|| Failure::new("the journal holds no chat yet; `loopgate chat DOMAIN` begins one"))?
    } else {
        find(at.as_ref(), named).await?.run
    };
    FoundRun::read(at, &run).await
}

/// Whether a run is a turn of a chat, by its line in the list.
fn is_turn(line: &RunLine) -> bool {
    &*line.item == "message" && line.origin.is_some() && !line.is_imported
}

/// The arguments of the chat, and the folder that its paths start from: as given, over those with which the chat began.
/// begun with.
fn arguments(args: &ChatArgs, continued: Option<&FoundRun>) -> Result<(DomainArgs, PathBuf), Failure> {
    let here = places::cwd()?;
    let origin = continued.and_then(|turn| turn.recorded.origin.as_deref()).map(Origin::read).transpose()?;
    match (&args.domain, origin) {
        (domain, Some(origin)) => {
            let arguments = origin.changed(&args.settings);
            let domain = domain.as_ref().map_or(arguments.domain.clone(), |domain| here.join(domain));
            Ok((DomainArgs { domain, ..arguments }, origin.cwd().to_owned()))
        }
        (Some(domain), None) => {
            Ok((DomainArgs { domain: domain.clone(), settings: args.settings.clone() }, here))
        }
        (None, None) => {
            Err(Failure::new("the run does not say which domain it is of; name the folder of the domain"))
        }
    }
}

/// Why a chat ended.
enum End {
    Quit,
    /// A turn waits for a person, and none can be asked here.
    Waiting,
    Signal(ReceivedSignal),
}

fn check(domain: &Domain) -> Result<(), Failure> {
    let folder = domain.folder().display();
    let what = match &domain.spec.protocol {
        ProtocolSpec::Conversation(_) if domain.spec.gate.approvals > 1 => {
            return Err(Failure::new(format!(
                "{folder}: `gate.approvals` demands two people, and one person sits at a chat; use `loopgate run`"
            )));
        }
        ProtocolSpec::Conversation(_) => return Ok(()),
        ProtocolSpec::Document(_) => "writes a document",
        ProtocolSpec::Output(_) => "ends with an output",
    };
    Err(Failure::new(format!(
        "{folder}: this domain {what} and is not a conversation; use `loopgate run`, or write type = \"conversation\" in \
         [protocol]"
    )))
}

struct Chat {
    runner: Runner,
    /// The domain and the settings of the next turns.
    arguments: DomainArgs,
    /// The folder that relative paths start from.
    cwd: PathBuf,
    record: Option<PathBuf>,
    /// The limits of a turn, in words.
    limits: String,
    /// The first lines of a message that continues.
    begun: String,
    stored: Arc<StoredJournal>,
    /// The journal as named on the command line.
    journal: Option<PathBuf>,
    signals: Signals,
    lines: typed::Lines,
    messages: Vec<Message>,
    session: Session,
    /// The most bytes of a message: the domain's limit of a work item.
    item_bytes_max: u64,
    /// Whether the next Ctrl-C ends the chat.
    is_warned: bool,
    /// Whether a turn has ended with an effect whose outcome is unknown.
    is_in_doubt: bool,
    /// Whether an effect that a turn requested did not happen in it.
    is_undone: bool,
}

/// What a turn answers.
enum TurnInput {
    Message(String),
    /// It began before and has not ended. With the person's answers for it and for the runs that it called.
    Unfinished(Box<Run>, PersonEvents),
}

/// What a line makes the chat do.
enum LineAction {
    Message(String),
    Nothing,
    Quit,
}

impl Chat {
    /// Continues the chat after this turn. An unfinished turn is continued first, with its requests to the person here.
    async fn continued(&mut self, turn: FoundRun, domain: &Domain) -> Result<Option<End>, Failure> {
        let FoundRun { journal, recorded, run } = turn;
        let id = run.id().clone();
        let (mut before, mut entries) = (journal.runs().await?, Vec::new());
        // The replies of a script are used up by the turns before.
        let is_before = |line: &RunLine| run.is_done() || line.run != id;
        before.retain(|line| is_turn(line) && line.origin == recorded.origin && is_before(line));
        for line in before.iter().rev().filter(|_| &*run.spec().models.base.provider == "scripted") {
            entries.extend(journal.read(&line.run).await?.entries);
        }
        domain.goes_on_behind(&entries);
        let messages = self.runner.messages_of(&run)?;
        note(format!(
            "continues the chat of run {id}: {}; /history shows them",
            counted(messages.len() as u64, "message")
        ));
        for message in &messages {
            if let Message::User { text, .. } = message {
                self.lines.remember(text);
            }
        }
        if run.is_done() {
            self.messages = messages;
            return Ok(None);
        }
        self.turn(TurnInput::Unfinished(Box::new(run), PersonEvents::new())).await
    }

    /// Runs the chat turn by turn to its end.
    async fn conversation(&mut self) -> Result<End, Failure> {
        loop {
            if stream::is_lost() {
                // Nothing more is asked for that could not be shown.
                return Ok(End::Quit);
            }
            let prompt = if self.begun.is_empty() { "You: " } else { "...  " };
            let entered = tokio::select! {
                biased;
                received = self.signals.next() => Err(received),
                entered = self.lines.next_message(prompt) => match entered {
                    LineInput::Typed(typed) => Ok(typed),
                    LineInput::Interrupt => Err(ReceivedSignal::Interrupt),
                },
            };
            let typed = match entered {
                Ok(typed) => typed,
                Err(ReceivedSignal::Interrupt) if !self.is_warned => {
                    self.is_warned = true;
                    self.begun.clear();
                    note("");
                    note("press Ctrl-C again, or Ctrl-D, to end the chat");
                    continue;
                }
                Err(received) => {
                    note("");
                    return Ok(End::Signal(received));
                }
            };
            self.is_warned = false;
            match self.stated(typed)? {
                LineAction::Nothing => {}
                LineAction::Quit => return Ok(End::Quit),
                LineAction::Message(text) => {
                    if let Some(end) = self.turn(TurnInput::Message(text)).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    fn stated(&mut self, typed: TypedInput) -> Result<LineAction, Failure> {
        let line = match typed {
            TypedInput::Line(line) => line,
            // Pasted text is a message, also where it looks like a command.
            TypedInput::Pasted(text) => {
                let text = text.trim();
                if text.is_empty() {
                    return Ok(LineAction::Nothing);
                }
                self.lines.remember(text);
                return Ok(LineAction::Message(text.to_owned()));
            }
            TypedInput::Rest => {
                note("this is the rest of a text that was pasted before, and is left out");
                return Ok(LineAction::Nothing);
            }
            TypedInput::TooLong => {
                let max = self.item_bytes_max;
                let limit = format!(
                    "more than {max} bytes, which is the domain's limit of a work item; shorten it, or raise \
                     `item.max_bytes` in loopgate.toml"
                );
                // What follows in a pipe was written to follow this line.
                if !self.lines.is_terminal() {
                    return Err(Failure::new(format!("standard input: a line has {limit}")));
                }
                note(format!("a message has {limit}"));
                return Ok(LineAction::Nothing);
            }
            TypedInput::Unreadable => {
                note("this line is not UTF-8 text and is ignored");
                return Ok(LineAction::Nothing);
            }
            TypedInput::End => {
                if self.lines.is_terminal() {
                    note("");
                }
                return Ok(LineAction::Quit);
            }
        };
        if let Some(begun) = line.strip_suffix('\\') {
            self.begun.push_str(begun);
            self.begun.push('\n');
            return Ok(LineAction::Nothing);
        }
        let is_first = self.begun.is_empty();
        let line = std::mem::take(&mut self.begun) + &line;
        let text = line.trim();
        if text.is_empty() {
            return Ok(LineAction::Nothing);
        }
        self.lines.remember(text);
        if !text.starts_with('/') || !is_first {
            return Ok(LineAction::Message(text.to_owned()));
        }
        match text {
            "/quit" | "/exit" => return Ok(LineAction::Quit),
            "/help" => HELP.lines().for_each(note),
            "/bill" => note(self.session.to_string()),
            "/clear" => {
                self.messages.clear();
                note("what was said is forgotten");
            }
            "/history" => self.history(),
            "/limits" => note(&self.limits),
            "/tools" => self.tools(),
            "/model" => note(self.model()),
            changed if let Some(model) = changed.strip_prefix("/model ") => {
                match self.change_model(model.trim()) {
                    Ok(()) => note(format!("{}, from the next turn on", self.model())),
                    Err(failure) => note(format!("{}; the model stays", failure.line())),
                }
            }
            "/approve" | "/deny" => note("nothing waits for an answer; an action that needs one asks here"),
            other => note(format!("unknown command `{other}`; /help lists the commands")),
        }
        Ok(LineAction::Nothing)
    }

    /// Runs one turn: a run that answers a message. Returns the reason if the chat ends.
    async fn turn(&mut self, asked: TurnInput) -> Result<Option<End>, Failure> {
        let Self {
            runner,
            stored,
            journal,
            signals,
            lines,
            messages,
            session,
            is_warned,
            is_in_doubt,
            is_undone,
            ..
        } = self;
        let before = messages.len();
        let is_new = matches!(asked, TurnInput::Message(_));
        let (mut view, request) = match asked {
            TurnInput::Message(text) => {
                messages.push(Message::user(text));
                (TurnView::new(runner.spec(), None), runner.chat(&mut *messages))
            }
            TurnInput::Unfinished(begun, mut said) => {
                let own = said.remove(begun.id()).unwrap_or_default();
                let begun = if own.is_empty() { *begun } else { runner.note_down(begun.id(), own).await? };
                let request = runner.clone().having_said(said).chat(&mut *messages).resume(begun.id());
                (TurnView::new(runner.spec(), Some(begun)), request)
            }
        };
        let mut run = request.events().await?;
        let remote = run.remote();
        let _listening = Listening::to(stored, run.id(), remote.clone());
        let mut requested = None;
        // What ends the chat once the turn has ended.
        let mut ends = None;
        loop {
            let event = tokio::select! {
                biased;
                received = signals.next() => {
                    if stop(received, is_warned, &mut ends, &remote, &mut view) {
                        return Ok(Some(End::Signal(received)));
                    }
                    continue;
                }
                event = run.next() => match event {
                    Some(event) => event.into_run(),
                    None => break,
                },
                () = tokio::time::sleep(STATUS) => {
                    view.live.status();
                    None
                }
            };
            event.iter().for_each(|event| view.show(event));
            if *is_warned || ends.is_some() || !lines.is_answered() {
                continue;
            }
            if let Some((action, details)) = view.question(runner.manifest(), requested) {
                requested = Some(action.key);
                view.live.end_line();
                screen::hide();
                tokio::select! {
                    biased;
                    received = signals.next() => {
                        note("");
                        if stop(received, is_warned, &mut ends, &remote, &mut view) {
                            return Ok(Some(End::Signal(received)));
                        }
                    }
                    answer = ask(lines, &action, &details) => {
                        let answer = answer.unwrap_or_else(|| denied("the input ended before an answer"));
                        remote.answer_as_shown(action.key, answer, action.binding);
                    }
                }
            }
        }
        let meta = run.finish().await;
        screen::hide();
        if lines.is_answered() && ends.is_none() && meta.reason() == StopReason::NeedsHuman {
            let run = &meta.outcome.run;
            let asks = asking(stored, run).await?;
            view.live.end_line();
            if let Some(said) = ask_all(lines, signals, &asks).await.filter(|said| !said.is_empty()) {
                let begun = FoundRun::read(Arc::clone(stored), run).await?.run;
                return Box::pin(self.turn(TurnInput::Unfinished(Box::new(begun), said))).await;
            }
        }
        session.add(&meta);
        *is_in_doubt |= meta.outcome.stop.also_has(StopReason::InDoubt);
        *is_undone |= meta.outcome.stop.also_has(StopReason::EffectNotDone);
        let waits = view.waiting(runner.manifest(), journal.as_deref());
        if let Some(words) = &waits {
            view.live.end_line();
            words.lines().for_each(note);
            note("");
            note(
                "waiting: a person has to answer, and standard input is not a terminal, so nothing in it is an answer",
            );
            note(format!(
                "to continue: loopgate chat --continue {}{}",
                meta.outcome.run,
                at_journal(journal.as_deref())
            ));
        } else {
            view.finish(runner.spec(), &meta.outcome);
        }
        doubts(&meta.outcome);
        warned(&meta.outcome);
        if let Some(received) = ends {
            return Ok(Some(End::Signal(received)));
        }
        if waits.is_some() {
            return Ok(Some(End::Waiting));
        }
        let has_room = !matches!(meta.reason(), StopReason::MaxMessages | StopReason::TokenLimit);
        if !has_room && meta.totals.passes == 0 && is_new {
            // What came before stays as it was, so that another question can be put.
            messages.truncate(before);
            let clear = if before > 0 { "; /clear forgets what was said before it" } else { "" };
            note(format!("the question is not kept, since nothing could answer it{clear}"));
        }
        Ok(None)
    }

    fn model(&self) -> String {
        let base = &self.runner.spec().models.base;
        format!("model: {}/{}", base.provider, base.model)
    }

    /// Changes the base model of the next turns. Fails during a recording, which is for one domain.
    fn change_model(&mut self, model: &str) -> Result<(), Failure> {
        if self.record.is_some() {
            return Err(Failure::new("the chat is recorded, with one model"));
        }
        let mut arguments = self.arguments.clone();
        arguments
            .settings
            .models
            .retain(|text| tiered::model(text).is_ok_and(|(tier, _)| tier != Tier::Base));
        arguments.settings.models.push(model.to_owned());
        let domain = loaded(&arguments, None, &self.cwd)?;
        let answered = self.lines.is_answered();
        self.runner = runner(&domain, &arguments, self.cwd.clone(), &self.stored, answered)?;
        (self.arguments, self.limits) = (arguments, domain.limits_in_words());
        places::say_prices(&domain);
        Ok(())
    }

    fn tools(&self) {
        let spec = self.runner.spec();
        let offered: Vec<_> = spec.tools.iter().filter(|tool| !is_forbidden(spec, tool)).collect();
        if offered.is_empty() {
            note("there are no tools");
        }
        for tool in offered {
            note(format!("{}  ({}): {}", tool.name, tool.effect.name(), tool.description));
        }
    }

    fn history(&self) {
        if self.messages.is_empty() {
            note("nothing was said yet");
        }
        // What was typed is kept as it was: it is masked when a run reads it.
        let shown = |text: &str| cut(&self.runner.secrets().mask(text), MAX_SHOWN);
        for message in &self.messages {
            match message {
                Message::User { text, .. } => note(format!("you:    {}", shown(text))),
                Message::Operator { text } => note(format!("rules:  {}", shown(text))),
                Message::Assistant(turn) => {
                    if !turn.text.trim().is_empty() {
                        note(format!("agent:  {}", shown(&turn.text)));
                    }
                    for call in &turn.calls {
                        let arguments = shown(call.arguments.text());
                        note(format!("calls:  {} {arguments}", call.name));
                    }
                }
                Message::Tool { results } => {
                    for result in results {
                        note(format!("result: {}", shown(&result.text)));
                    }
                }
            }
        }
    }
}

/// Stops the turn at the first signal. A first Ctrl-C ends the turn alone, another signal the chat after it; true where
/// it is the second one, which ends the chat at once.
fn stop(
    received: ReceivedSignal,
    is_warned: &mut bool,
    ends: &mut Option<ReceivedSignal>,
    remote: &Remote,
    view: &mut TurnView,
) -> bool {
    remote.stop(StopMode::Now);
    view.live.end_line();
    if ends.is_some() || std::mem::replace(is_warned, true) {
        return true;
    }
    if received == ReceivedSignal::Interrupt {
        note("stopping; press Ctrl-C again to end the chat");
    } else {
        *ends = Some(received);
    }
    false
}

/// How often a turn without output shows its status.
const STATUS: Duration = Duration::from_millis(250);

/// The usage of a whole chat.
#[derive(Debug, Default)]
struct Session {
    turns: u32,
    totals: Totals,
}

impl Session {
    fn add(&mut self, meta: &Meta) {
        let (sum, one) = (&mut self.totals, &meta.totals);
        self.turns += 1;
        sum.passes += one.passes;
        sum.model_calls += one.model_calls;
        sum.tool_calls += one.tool_calls;
        sum.sub_calls += one.sub_calls;
        sum.usage = sum.usage.plus(&one.usage);
        sum.cost.known = PicoUsd::plus(sum.cost.known, one.cost.known);
        sum.cost.unknown_calls += one.cost.unknown_calls;
        sum.wall_ms += one.wall_ms;
    }
}

impl std::fmt::Display for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.turns {
            0 => f.write_str("session: nothing was asked"),
            turns => write!(f, "session: {}, {}", counted(turns, "turn"), bill(&self.totals)),
        }
    }
}

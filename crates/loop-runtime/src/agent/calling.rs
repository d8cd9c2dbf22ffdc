//! From messages to a run, and from the run back to the messages.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use loop_core::{RunId, WorkItem, is_blank};
use loop_llm::Message;
use tokio_util::sync::CancellationToken;

use crate::agent::error::Meta;
use crate::driver::{Ended, Opening, Pace};
use crate::events::RunEvent;
use crate::handle::Remote;
use crate::parts::{Loop, StartError};
use crate::stream::RunStream;

/// A run that answers the last of `messages`.
pub(super) async fn open(looping: &Loop, messages: &[Message]) -> Result<Opening, StartError> {
    let (item, history) = begin_with(messages)?;
    looping.open(item, history).await
}

/// Drives such a run to its end, or until it is cancelled and has ended for that.
pub(super) async fn drive(
    looping: &Loop,
    messages: &[Message],
    cancel: &CancellationToken,
) -> Result<Ended, StartError> {
    let opening = open(looping, messages).await?;
    let (driver, events, remote) = looping.driver(opening, Pace::Own);
    // Nobody reads them, and nobody else can stop it.
    drop((events, remote));
    Ok(driver.until(cancel).drive().await)
}

/// Takes up a run whose driver is gone; `messages` become everything that was said, those before the run as well.
pub(super) async fn resume(
    looping: &Loop,
    run: &RunId,
    messages: &mut Vec<Message>,
) -> Result<Meta, StartError> {
    let opening = looping.reopen(run).await?;
    *messages = opening.history.to_vec();
    let (driver, events, remote) = looping.driver(opening, Pace::Own);
    drop((events, remote));
    let Ended { outcome, messages: said, thrown, tools, .. } = driver.drive().await;
    messages.extend(said);
    Ok(Meta::new(outcome, thrown, tools))
}

/// Appends what was said and done.
pub(super) fn append(ended: Ended, messages: &mut Vec<Message>) -> Meta {
    let Ended { outcome, messages: said, thrown, tools, .. } = ended;
    // A single text is the run's own first message.
    let known = usize::from(is_item(messages));
    messages.extend(said.into_iter().skip(known));
    Meta::new(outcome, thrown, tools)
}

/// The work item that messages come to, and those that the run goes on from. A single text is the item itself.
pub(crate) fn begin_with(messages: &[Message]) -> Result<(WorkItem, Vec<Message>), StartError> {
    let unusable = |message: &str| StartError::History { message: message.to_owned() };
    let blank = || StartError::Blank { kind: MESSAGE.into() };
    let text = match messages.last() {
        None => return Err(unusable("there are none; begin with Message::user")),
        Some(Message::Assistant(_)) => {
            return Err(unusable(
                "the last one is the model's own, so there is nothing to answer; add a Message::user, for example \"Go on.\"",
            ));
        }
        Some(Message::User { text, images }) if images.is_empty() && is_blank(text) => return Err(blank()),
        Some(Message::Operator { text }) if is_blank(text) => return Err(blank()),
        Some(Message::User { text, .. } | Message::Operator { text }) => text.clone(),
        Some(Message::Tool { .. }) => "".into(),
    };
    let mut title: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = title.char_indices().nth(TITLE_CHARS) {
        title.truncate(cut);
        title.push('…');
    }
    let item = WorkItem::message("message", title, &text);
    let history = if is_item(messages) { Vec::new() } else { messages.to_vec() };
    Ok((item, history))
}

/// Whether the messages are one text, which the run takes for its item.
fn is_item(messages: &[Message]) -> bool {
    matches!(messages, [Message::User { images, .. }] if images.is_empty())
}

/// What a message is called where it is blank.
const MESSAGE: &str = "message";
/// How much of a message stands in lists of runs.
const TITLE_CHARS: usize = 80;

/// An agent at work, as a stream of events: it goes on only while it is polled.
///
/// The messages are as they were until [`finish`](Self::finish) gives what it came to.
#[must_use = "a stream does nothing unless it is polled"]
#[derive(Debug)]
pub struct AgentStream<'a> {
    run: RunStream,
    messages: &'a mut Vec<Message>,
}

impl<'a> AgentStream<'a> {
    pub(crate) async fn begin(looping: &Loop, messages: &'a mut Vec<Message>) -> Result<Self, StartError> {
        let opening = open(looping, messages).await?;
        Ok(Self { run: RunStream::new(looping.begin(opening, Pace::InStep)), messages })
    }

    /// A way to stop it and to answer its questions; heard at the next poll.
    pub fn remote(&self) -> Remote {
        self.run.remote()
    }

    /// Goes on to the end, whatever is still to be heard; appends what was said and done to the messages, and tells how
    /// it ended. The answer is [`Meta::outcome`]'s.
    pub async fn finish(self) -> Meta {
        append(self.run.into_all().await, self.messages)
    }
}

impl Stream for AgentStream<'_> {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        Pin::new(&mut self.run).poll_next(context)
    }
}

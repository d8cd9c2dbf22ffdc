//! From messages to a run, and from the run back to the messages.

use loop_core::WorkItem;
use loop_core::types::is_blank;
use loop_llm::Message;
use loop_llm::request::Author;

use crate::agent::error::Meta;
use crate::drive::driver::DriverEnd;
use crate::drive::start_error::StartError;

/// How what was said and done in a run is appended to the messages that it answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageAppender {
    /// How many of the run's own messages are among them already.
    known: usize,
}

impl MessageAppender {
    /// To messages of which the last is to be answered. A single text is the run's own first message.
    pub(crate) fn to(messages: &[Message]) -> Self {
        Self { known: usize::from(is_item(messages)) }
    }

    /// Appends it, and tells how the run ended.
    pub(crate) fn append(self, ended: DriverEnd, messages: &mut Vec<Message>) -> Meta {
        let DriverEnd { outcome, messages: stated, step_errors, tools, .. } = ended;
        messages.extend(stated.into_iter().skip(self.known));
        Meta::new(outcome, step_errors, tools)
    }
}

/// The work item that messages come to, and those that the run continues from. A single text is the item itself.
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
        // What the loop worded is not what a user asks for.
        Some(Message::User { author: Author::Runner, .. }) => "".into(),
        Some(Message::User { text, images, .. }) if images.is_empty() && is_blank(text) => {
            return Err(blank());
        }
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
    matches!(messages, [Message::User { images, author: Author::User, .. }] if images.is_empty())
}

/// What a message is called where it is blank.
const MESSAGE: &str = "message";
/// How many characters of a message lists of runs show.
const TITLE_CHARS: usize = 80;

//! The smart-tool filter: a model call that selects which results of a tool matter to a work item.

use loop_llm::Message;
use minijinja::Value;

use crate::template::FILTER;
use crate::text::line;
use crate::{Prompt, Prompts};

/// A smart tool's question to a model about its own results.
#[derive(Clone, Copy, Debug)]
pub struct FilterQuestion<'a> {
    /// The work item's title.
    pub title: &'a str,
    /// What the tool was asked to look for. `None`: nothing in particular.
    pub target: Option<&'a str>,
    /// What makes a result relevant, in the words of the tool's author. `None`: nothing beyond the title and the
    /// target.
    pub instruction: Option<&'a str>,
    /// One line for each result. Its position is the index by which the model selects it.
    pub results: &'a [String],
    /// The maximum bytes of the prompt. Results beyond it are left out from the end.
    pub bytes: u64,
}

impl Prompts {
    /// The prompt of a filter call, with as many results as the granted bytes allow.
    ///
    /// If they do not even allow the rules and the title, the prompt has no results, and the call should not be made.
    pub fn filter(&self, question: FilterQuestion<'_>) -> Prompt {
        let lines = question.results.iter().enumerate().map(|(n, result)| format!("{n}: {}", line(result)));
        let lines: Vec<String> = lines.collect();
        let bare = self.filter_of(question, &[]);
        let mut left = question.bytes.saturating_sub(bare.size.bytes);
        let fit = lines.iter().take_while(|line| match left.checked_sub(line.len() as u64 + 1) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        });
        // A template may show the results more than once, so fewer fit.
        let mut shown = fit.count();
        while shown > 0 {
            let prompt = self.filter_of(question, lines.get(..shown).unwrap_or_default());
            if prompt.size.bytes <= question.bytes {
                return prompt;
            }
            shown /= 2;
        }
        bare
    }

    fn filter_of(&self, question: FilterQuestion<'_>, results: &[String]) -> Prompt {
        let variables = [
            ("title", Value::from(line(question.title))),
            ("target", Value::from(line(question.target.unwrap_or_default()))),
            ("instruction", Value::from(line(question.instruction.unwrap_or_default()))),
            ("results", Value::from(results.join("\n"))),
        ];
        let system = self.templates().system(&FILTER, &variables);
        let user = self.templates().user(&FILTER, &variables);
        Prompt::of(system.into(), vec![Message::user(user)])
    }
}

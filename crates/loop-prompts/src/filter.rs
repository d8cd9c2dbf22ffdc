//! The smart-tool filter: which of many results matter to a work item (S0-73).

use minijinja::Value;

use crate::template::FILTER;
use crate::text::{clean, line};
use crate::{Prompt, Prompts, Turn};

/// What a smart tool asks a model about its own results.
#[derive(Clone, Copy, Debug)]
pub struct FilterQuestion<'a> {
    /// The work item's title.
    pub title: &'a str,
    /// What the tool was asked to look for.
    pub target: Option<&'a str>,
    /// One line a result; its place is its index.
    pub results: &'a [String],
    /// The most bytes of input that were granted: results beyond it are left out from the end.
    pub bytes: u64,
}

impl Prompts {
    /// The prompt of a filter call, within the granted bytes.
    pub fn filter(&self, question: FilterQuestion<'_>) -> Prompt {
        let lines: Vec<String> = question
            .results
            .iter()
            .enumerate()
            .map(|(n, result)| format!("{n}: {}", line(result)))
            .collect();
        let mut shown = lines.len();
        loop {
            let results = clean(&lines.get(..shown).unwrap_or_default().join("\n"));
            let variables = [
                ("title", Value::from(line(question.title))),
                ("target", Value::from(line(question.target.unwrap_or_default()))),
                ("results", Value::from(results)),
            ];
            let system = self.templates().system(&FILTER, &variables);
            let user = self.templates().user(&FILTER, &variables);
            let prompt = Prompt::of(system.into(), vec![Turn::User(user.into())]);
            if prompt.size.bytes <= question.bytes || shown == 0 {
                return prompt;
            }
            // Halving keeps the number of renderings small.
            shown /= 2;
        }
    }
}

//! The label part of a run's page, and the eval case that the run can become.

use loop_runtime::journal::label::RunLabel;
use maud::{Markup, html};

use crate::pages::runs::encoded;
use crate::pages::text::{t, time};

/// The label of a run that has ended, and what the reader of its page may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelPart {
    /// The label. `None`: none.
    pub label: Option<RunLabel>,
    /// The CSRF token, for the hidden field `csrf`. Empty: the reader may not label the run, and there is no form.
    pub csrf: String,
    /// Whether the reader may download the run as an eval case.
    pub makes_case: bool,
}

impl LabelPart {
    pub(super) fn html(&self, run: &str) -> Markup {
        let name = self.label.as_ref().map_or("none", |label| label.label.name());
        let look = if name == "none" { "plain" } else { name };
        html! {
            @if *self != Self::default() {
                details.more #label {
                    summary { "Label " strong.pill.(look) { (name) } }
                    @if let Some(RunLabel { note, by, unix_ms, .. }) = &self.label {
                        @if !note.is_empty() { p { (t(note)) } }
                        p.quiet { "by " (t(by)) ", " (time(*unix_ms)) " UTC" }
                    }
                    @if !self.csrf.is_empty() {
                        form.decide method="post" action={ "/runs/" (encoded(run)) "/label" } {
                            input type="hidden" name="csrf" value=(t(&self.csrf));
                            label for="label-note" { "What was it worth, and why" }
                            input #label-note type="text" name="note" maxlength="2000" autocomplete="off" aria-describedby="label-hint";
                            p.quiet #label-hint { "The reason may be empty. Labelled runs count for the calibration of the confidence, and a backtest says what becomes of them." }
                            div.buttons {
                                button type="submit" name="label" value="good" { "Good" }
                                button type="submit" name="label" value="bad" { "Bad" }
                                @if self.label.is_some() { button type="submit" name="label" value="none" { "Remove the label" } }
                            }
                        }
                    }
                    @if self.makes_case {
                        p {
                            a href={ "/runs/" (encoded(run)) "/case" } { "Make a case of this run" }
                            ": a file for the folder " code { "evals" } " of the domain, with its item, replies and results. Read it before you share it."
                        }
                    }
                }
            }
        }
    }
}

//! The forms of a run's page: stop, resume, instruct, fork and retry. They work without scripts. A caller sees only the
//! forms that they may send.

use maud::{Markup, html};

use super::runs::encoded;
use super::text::t;

/// What the reader of a run's page can do with the run.
#[derive(Clone, Debug, Default)]
pub(super) struct RunActs {
    /// Its id.
    pub(super) run: String,
    /// The CSRF token. Empty: the caller may not steer the run, and there is no form.
    pub(super) csrf: String,
    /// A unique value of this page, so that a form that is sent twice begins one run.
    pub(super) once: String,
    /// Whether something waits for a person.
    pub(super) waits: bool,
    /// Whether the caller may decide that.
    pub(super) may_decide: bool,
    /// The stage of the run.
    pub(super) stage: Stage,
    /// Whether it has ended, so that it has an outcome.
    pub(super) has_ended: bool,
    /// The run at the root of the tree, if another run called this one.
    pub(super) root: Option<String>,
    /// Whether a fork can begin here.
    pub(super) can_fork: bool,
    /// Whether it can be retried with its evidence.
    pub(super) can_retry: bool,
    /// The settings that a caller may change, as dotted keys.
    pub(super) settings: Vec<String>,
    /// The event that the page shows. `None`: the last.
    pub(super) at: Option<u64>,
    /// The number of its last event.
    pub(super) last: u64,
}

/// The stage of a run, as far as it decides which forms there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is in the queue.
    Queued,
    /// It is in progress, or waits for a person.
    Open,
    /// It has to be resumed.
    Interrupted,
    /// A durable engine drives it, so this server cannot act on it.
    OnEngine,
    /// It has ended.
    #[default]
    Ended,
}

impl RunActs {
    /// The link to pending requests, which stays in view.
    pub(super) fn waits(&self) -> Markup {
        html! {
            div #waits.waits[self.waits] data-state=(self.waits) {
                @if self.waits {
                    a.button.primary href={ "/runs/" (encoded(&self.run)) "/approve" } {
                        @if self.may_decide { "Decide" } @else { "See what waits" }
                    }
                    span { "This run waits for a person." }
                }
            }
        }
    }

    /// The forms, and the links to the run's files.
    pub(super) fn html(&self) -> Markup {
        let may = !self.csrf.is_empty();
        let is_open = matches!(self.stage, Stage::Queued | Stage::Open | Stage::Interrupted);
        let is_whole = self.root.is_none();
        html! {
            div #acts.acts data-state=(format!("{:?}", self.stage)) {
                @if may && is_open && is_whole { (self.stop()) }
                @if may && matches!(self.stage, Stage::Open | Stage::Interrupted) { (self.tell()) }
                @if may && self.stage == Stage::Interrupted {
                    (folded("resume", "Resume", &self.form("resume", &html! {
                        p.quiet { "It continues where it was interrupted." }
                        button.primary type="submit" { "Resume" }
                    })))
                }
                @if may && self.can_fork && is_whole && self.stage != Stage::Queued { (self.fork()) }
                @if may && self.can_retry && is_whole && self.stage == Stage::Ended { (self.retry()) }
                @if self.stage != Stage::Queued { (self.files()) }
                @if let Some(root) = self.root.as_ref().filter(|_| may) {
                    p.quiet { "It is a part of run " a href={ "/runs/" (encoded(root)) } { (t(root)) } ", where it is stopped, forked and retried." }
                }
            }
        }
    }

    /// A form that posts to the run.
    fn form(&self, act: &str, fields: &Markup) -> Markup {
        html! {
            form method="post" action={ "/runs/" (encoded(&self.run)) "/" (act) } {
                input type="hidden" name="csrf" value=(t(&self.csrf));
                (fields)
            }
        }
    }

    fn stop(&self) -> Markup {
        let fields = html! {
            p.quiet { "At the next gate nothing new is started, and what is in flight settles. Now cancels what is in flight." }
            div.buttons {
                button.primary type="submit" name="mode" value="gate" { "Stop at the next gate" }
                button type="submit" name="mode" value="now" { "Stop now" }
            }
        };
        folded("stop", "Stop", &self.form("stop", &fields))
    }

    fn tell(&self) -> Markup {
        let fields = html! {
            label for="tell-text" { "Instruction" }
            textarea #tell-text name="text" rows="3" required aria-describedby="tell-hint" {}
            p.quiet #tell-hint { "The next pass reads it. It stays in the record of the run." }
            button.primary type="submit" { "Send" }
        };
        folded("tell", "Tell", &self.form("instructions", &fields))
    }

    fn fork(&self) -> Markup {
        let fields = html! {
            p.quiet { "A new run continues from here. No effect that this run started later is repeated without an approval." }
            label for="fork-entry" { "After event" }
            input #fork-entry type="number" name="entry" min="0" max=(self.last) value=[self.at] aria-describedby="fork-hint";
            p.quiet #fork-hint { "From 0 to " (self.last) ". Empty: the last one where nothing is in flight." }
            (self.settings("fork"))
            input type="hidden" name="once" value=(t(&self.once));
            button.primary type="submit" { "Fork" }
        };
        folded("fork", "Fork", &self.form("fork", &fields))
    }

    fn retry(&self) -> Markup {
        let fields = html! {
            p.quiet { "A new run does the work again. It knows the evidence of this one, and repeats none of its effects." }
            (self.settings("retry"))
            input type="hidden" name="once" value=(t(&self.once));
            button.primary type="submit" { "Retry" }
        };
        folded("retry", "Retry", &self.form("retry", &fields))
    }

    /// The fields for the settings that the domain lets a caller change.
    fn settings(&self, of: &str) -> Markup {
        html! {
            @if !self.settings.is_empty() {
                div.fields role="group" aria-label="Settings" {
                    p.quiet { "Settings. Empty: as in this run. A limit can only be lowered." }
                    @for key in &self.settings {
                        @let id = format!("{of}-{key}");
                        label for=(t(&id)) { (t(key)) }
                        input id=(t(&id)) type="text" name={ "set." (t(key)) } autocomplete="off";
                    }
                }
            }
        }
    }

    fn files(&self) -> Markup {
        let at = format!("/runs/{}", encoded(&self.run));
        folded(
            "files",
            "Download",
            &html! {
                ul {
                    li { a href={ (at) "/document.md" } { "Document (Markdown)" } }
                    li { a href={ (at) "/page.html" } { "This page as one file (HTML)" } }
                    @if self.has_ended { li { a href={ (at) "/outcome.json" } { "Outcome (JSON)" } } }
                }
            },
        )
    }
}

fn folded(id: &str, title: &str, content: &Markup) -> Markup {
    html! { details id={ "act-" (id) } { summary { (title) } (content) } }
}

/// The file name for a run: letters, digits and `-` of its item, and the end of its id, so that it is a valid name on
/// every system.
pub(super) fn file_name(item: &str, run: &str, ending: &str) -> String {
    let mut name = String::new();
    for c in item.chars().take(MAX_NAME) {
        match c {
            c if c.is_ascii_alphanumeric() => name.push(c),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
    }
    let name = if name.is_empty() { "run" } else { name.trim_end_matches('-') };
    let run: Vec<char> = run.chars().filter(char::is_ascii_alphanumeric).collect();
    let short: String = run.iter().skip(run.len().saturating_sub(8)).collect();
    format!("{name}-{short}.{ending}")
}

/// The most characters of the item in a file name.
const MAX_NAME: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_that_every_system_takes_whatever_the_item_is_called() {
        for (item, name) in [
            ("T-1042 Backup failed", "T-1042-Backup-failed-34567890.md"),
            ("../../etc/passwd\0", "etc-passwd-34567890.md"),
            ("a\"; filename=\"x.exe\r\nSet-Cookie: a=1", "a-filename-x-exe-Set-Cookie-a-1-34567890.md"),
            ("\u{202e}txt.exe", "txt-exe-34567890.md"),
            ("CON.md", "CON-md-34567890.md"),
            ("Отчёт", "run-34567890.md"),
            ("", "run-34567890.md"),
        ] {
            assert_eq!(file_name(item, "0123-4567890", "md"), name, "{item}");
        }
        assert!(file_name(&"x".repeat(5_000), "r", "md").len() < 100);
    }
}

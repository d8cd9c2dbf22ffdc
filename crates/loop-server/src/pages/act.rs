//! What a person can do with a run from its page. Each is a form that works without scripts, and a caller sees those alone
//! that they may send.

use maud::{Markup, html};

use super::runs::encoded;
use super::text::t;

/// What can be done with a run, by the caller who sees its page.
#[derive(Clone, Debug, Default)]
pub(super) struct RunActs {
    /// Its id.
    pub(super) run: String,
    /// The token against forged requests. Empty: the caller may not steer the run, and there is no form.
    pub(super) csrf: String,
    /// What no other page has: a form that is sent twice begins one run.
    pub(super) once: String,
    /// Whether something waits for a person.
    pub(super) waits: bool,
    /// Whether the caller may decide that.
    pub(super) may_decide: bool,
    /// What it does now.
    pub(super) stage: Stage,
    /// Whether it has ended, so that it has an outcome.
    pub(super) has_ended: bool,
    /// The run at the top of the tree, of one that another run called.
    pub(super) root: Option<String>,
    /// Whether another run can begin from it here.
    pub(super) can_fork: bool,
    /// Whether its work can be done again with its evidence.
    pub(super) can_retry: bool,
    /// The settings that a caller may give, as dotted keys.
    pub(super) settings: Vec<String>,
    /// The event that the page shows. `None`: the last.
    pub(super) at: Option<u64>,
    /// The number of its last event.
    pub(super) last: u64,
}

/// What a run does, as far as it decides what can be done with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits in the queue.
    Queued,
    /// It is under way, or waits for a person.
    Open,
    /// It continues once it is resumed.
    Interrupted,
    /// A durable engine drives it, and takes no orders from here.
    OnEngine,
    /// It has ended.
    #[default]
    Ended,
}

impl RunActs {
    /// The way to what waits, which stays in view.
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

    /// The forms, and the files of the run.
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

    /// A form that is posted to the run.
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

    /// The settings that the domain lets a caller give.
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

/// The name of a file of a run: letters, digits and `-` of its item, and the end of its id, so that every system takes it
/// as one name that is not reserved.
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

/// Characters of an item that a file is named by.
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

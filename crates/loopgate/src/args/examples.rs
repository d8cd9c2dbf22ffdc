//! Adds examples to the help of each command, from `examples.txt`: a line with the command, then its examples.

use clap::Command;

const EXAMPLES: &str = include_str!("examples.txt");

/// The examples of a command, by its names without that of the program.
fn of(command: &str) -> Option<&'static str> {
    let mut parts = EXAMPLES.split("\n\n").filter_map(|part| part.trim().split_once('\n'));
    parts.find_map(|(name, examples)| (name == command).then_some(examples))
}

/// Adds examples to the help of each subcommand, before the text after the options. `path` has the names of the parent
/// commands.
pub(crate) fn with_examples(command: Command, path: &str) -> Command {
    let path = format!("{path} {}", command.get_name()).trim().to_owned();
    let command = command.mut_subcommands(|command| with_examples(command, &path));
    let Some(examples) = of(path.trim_start_matches("loopgate ")) else { return command };
    let title = *command.get_styles().get_header();
    let after = command.get_after_help().map_or_else(String::new, |after| format!("\n\n{}", after.ansi()));
    let examples = examples.replace('\n', "\n  ");
    command.after_help(format!("{title}Examples:{title:#}\n  {examples}{after}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::args::behind_the_command;

    /// The words of an example as a shell splits them, up to a redirection.
    fn words(example: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
        for c in example.chars() {
            match c {
                '\'' => (quoted, word) = (!quoted, Some(word.unwrap_or_default())),
                ' ' if !quoted => words.extend(word.take()),
                c => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        let end = words.iter().position(|word| matches!(&**word, ">" | ">>" | "|" | "<"));
        words.truncate(end.unwrap_or(words.len()));
        words
    }

    /// Every command without subcommands, by its names.
    fn leaves(command: &Command, path: &str, all: &mut Vec<String>) {
        for below in command.get_subcommands() {
            let path = format!("{path} {}", below.get_name()).trim().to_owned();
            if !below.is_subcommand_required_set() && below.get_name() != "help" {
                all.push(path.clone());
            }
            leaves(below, &path, all);
        }
    }

    /// Errors in the examples of a program: each command needs two, and must parse them.
    pub(crate) fn wrong(program: &Command) -> Vec<String> {
        let mut all = Vec::new();
        leaves(program, "", &mut all);
        assert!(all.len() > 50, "{all:?}");
        let mut wrong = Vec::new();
        for command in &all {
            let examples: Vec<&str> = of(command).unwrap_or_default().lines().collect();
            if examples.len() < 2 {
                wrong.push(format!("{command}: {} examples", examples.len()));
            }
            for example in examples {
                let program = program.clone();
                let line = words(example).into_iter().map(Into::into);
                let (line, _) = behind_the_command(&program, line);
                match program.try_get_matches_from(line) {
                    Ok(found) => {
                        let (mut found, mut names) = (found, Vec::new());
                        while let Some((name, below)) = found.remove_subcommand() {
                            names.push(name);
                            found = below;
                        }
                        if names.join(" ") != **command {
                            wrong.push(format!("{command}: `{example}` is of `{}`", names.join(" ")));
                        }
                    }
                    Err(error) => wrong.push(format!("{command}: `{example}`: {error}")),
                }
            }
        }
        let known = |part: &str| all.iter().any(|name| part.trim_start().lines().next() == Some(name));
        wrong.extend(
            EXAMPLES.split("\n\n").filter(|part| !known(part)).map(|part| format!("no command: {part}")),
        );
        wrong
    }
}

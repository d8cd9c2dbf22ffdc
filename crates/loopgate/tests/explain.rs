//! The pages `docs/how-to/explain.md` and `docs/how-to/backtest.md`: their commands are run, and what they print is
//! compared with them. `UPDATE_EXPLAIN=1` writes what they print into them; read the difference before you keep it.

use crate::common::{Shell, root};

/// What differs between two equal runs, under one name: ids and times.
fn timeless(text: &str, runs: &[String]) -> String {
    let mut text = text.to_owned();
    // The last run is RUN. On the way to a comparison, the one before it is the first.
    if let [.., before, last] = runs {
        let (first, second) = if text.starts_with("- ") { ("RUN", "OTHER") } else { ("OTHER", "RUN") };
        text = text.replace(before, first).replace(last, second);
    } else if let [last] = runs {
        text = text.replace(last, "RUN");
    }
    let lines = text.lines().map(|line| match line.trim_start().strip_prefix("limits.wall_ms ") {
        Some(rest) if rest.contains(" ms of ") => {
            let limit = rest.split_once(" ms of ").unwrap().1;
            format!("  {:<20} TIME of {limit}", "limits.wall_ms")
        }
        _ => line.to_owned(),
    });
    let mut is_table = false;
    let lines = lines.map(move |line| {
        // The seconds that a policy saves are the last column of its row.
        let row = is_table.then(|| line.rsplit_once(' ')).flatten();
        is_table = line.starts_with("policy ") || is_table && !line.is_empty();
        row.map_or_else(|| line.clone(), |(row, _)| format!("{} TIME", row.trim_end()))
    });
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Runs the commands of one block. What the last one prints is the block's output; runs before it print nothing here.
fn played(shell: &Shell, commands: &[&str], runs: &mut Vec<String>) -> String {
    let mut output = String::new();
    for command in commands {
        let mut args: Vec<String> = command.split(' ').skip(1).map(str::to_owned).collect();
        let [first, other] = [2, 1].map(|back| runs.len().checked_sub(back).map(|at| runs[at].clone()));
        for arg in &mut args {
            match arg.as_str() {
                "RUN" => *arg = first.clone().unwrap(),
                "OTHER" => *arg = other.clone().unwrap(),
                _ => {}
            }
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = shell.run(&args);
        if args[0] == "run" {
            let id = ran.err.lines().find_map(|line| line.strip_prefix("run:     "));
            runs.push(id.unwrap_or_else(|| panic!("{command}: {}", ran.err)).to_owned());
        } else {
            assert_eq!(ran.err, "", "{command}");
            output = timeless(&ran.out, runs);
        }
    }
    output
}

#[test]
fn the_page_on_explanations_shows_what_its_commands_print() {
    // C14, S4-62, S4-65
    check("docs/how-to/explain.md", 4);
}

#[test]
fn the_page_on_backtests_shows_what_its_commands_print() {
    // Issue 16, part 6
    check("docs/how-to/backtest.md", 2);
}

fn check(page_path: &str, least_blocks: usize) {
    let path = root().join(page_path);
    let page = std::fs::read_to_string(&path).unwrap();
    let (shell, mut runs, mut made) = (Shell::new(), Vec::new(), String::new());
    let mut lines = page.lines().peekable();
    let mut blocks = 0;
    while let Some(line) = lines.next() {
        made.push_str(line);
        made.push('\n');
        if line != "```console" {
            continue;
        }
        blocks += 1;
        let mut commands = Vec::new();
        while let Some(command) = lines.peek().and_then(|line| line.strip_prefix("$ ")) {
            commands.push(command);
            made.push_str(&format!("$ {command}\n"));
            lines.next();
        }
        for end in lines.by_ref() {
            if end == "```" {
                break;
            }
        }
        made.push_str(&played(&shell, &commands, &mut runs));
        made.push_str("```\n");
    }
    assert!(blocks >= least_blocks, "{blocks}");
    if std::env::var_os("UPDATE_EXPLAIN").is_some() {
        std::fs::write(&path, &made).unwrap();
        return;
    }
    for (line, (there, printed)) in (1..).zip(page.lines().zip(made.lines())) {
        assert_eq!(there, printed, "{page_path}:{line}; UPDATE_EXPLAIN=1 writes it anew");
    }
    assert_eq!(page.lines().count(), made.lines().count(), "{page_path} has a line too many or too few");
}

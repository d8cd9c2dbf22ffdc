//! `loopgate init`: generates a new domain folder from options and, at a terminal, from answers.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use loop_domain::DomainError;
use loop_domain::scaffold::{Scaffold, Template};

use crate::args::one_of;
use crate::output::{Failure, one_line, quoted, stream};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "At a terminal it asks for what is not given; elsewhere the defaults count. Nothing is ever overwritten."
)]
pub(crate) struct InitArgs {
    /// The new folder
    pub(crate) folder: PathBuf,
    /// What the domain is for [default: support]
    #[arg(long, value_parser = one_of(templates()))]
    pub(crate) template: Option<Template>,
    /// The word for a work item, for example `ticket`
    #[arg(long, value_name = "WORD")]
    pub(crate) kind: Option<String>,
    /// What the runs are for, in a sentence; the model reads it
    #[arg(long, value_name = "TEXT")]
    pub(crate) goal: Option<String>,
    /// A folder of documents (.md, .txt) that the runs search [default: samples, where no data is given]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) documents: Option<PathBuf>,
    /// A SQLite file; each table and foreign key gets a tool, and a row becomes the first work item [default: a sample,
    /// where no data is given]
    #[arg(long, value_name = "FILE")]
    pub(crate) database: Option<PathBuf>,
    /// The domain's name [default: the folder's]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Ask nothing, also at a terminal
    #[arg(long)]
    pub(crate) yes: bool,
}

pub(crate) fn init(args: InitArgs) -> Result<ExitCode, Failure> {
    let asks = !args.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
    let mut scaffold = given(&args);
    scaffold.check(&args.folder)?;
    if asks {
        ask(&args, &mut scaffold)?;
    }
    let made = scaffold.write(&args.folder)?;
    let mut text = String::new();
    for file in &made.files {
        text.push_str(&format!("{}\n", one_line(&file.display().to_string())));
    }
    stream::print(&text);
    stream::note(next(&args.folder, &made.item, scaffold.template));
    Ok(ExitCode::SUCCESS)
}

/// The next steps, as commands.
fn next(folder: &Path, item: &Path, template: Template) -> String {
    let shown = |path: &Path| quoted(&path.to_string_lossy());
    let (folder, item) = (shown(folder), shown(item));
    let conversation = if template.is_conversation() {
        format!("; `loopgate chat {folder}` holds a conversation")
    } else {
        String::new()
    };
    format!("next: loopgate run {folder} {item}{conversation}")
}

fn given(args: &InitArgs) -> Scaffold {
    Scaffold {
        template: args.template.unwrap_or(Template::Support),
        name: args.name.clone(),
        kind: args.kind.clone(),
        goal: args.goal.clone(),
        documents: args.documents.clone(),
        database: args.database.clone(),
    }
}

/// The templates, as `--template` names them.
fn templates() -> [(&'static str, &'static str, Template); 6] {
    Template::ALL.map(|template| (template.name(), template.purpose(), template))
}

/// Asks for missing options. An empty answer takes the default, and an invalid one is asked again.
fn ask(args: &InitArgs, scaffold: &mut Scaffold) -> Result<(), Failure> {
    if args.template.is_none() {
        for (number, template) in (1..).zip(Template::ALL) {
            stream::note(format!("  {number}  {:<10} {}", template.name(), template.purpose()));
        }
        let wanted = |answer: &str| {
            let by_number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let found = by_number.and_then(|at| Template::ALL.get(at).copied());
            found.or_else(|| Template::ALL.into_iter().find(|it| it.name() == answer))
        };
        while let Some(answer) = answer("What is it for? [1]")? {
            if let Some(template) = wanted(&answer) {
                scaffold.template = template;
                break;
            }
            stream::note(format!("answer with a number from 1 to {}, or with a name", Template::ALL.len()));
        }
    }
    let template = scaffold.template;
    if args.kind.is_none() {
        scaffold.kind = answer(&format!("What is one item called? [{}]", template.kind()))?;
    }
    if args.goal.is_none() {
        scaffold.goal = answer(
            "What are the runs for? One sentence, which the model reads. [a sentence of the template]",
        )?;
    }
    let sample = |is_there: bool| if is_there { "a sample" } else { "none" };
    if args.database.is_none() {
        let default = sample(template.has_database() && args.documents.is_none());
        let question = format!("A SQLite file? Each table gets a tool. [{default}]");
        place(&question, &args.folder, scaffold, |scaffold, path| scaffold.database = path)?;
    }
    if args.documents.is_none() {
        let default = sample(template.has_documents() && scaffold.database.is_none());
        let question = format!("A folder of documents to search? [{default}]");
        place(&question, &args.folder, scaffold, |scaffold, path| scaffold.documents = path)?;
    }
    Ok(())
}

/// Asks for a path until it is valid or empty.
fn place(
    question: &str,
    folder: &Path,
    scaffold: &mut Scaffold,
    put: impl Fn(&mut Scaffold, Option<PathBuf>),
) -> Result<(), Failure> {
    while let Some(answer) = answer(question)? {
        // No shell reads it.
        let home = answer.strip_prefix("~/").zip(std::env::home_dir());
        put(scaffold, Some(home.map_or_else(|| answer.clone().into(), |(below, home)| home.join(below))));
        match scaffold.check(folder) {
            Ok(()) => return Ok(()),
            Err(DomainError::Option { message, .. }) => stream::note(message),
            Err(error) => return Err(error.into()),
        }
        put(scaffold, None);
    }
    Ok(())
}

/// One line from the terminal. `None`: it is empty.
fn answer(question: &str) -> Result<Option<String>, Failure> {
    let failed = |error: io::Error| Failure::new(format!("the terminal cannot be read: {error}; give --yes"));
    let mut terminal = io::stderr().lock();
    write!(terminal, "{question} ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line).map_err(failed)? == 0 {
        return Err(Failure::new("the answers ended; nothing was made"));
    }
    let line = line.trim();
    Ok((!line.is_empty()).then(|| line.to_owned()))
}

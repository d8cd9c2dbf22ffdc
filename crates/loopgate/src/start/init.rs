//! `loopgate init`: a new domain folder, made from options and, at a terminal, from answers.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    /// A folder of documents (.md, .txt) that the runs search [default: samples]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) documents: Option<PathBuf>,
    /// A SQLite file; each of its tables gets a tool [default: a sample]
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
    let scaffold = if asks { asked(&args)? } else { given(&args) };
    let made = scaffold.write(&args.folder)?;
    let mut text = String::new();
    for file in &made.files {
        text.push_str(&format!("{}\n", one_line(&file.display().to_string())));
    }
    stream::print(&text);
    stream::note(next(&args.folder, &made.item, scaffold.template));
    Ok(ExitCode::SUCCESS)
}

/// What to do next, as commands.
fn next(folder: &Path, item: &Path, template: Template) -> String {
    let shown = |path: &Path| quoted(&path.to_string_lossy());
    let (folder, item) = (shown(folder), shown(item));
    let conversation = match template {
        Template::Agent => format!("; `loopgate chat {folder}` holds a conversation"),
        Template::Support | Template::Documents | Template::Extract => String::new(),
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
fn templates() -> [(&'static str, &'static str, Template); 4] {
    Template::ALL.map(|template| (template.name(), template.purpose(), template))
}

/// What is given, and for the rest what is answered. An empty answer takes the default.
fn asked(args: &InitArgs) -> Result<Scaffold, Failure> {
    let template = match args.template {
        Some(template) => template,
        None => which()?,
    };
    let kind = match &args.kind {
        Some(kind) => Some(kind.clone()),
        None => answer(&format!("What is one item called? [{}]", template.kind()))?,
    };
    let goal = match &args.goal {
        Some(goal) => Some(goal.clone()),
        None => answer(
            "What are the runs for? One sentence, which the model reads. [a sentence of the template]",
        )?,
    };
    let place = |given: &Option<PathBuf>, question: &str| match given {
        Some(path) => Ok(Some(path.clone())),
        None => Ok::<_, Failure>(answer(question)?.map(PathBuf::from)),
    };
    let default =
        if matches!(template, Template::Support | Template::Documents) { "samples" } else { "none" };
    let documents = place(&args.documents, &format!("A folder of documents to search? [{default}]"))?;
    let default = if matches!(template, Template::Support | Template::Agent) { "a sample" } else { "none" };
    let database = place(&args.database, &format!("A SQLite file? Each table gets a tool. [{default}]"))?;
    Ok(Scaffold { template, name: args.name.clone(), kind, goal, documents, database })
}

fn which() -> Result<Template, Failure> {
    for (number, template) in (1..).zip(Template::ALL) {
        stream::note(format!("  {number}  {:<10} {}", template.name(), template.purpose()));
    }
    loop {
        let Some(answer) = answer("What is it for? [1]")? else { return Ok(Template::Support) };
        let by_number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let found = by_number.and_then(|at| Template::ALL.get(at).copied());
        match found.or_else(|| Template::ALL.into_iter().find(|it| it.name() == answer)) {
            Some(template) => return Ok(template),
            None => stream::note("answer with a number from 1 to 4, or with a name"),
        }
    }
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

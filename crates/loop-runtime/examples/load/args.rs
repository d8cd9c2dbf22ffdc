//! The options of the load client.

use std::path::PathBuf;

use super::meter::Work;

/// What the load is made of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) base_url: String,
    pub(crate) model: String,
    pub(crate) work: Work,
    pub(crate) protocol: Protocol,
    pub(crate) journal: Kept,
    pub(crate) sync: Synced,
}

/// What a journal in a file syncs to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Synced {
    Full,
    #[default]
    Effects,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Conversation,
    Output,
    Document,
}

/// Where the runs are written down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Nowhere,
    InMemory,
    InFile(PathBuf),
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Load(Box<Options>),
    Help,
}

pub(crate) const HELP: &str = "\
Runs many loops against an OpenAI-compatible server and prints one JSON line about what they cost.

Usage: load --base-url URL --model NAME --loops N [OPTIONS]

  --base-url URL      the server with its version, for example http://127.0.0.1:8080/v1
  --model NAME        the model's name there
  --loops N           loops that are counted
  --concurrency C     at most so many loops at a time [1]
  --warmup W          loops before them that are not counted [0]
  --protocol NAME     conversation: native calls until a reply has none
                      output: native calls until one of save_finding gives a valid value
                      document: sections and a contract, until the gate is content
                      [conversation]
  --journal WHERE     none, memory, or the path of a SQLite file [memory]
  --sync WHAT         what a journal in a file syncs to the disk: full, effects, none [effects]
  --help              this text

Each loop streams its replies and has one tool, lookup(id: string), which answers with the same text of 2 KB at once.

Environment:
  OPENAI_API_KEY      the key that is sent [one that no server knows]
  BENCH_THREADS       threads that drive the loops [1]
  BENCH_ROOT          1: one loop after the other in the future that the runtime blocks on, in place of tasks
  BENCH_TOOL_MS       milliseconds until the tool answers [0]
  BENCH_CHEAP         1: a conversation's tool declares itself cheap, so that its calls may start early [0]
  BENCH_ORDERED       1: a conversation runs its tools one after another [0]

The line:
  loops, tool_calls   what was counted
  wall_s              from the start of the first counted loop to the end of the last
  cpu_s               processor time of this process, user and system, in that time
  startup_cpu_s       processor time before the first loop
  peak_rss_kb         the most memory that the process ever held
  entries, syncs      journal entries, and syncs of its file and heads, checkpoints excepted; 0 without a file
  ttft_ms             median time from the start of a loop to the first text in the caller's hands; null without any
  ok                  whether every loop ended as expected; the exit code is 1 where one did not
";

/// Reads the options.
///
/// # Errors
/// A sentence that says what is wrong with them.
pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let (mut base_url, mut model, mut loops) = (None, None, None);
    let (mut concurrency, mut warmup) = (1, 0);
    let (mut protocol, mut journal) = (Protocol::Conversation, Kept::InMemory);
    let mut sync = Synced::default();
    let mut words = words;
    while let Some(word) = words.next() {
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        if matches!(name, "--help" | "-h") {
            return Ok(Asked::Help);
        }
        let mut value =
            || joined.clone().or_else(|| words.next()).ok_or_else(|| format!("{name} needs a value"));
        let number =
            |value: String| value.parse::<u32>().map_err(|_| format!("{name} is no number: {value}"));
        match name {
            "--base-url" => base_url = Some(value()?),
            "--model" => model = Some(value()?),
            "--loops" => loops = Some(number(value()?)?),
            "--concurrency" => concurrency = number(value()?)?.max(1),
            "--warmup" => warmup = number(value()?)?,
            "--protocol" => {
                protocol = match value()?.as_str() {
                    "conversation" => Protocol::Conversation,
                    "output" => Protocol::Output,
                    "document" => Protocol::Document,
                    other => {
                        return Err(format!(
                            "no protocol {other}; there are conversation, output and document"
                        ));
                    }
                }
            }
            "--journal" => {
                journal = match value()?.as_str() {
                    "none" => Kept::Nowhere,
                    "memory" => Kept::InMemory,
                    path => Kept::InFile(path.into()),
                }
            }
            "--sync" => {
                sync = match value()?.as_str() {
                    "full" => Synced::Full,
                    "effects" => Synced::Effects,
                    "none" => Synced::Nothing,
                    other => return Err(format!("no policy {other}; there are full, effects and none")),
                }
            }
            other => return Err(format!("no option {other}; --help lists them")),
        }
    }
    let missing = |name: &str| format!("{name} is missing; --help lists the options");
    let work = Work { loops: loops.ok_or_else(|| missing("--loops"))?, concurrency, warmup };
    Ok(Asked::Load(Box::new(Options {
        base_url: base_url.ok_or_else(|| missing("--base-url"))?,
        model: model.ok_or_else(|| missing("--model"))?,
        work,
        protocol,
        journal,
        sync,
    })))
}

//! The arguments of the simulator.

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    /// The seeds from the first to before the last.
    Seeds(u64, u64),
    /// One seed, with its events.
    Seed(u64),
    /// The planted bug with this number, or each of them.
    Bugs(Option<usize>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    pub(crate) asked: Asked,
    /// The seed of `--seed`, with `--bug`.
    pub(crate) seed: Option<u64>,
    pub(crate) jobs: u64,
}

impl Arguments {
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = None;
        let (mut seed, mut bug) = (None, None);
        let mut jobs = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        // Cargo adds `--bench`.
        let mut arguments = arguments.filter(|argument| argument != "--bench");
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(format!("{name} needs a value"))?;
            match name.as_str() {
                "--seeds" => {
                    let (from, to) = value.split_once("..").ok_or("--seeds is written A..B")?;
                    asked = Some(Asked::Seeds(number(&name, from)?, number(&name, to)?));
                }
                "--seed" => seed = Some(number(&name, &value)?),
                "--bug" if value == "all" => bug = Some(None),
                "--bug" => bug = Some(Some(number(&name, &value)? as usize)),
                "--jobs" => jobs = number(&name, &value)?.max(1),
                _ => return Err(format!("unknown argument {name}")),
            }
        }
        let asked = match (bug, seed, asked) {
            (Some(bug), ..) => Asked::Bugs(bug),
            (None, Some(seed), _) => Asked::Seed(seed),
            (None, None, Some(asked)) => asked,
            (None, None, None) => return Err("name --seeds A..B, --seed N or --bug N".to_owned()),
        };
        Ok(Self { asked, seed, jobs })
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("{name}: `{text}` is not a number"))
}

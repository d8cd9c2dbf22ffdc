//! The arguments of the simulator.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    /// Seeds of the core, the last one excluded.
    pub(crate) seeds: Option<(u64, u64)>,
    /// Seeds of the driver, the last one excluded.
    pub(crate) driver: Option<(u64, u64)>,
    /// One seed of the core, with its events.
    pub(crate) seed: Option<u64>,
    /// The planted bug with this number, or each of them.
    pub(crate) bug: Option<Option<usize>>,
    pub(crate) jobs: u64,
}

impl Arguments {
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let jobs = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let mut read = Self { seeds: None, driver: None, seed: None, bug: None, jobs };
        // Cargo adds `--bench`.
        let mut arguments = arguments.filter(|argument| argument != "--bench");
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(format!("{name} needs a value"))?;
            match name.as_str() {
                "--seeds" => read.seeds = Some(range(&name, &value)?),
                "--driver" => read.driver = Some(range(&name, &value)?),
                "--seed" => read.seed = Some(number(&name, &value)?),
                "--bug" if value == "all" => read.bug = Some(None),
                "--bug" => read.bug = Some(Some(number(&name, &value)? as usize)),
                "--jobs" => read.jobs = number(&name, &value)?.max(1),
                _ => return Err(format!("unknown argument {name}")),
            }
        }
        let asks = read.seeds.is_some() || read.driver.is_some() || read.seed.is_some() || read.bug.is_some();
        if asks { Ok(read) } else { Err("name --seeds A..B, --driver A..B, --seed N or --bug N".to_owned()) }
    }
}

fn range(name: &str, text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..").ok_or(format!("{name} is written A..B"))?;
    Ok((number(name, from)?, number(name, to)?))
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.replace(['_', ','], "").parse().map_err(|_| format!("{name}: `{text}` is not a number"))
}

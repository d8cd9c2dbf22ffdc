//! Loops run so many at a time, what they cost this process, and the line that reports it.

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The words of a command line: `--name value` each.
#[derive(Debug)]
pub(crate) struct Options(Vec<String>);

impl Options {
    pub(crate) fn of(words: impl Iterator<Item = String>) -> Self {
        Self(words.collect())
    }

    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.0.iter().any(|word| word == name)
    }

    /// The value of an option.
    ///
    /// # Errors
    /// A sentence that says that it is missing.
    pub(crate) fn text(&self, name: &str) -> Result<&str, String> {
        let value = self.0.iter().skip_while(|word| *word != name).nth(1);
        value.map(String::as_str).ok_or_else(|| format!("{name} VALUE is missing"))
    }

    /// The value of an option that is a whole number, or what is usual.
    ///
    /// # Errors
    /// A sentence that says that it is none.
    pub(crate) fn number(&self, name: &str, usual: u32) -> Result<u32, String> {
        if !self.is_set(name) {
            return Ok(usual);
        }
        let value = self.text(name)?;
        value.parse().map_err(|_| format!("{name} is no number: {value}"))
    }
}

/// Tools that were run, in loops of either kind.
pub(crate) static TOOL_CALLS: AtomicU64 = AtomicU64::new(0);

/// Does the work that the options say, prints its line, and says how to exit: 1 where a loop did not end as expected.
///
/// # Errors
/// A sentence about an option.
pub(crate) fn measure<F, Fut>(options: &Options, one: F) -> Result<ExitCode, String>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), String>> + Send + 'static,
{
    let (loops, warmup) = (options.number("--loops", 1)?, options.number("--warmup", 0)?);
    let at_once = options.number("--concurrency", 1)?;
    let one = Arc::new(one);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let line = runtime.expect("the system gives a runtime").block_on(async {
        let mut ended = all(warmup, at_once, &one).await;
        let (began, cpu_before, calls_before) = (Instant::now(), cpu(), TOOL_CALLS.load(Ordering::Relaxed));
        ended.extend(all(loops, at_once, &one).await);
        let (wall, cpu) = (began.elapsed(), cpu() - cpu_before);
        let wrong: Vec<String> = ended.into_iter().filter_map(Result::err).collect();
        if let Some(first) = wrong.first() {
            eprintln!("{} loops did not end as expected; one of them: {first}", wrong.len());
        }
        json!({
            "loops": loops,
            "tool_calls": TOOL_CALLS.load(Ordering::Relaxed) - calls_before,
            "wall_s": wall.as_secs_f64(),
            "cpu_s": cpu.as_secs_f64(),
            "peak_rss_kb": peak_rss_kb(),
            "ok": wrong.is_empty(),
        })
    });
    println!("{line}");
    Ok(if line.get("ok") == Some(&Value::Bool(true)) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs `loops` loops in tasks, at most `at_once` at a time.
async fn all<F, Fut>(loops: u32, at_once: u32, one: &Arc<F>) -> Vec<Result<(), String>>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), String>> + Send + 'static,
{
    let begun = Arc::new(AtomicU32::new(0));
    let mut lanes = JoinSet::new();
    for _ in 0..at_once.clamp(1, loops.max(1)) {
        let (begun, one) = (Arc::clone(&begun), Arc::clone(one));
        lanes.spawn(async move {
            let mut ended = Vec::new();
            while begun.fetch_add(1, Ordering::Relaxed) < loops {
                ended.push(one().await);
            }
            ended
        });
    }
    lanes.join_all().await.into_iter().flatten().collect()
}

/// Processor time of this process so far: user and system, all threads.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).expect("time goes forward"),
        u32::try_from(time.tv_nsec).expect("below a second"),
    )
}

/// The most memory that this process ever held, in KB; 0 where the system does not say.
fn peak_rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let row = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    row.and_then(|row| row.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

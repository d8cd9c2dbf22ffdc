//! Loops run so many at a time, what they cost this process, and the line that tells it.

use std::future::Future;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// How much is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Loops that count.
    pub(crate) loops: u32,
    /// How many of them are under way at once.
    pub(crate) concurrency: u32,
    /// Loops before them that do not count.
    pub(crate) warmup: u32,
}

/// What came of one loop.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// From its start to the first text in the caller's hands.
    pub(crate) first_text: Option<Duration>,
    /// What was not as expected.
    pub(crate) wrong: Option<String>,
}

/// What all counted loops cost.
struct Cost {
    wall: Duration,
    cpu: Duration,
    tool_calls: u64,
    written: Written,
    first_texts: Vec<Duration>,
}

/// What a journal in a file has written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) entries: u64,
    pub(crate) syncs: u64,
}

/// What counts it, where there is a journal in a file: all loops share the one.
pub(crate) static WRITTEN: OnceLock<Box<dyn Fn() -> Written + Send + Sync>> = OnceLock::new();

fn written() -> Written {
    WRITTEN.get().map(|count| count()).unwrap_or_default()
}

/// Tools that were run, in loops of either kind.
pub(crate) static TOOL_CALLS: AtomicU64 = AtomicU64::new(0);

/// Does the work, prints its line, and says how to exit: 1 where a loop did not end as expected.
pub(crate) fn measure<F, Fut>(work: Work, one: F) -> ExitCode
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Ended> + Send + 'static,
{
    let one = Arc::new(one);
    let runtime = runtime();
    let startup = cpu();
    let (cost, wrong) = runtime.block_on(async {
        let mut wrong = wrong(&all(work.warmup, work.concurrency, &one).await);
        let (began, cpu_before) = (Instant::now(), cpu());
        let (calls_before, written_before) = (TOOL_CALLS.load(Ordering::Relaxed), written());
        let ended = all(work.loops, work.concurrency, &one).await;
        let written = written();
        let cost = Cost {
            wall: began.elapsed(),
            cpu: cpu() - cpu_before,
            tool_calls: TOOL_CALLS.load(Ordering::Relaxed) - calls_before,
            written: Written {
                entries: written.entries - written_before.entries,
                syncs: written.syncs - written_before.syncs,
            },
            first_texts: ended.iter().filter_map(|ended| ended.first_text).collect(),
        };
        wrong.extend(self::wrong(&ended));
        (cost, wrong)
    });
    if let Some(first) = wrong.first() {
        eprintln!(
            "{} of {} loops did not end as expected; one of them: {first}",
            wrong.len(),
            work.loops + work.warmup
        );
    }
    println!("{}", line(work.loops, startup, cost, peak_rss_kb(), wrong.is_empty()));
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One thread, or as many as `BENCH_THREADS` says.
fn runtime() -> Runtime {
    let threads = number_in("BENCH_THREADS").unwrap_or(1);
    let mut builder = if threads > 1 {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    if threads > 1 {
        builder.worker_threads(usize::try_from(threads).expect("a number of threads fits"));
    }
    builder.enable_all().build().expect("the system gives a runtime")
}

/// A whole number in a variable of the environment.
pub(crate) fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

/// Runs `loops` loops: each awaited in this future if `BENCH_ROOT` is 1, else `at_once` tasks.
async fn all<F, Fut>(loops: u32, at_once: u32, one: &Arc<F>) -> Vec<Ended>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Ended> + Send + 'static,
{
    if number_in("BENCH_ROOT") != Some(1) {
        return spread(loops, at_once, one).await;
    }
    let mut ended = Vec::new();
    for _ in 0..loops {
        ended.push(one().await);
    }
    ended
}

/// Runs `loops` loops in tasks, at most `at_once` at a time.
async fn spread<F, Fut>(loops: u32, at_once: u32, one: &Arc<F>) -> Vec<Ended>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Ended> + Send + 'static,
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

fn wrong(ended: &[Ended]) -> Vec<String> {
    ended.iter().filter_map(|ended| ended.wrong.clone()).collect()
}

fn line(loops: u32, startup: Duration, cost: Cost, peak_rss_kb: u64, ok: bool) -> String {
    let Cost { wall, cpu, tool_calls, written, mut first_texts } = cost;
    first_texts.sort_unstable();
    let ttft = first_texts.get(first_texts.len() / 2);
    let ttft = ttft.map_or_else(|| "null".to_owned(), |time| format!("{:.3}", time.as_secs_f64() * 1e3));
    format!(
        "{{\"loops\":{loops},\"wall_s\":{:.6},\"cpu_s\":{:.6},\"startup_cpu_s\":{:.6},\"peak_rss_kb\":{peak_rss_kb},\
         \"tool_calls\":{tool_calls},\"entries\":{},\"syncs\":{},\"ttft_ms\":{ttft},\"ok\":{ok}}}",
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        startup.as_secs_f64(),
        written.entries,
        written.syncs,
    )
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

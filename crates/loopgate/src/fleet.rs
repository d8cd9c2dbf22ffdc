//! `loopgate fleet`: how many workers the runs of a domain need, what saturates first, and what it costs, simulated
//! without a key.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::value_parser;
use loop_core::{Millis, PicoUsd};
use loop_domain::PolicyFile;
use loop_eval::sim::{
    Amounts, FLEET_VERSION, Fleet, FleetFigures, FleetPlan, FleetPolicy, FleetReport, SimAssumption,
};

use crate::args::DomainArgs;
use crate::failure::Failure;
use crate::show::row;
use crate::sim::{assumed, assumptions, bug, percent};
use crate::stream::{self, grouped};
use crate::{places, saving};

#[derive(Debug, clap::Args)]
pub(crate) struct FleetArgs {
    #[command(flatten)]
    domain: DomainArgs,
    /// The work item of each run: a JSON or Markdown file, or `-` for standard input [default: a made-up item of 1,500 bytes]
    item: Option<PathBuf>,
    /// Runs that arrive in an hour, on average
    #[arg(long, default_value_t = 600, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000_000))]
    arrivals: u32,
    /// Hours in which runs arrive
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = value_parser!(u32).range(1..=168))]
    hours: u32,
    /// Workers; several numbers are compared
    #[arg(long, default_value = "1,2,4", value_delimiter = ',', value_name = "N,…", value_parser = value_parser!(u32).range(1..=10_000))]
    workers: Vec<u32>,
    /// Runs that a worker has under way at a time, as `serve --jobs`
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000))]
    jobs: u32,
    /// Requests that the provider takes in a minute [default: as many as come]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    requests_a_minute: Option<u32>,
    /// Tokens of prompts and replies that the provider takes in a minute [default: as many as come]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    tokens_a_minute: Option<u32>,
    /// Percent of the model calls that are slow
    #[arg(long, default_value_t = 2, value_name = "PERCENT", value_parser = value_parser!(u32).range(0..=100))]
    slow: u32,
    /// A slow call takes so many times as long
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000))]
    slow_times: u32,
    /// How often each worker dies in a day, on average
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = value_parser!(u32).range(0..=1_000))]
    deaths: u32,
    /// Seconds from the death of a worker until its runs continue
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = value_parser!(u32).range(0..=86_400))]
    lease: u32,
    /// Compare with this policy: a TOML file with the keys of a domain's limits and gate that differ; may be given several times
    #[arg(long = "policy", value_name = "FILE")]
    policies: Vec<PathBuf>,
    /// Seed for all choices; the same seed gives the same figures
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Change what is assumed of models, tools and people, for example done=30; the output lists all names
    #[arg(long, value_name = "NAME=NUMBER")]
    assume: Vec<String>,
    /// Print it as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs that are simulated at most for one number of workers under one policy.
const MAX_RUNS: u64 = 1_000_000;

pub(crate) fn fleet(args: &FleetArgs) -> Result<ExitCode, Failure> {
    let arrivals = u64::from(args.arrivals) * u64::from(args.hours);
    if arrivals > MAX_RUNS {
        return Err(Failure::new(format!(
            "--arrivals {} in --hours {} are {} runs; at most {} are simulated",
            args.arrivals,
            args.hours,
            grouped(arrivals),
            grouped(MAX_RUNS)
        )));
    }
    let domain = places::load(&args.domain)?;
    let item = match &args.item {
        Some(path) => Some(places::item(&domain, path)?),
        None => None,
    };
    let prepared = saving::to_loop(&domain, /*saves*/ true);
    let own = prepared.spec();
    let mut specs = vec![(OWN_POLICY.to_owned(), Vec::new(), Arc::clone(own))];
    for path in &args.policies {
        let file = PolicyFile::read(path, &[])?;
        specs.push((file.name().to_owned(), file.settings(), Arc::new(file.applied(own)?)));
    }
    let fleet = Fleet::new(&domain.prompts, item, assumed(&args.assume)?);
    let mut policies = Vec::new();
    for (name, settings, spec) in specs {
        let mut fleets = Vec::new();
        for workers in &args.workers {
            fleets.push(fleet.simulate(&spec, &args.plan(*workers), args.seed).map_err(bug)?);
        }
        policies.push(FleetPolicy { name, settings, fleets });
    }
    let report = FleetReport {
        version: FLEET_VERSION,
        domain: own.domain.to_string(),
        item: fleet.item().map(str::to_owned),
        seed: args.seed,
        arrivals_an_hour: args.arrivals,
        hours: args.hours,
        policies,
        assumptions: args.assumed_of_the_fleet().into_iter().chain(fleet.assumed().list()).collect(),
    };
    if args.json {
        stream::print_json(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    } else {
        stream::print(&in_words(&report));
    }
    Ok(ExitCode::SUCCESS)
}

/// The name of the policy that the domain has.
const OWN_POLICY: &str = "the domain's own";

impl FleetArgs {
    fn plan(&self, workers: u32) -> FleetPlan {
        FleetPlan {
            arrivals_an_hour: self.arrivals,
            hours: self.hours,
            workers,
            places: self.jobs,
            requests_a_minute: self.requests_a_minute,
            tokens_a_minute: self.tokens_a_minute,
            slow_percent: self.slow,
            slow_times: self.slow_times,
            deaths_a_day: self.deaths,
            lease_ms: self.lease.saturating_mul(1_000),
        }
    }

    /// What is assumed of the fleet, by the names of the options.
    fn assumed_of_the_fleet(&self) -> Vec<SimAssumption> {
        let limits = [
            ("--requests-a-minute", self.requests_a_minute, "calls", "the provider takes so many requests"),
            ("--tokens-a-minute", self.tokens_a_minute, "tokens", "the provider takes so many tokens"),
        ];
        let of = |(name, value, unit, meaning): (&str, u32, &str, &str)| SimAssumption {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            meaning: meaning.to_owned(),
        };
        let others = [
            ("--jobs", self.jobs, "runs", "a worker has so many under way at a time"),
            ("--slow", self.slow, "%", "a model call is slow"),
            ("--slow-times", self.slow_times, "times", "a slow call takes so many times as long"),
            ("--deaths", self.deaths, "a day", "each worker dies so often"),
            ("--lease", self.lease, "s", "from a worker's death until its runs continue"),
        ];
        let limited =
            limits.into_iter().filter_map(|(name, value, unit, meaning)| Some((name, value?, unit, meaning)));
        others.into_iter().chain(limited).map(of).collect()
    }
}

fn in_words(report: &FleetReport) -> String {
    let mut text = String::new();
    let of = report.item.as_ref().map_or_else(|| "of any work item".to_owned(), |item| format!("of {item}"));
    let (arrivals, hours) = (grouped(report.arrivals_an_hour.into()), report.hours);
    let hours = if hours == 1 { "1 hour".to_owned() } else { format!("{hours} hours") };
    row(
        &mut text,
        &format!("{arrivals} runs an hour of {}, {of}, for {hours}, seed {}", report.domain, report.seed),
    );
    row(&mut text, "No model was called, and no tool ran.");
    for policy in &report.policies {
        row(&mut text, "");
        let settings: Vec<String> =
            policy.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let is_plain = report.policies.len() == 1;
        if !is_plain && settings.is_empty() {
            row(&mut text, &format!("{}:", policy.name));
        } else if !is_plain {
            row(&mut text, &format!("{}: {}", policy.name, settings.join(", ")));
        }
        table(&mut text, &policy.fleets);
    }
    row(&mut text, "");
    assumptions(&mut text, ASSUMED, &report.assumptions);
    text
}

const ASSUMED: &str = "This was assumed, and is not known of your workers, provider, models and tools. Change what begins with -- by that option, the others with --assume NAME=NUMBER:";

fn table(text: &mut String, fleets: &[FleetFigures]) {
    let mut line = |name: &str, shown: &dyn Fn(&FleetFigures) -> String| {
        let columns: String = fleets.iter().map(|fleet| format!(" {:>13}", shown(fleet))).collect();
        row(text, &format!("  {name:<30}{columns}"));
    };
    let seconds = |ms: u64| format!("{} s", Millis(ms).in_seconds());
    line("workers", &|it| grouped(it.workers.into()));
    line("places", &|it| grouped(it.places.into()));
    line("runs that arrived", &|it| grouped(it.runs));
    line("  ended within the time", &|it| grouped(it.ended_in_time));
    line("  waited at its end", &|it| grouped(it.backlog));
    line("  answered", &|it| percent(it.answered, it.runs));
    line("from arrival to begin, half", &|it| seconds(it.waited_ms.p50));
    line("  95 % at most", &|it| seconds(it.waited_ms.p95));
    line("from arrival to end, half", &|it| seconds(it.took_ms.p50));
    line("  95 % at most", &|it| seconds(it.took_ms.p95));
    line("cost of a run, half at most", &|it| cost(it.cost_pico_usd.map(|it: Amounts| it.p50)));
    line("cost of all runs", &|it| cost(it.total_cost_pico_usd));
    line("model calls", &|it| grouped(it.model_calls));
    line("  waited for a limit, 95 %", &|it| seconds(it.limited_ms.p95));
    line("  failed as rate_limited", &|it| grouped(it.rate_limited));
    line("workers that died", &|it| grouped(it.deaths));
    line("  runs that continued after it", &|it| grouped(it.taken_over));
    let mut resources: Vec<_> =
        fleets.iter().flat_map(|fleet| fleet.used.iter().map(|used| used.resource)).collect();
    resources.sort_unstable();
    resources.dedup();
    for resource in resources {
        line(&format!("used: {}", resource.in_words()), &|it| {
            let used = it.used.iter().find(|used| used.resource == resource);
            used.map_or_else(String::new, |used| format!("{} %", used.percent))
        });
    }
    for fleet in fleets {
        row(text, &format!("  {}", verdict(fleet)));
    }
}

/// What saturates first, and whether the fleet keeps up.
fn verdict(fleet: &FleetFigures) -> String {
    let workers = match fleet.workers {
        1 => "1 worker".to_owned(),
        workers => format!("{} workers", grouped(workers.into())),
    };
    let most = fleet.used.first().map_or("nothing", |used| used.resource.in_words());
    match (fleet.saturated(), fleet.keeps_up()) {
        (Some(resource), true) => {
            format!("{workers}: saturated: {}; the runs are worked off", resource.in_words())
        }
        (Some(resource), false) => {
            format!("{workers}: saturated: {}; more runs arrive than end", resource.in_words())
        }
        (None, true) => format!("{workers}: nothing is saturated; {most} would be first"),
        (None, false) => format!("{workers}: nothing is saturated, but runs wait; {most} would be first"),
    }
}

fn cost(cost: Option<u64>) -> String {
    cost.map_or_else(|| "not known".to_owned(), |cost| PicoUsd(cost).to_string())
}

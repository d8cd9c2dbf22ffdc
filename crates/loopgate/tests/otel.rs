//! Telemetry against programs of others: a receiver that decodes by the published definitions, and Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::server::{LONG, Server, ask, bearer, token};
use crate::common::{Shell, root, ticket};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The receiver of `otel/receiver.py`.
struct Receiver {
    child: Child,
    out: BufReader<ChildStdout>,
    url: String,
}

impl Receiver {
    fn start() -> Self {
        let python = std::env::var_os("LOOPGATE_OTLP_PYTHON").map(PathBuf::from);
        let python = python.expect("LOOPGATE_OTLP_PYTHON is not set; see xtask/src/servers.rs");
        let script = root().join("crates/loopgate/tests/otel/receiver.py");
        let mut child = Command::new(python).arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let port = serde_json::from_str::<Value>(&line).unwrap()["port"].clone();
        Self { child, out, url: format!("http://127.0.0.1:{port}") }
    }

    /// Everything that it got, by the path of the signal.
    fn end(mut self) -> BTreeMap<String, Vec<Value>> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        let mut got: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in rest.lines() {
            let request: Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&request["type"], &request["encoding"], &request["unknown"]),
                (&json!("application/x-protobuf"), &json!("gzip"), &json!(0))
            );
            assert_eq!(request["key"], "s3cret");
            let items = request["items"].as_array().unwrap().clone();
            got.entry(request["path"].as_str().unwrap().to_owned()).or_default().extend(items);
        }
        got
    }
}

#[test]
#[ignore = "needs the definitions of OTLP: cargo xtask servers otel"]
fn a_receiver_of_others_reads_the_trace_the_metrics_and_the_logs_of_a_run() {
    // S4-12, S4-18, S4-46
    let (receiver, shell) = (Receiver::start(), Shell::new());
    let item = ticket(1042);
    let mut command = shell.command(&["run", "examples/helpdesk", &item, "--no-save", "--json"]);
    let ran = command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.url)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret")
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .env("OTEL_SERVICE_NAME", "desk")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        .env("TRACEPARENT", PARENT)
        .output()
        .unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    let outcome: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {err}"));
    let got = receiver.end();
    let (trace, run) = (&outcome["otel_trace_id"], &outcome["run"]);
    assert_eq!(trace, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(
        err.contains("trace:   4bf92f3577b34da6a3ce929d0e0e4736") && !err.contains("telemetry:"),
        "{err}"
    );
    let spans = &got["/v1/traces"];
    let ids: BTreeSet<&str> = spans.iter().map(|span| span["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), spans.len());
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for span in spans {
        assert_eq!(&span["trace"], trace);
        assert_eq!(span["resource"]["service.name"], "desk");
        assert_eq!(span["resource"]["deployment.environment.name"], "test");
        // Sampled; the next bits say whether the parent is in another process.
        assert_eq!(span["flags"].as_u64().unwrap() & 1, 1);
        let parent = span["parent"].as_str().unwrap();
        let name = span["name"].as_str().unwrap();
        *counts.entry(name.split(' ').next().unwrap()).or_default() += 1;
        if parent == "00f067aa0ba902b7" {
            assert!(name.starts_with("invoke_agent "), "{name}");
            assert_eq!(&span["attributes"]["loopgate.run.id"], run);
            continue;
        }
        let parent = spans.iter().find(|other| other["id"] == parent);
        let parent = parent.unwrap_or_else(|| panic!("no parent: {span:#}"));
        let at = |span: &Value, edge: &str| span[edge].as_u64().unwrap();
        assert!(at(parent, "start") <= at(span, "start") && at(span, "end") <= at(parent, "end"), "{span:#}");
    }
    let totals = &outcome["totals"];
    let number = |name: &str| totals[name].as_u64().unwrap();
    assert_eq!(counts["invoke_agent"], 1);
    assert_eq!(counts["chat"], number("model_calls"));
    assert_eq!(counts["execute_tool"], number("tool_calls"));
    assert!(counts["gate"] >= number("passes") && counts["pass"] >= number("passes"), "{counts:?}");
    let of = |span: &Value, name: &str| span["attributes"][name].as_u64().unwrap_or_default();
    let chats = || spans.iter().filter(|span| span["kind"] == 3);
    assert_eq!(
        chats().map(|span| of(span, "gen_ai.usage.input_tokens")).sum::<u64>(),
        number("input_tokens")
    );
    assert_eq!(
        chats().map(|span| of(span, "gen_ai.usage.output_tokens")).sum::<u64>(),
        number("output_tokens")
    );
    let metrics = &got["/v1/metrics"];
    let sum = |name: &str, what: &str| {
        let points = metrics.iter().filter(|point| point["name"] == name);
        points.map(|point| point[what].as_f64().unwrap()).sum::<f64>() as u64
    };
    assert_eq!(sum("gen_ai.client.inference.usage.input_tokens", "sum"), number("input_tokens"));
    assert_eq!(sum("gen_ai.client.inference.duration", "count"), number("model_calls"));
    assert_eq!(sum("gen_ai.execute_tool.duration", "count"), number("tool_calls"));
    let logs = &got["/v1/logs"];
    let stopped = logs.iter().find(|record| record["event"] == "loopgate.run.stopped").unwrap();
    assert_eq!(
        (&stopped["trace"], &stopped["attributes"]["loopgate.stop.reason"]),
        (trace, &outcome["stop"]["reason"])
    );
}

/// A test that fails leaves no receiver behind.
impl Drop for Receiver {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Prometheus over a folder of its own.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The dashboard of `docs/deploy`.
fn dashboard() -> Value {
    let text = std::fs::read_to_string(root().join("docs/deploy/grafana-dashboard.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The queries of its panels.
fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let of = |panel: &Value| {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["datasource"]["uid"] == "${datasource}", "{panel}");
        targets.iter().map(|target| target["expr"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    panels.flat_map(of).collect()
}

/// The names in a part of a query.
fn names(part: &str) -> impl Iterator<Item = String> + '_ {
    let words = part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic())).map(str::to_owned)
}

/// Takes what is between `open` and `close` out of a query, and gives the rest.
fn taken(query: &str, (open, close): (&str, char), mut take: impl FnMut(&str)) -> String {
    let mut parts = query.split(open);
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inner, after) =
            part.split_once(close).unwrap_or_else(|| panic!("{open} without {close}: {query}"));
        take(inner);
        rest.push_str(after);
    }
    rest
}

/// The metrics that a query asks for, and the labels that it names.
fn asked(query: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut labels = BTreeSet::new();
    // What is between quotation marks names nothing.
    let rest: String = query.split('"').step_by(2).collect();
    let rest = taken(&rest, ("[", ']'), |_| {});
    let rest = taken(&rest, ("{", '}'), |inner| labels.extend(names(inner)));
    let rest = taken(&rest, ("by (", ')'), |inner| labels.extend(names(inner)));
    let functions = rest.rsplit('(').skip(1).filter_map(|before| {
        let before = before.trim_end();
        names(before).last().filter(|name| before.ends_with(name))
    });
    let functions: BTreeSet<String> = functions.collect();
    (names(&rest).filter(|name| !functions.contains(name)).collect(), labels)
}

#[test]
fn every_query_of_the_dashboard_asks_for_what_the_server_has() {
    assert_eq!(
        asked(r#"3600 * sum by (a, le) (rate(m_total{b="x{y}",c=~"$d"}[5m])) / n"#),
        (["m_total", "n"].map(str::to_owned).into(), ["a", "le", "b", "c"].map(str::to_owned).into())
    );
    let shell = Shell::new();
    let read = |name: &str| std::fs::read_to_string(root().join("examples/crm").join(name)).unwrap();
    let offline = "provider = \"offline\"\n";
    // One domain has a call that fails, and one a tool that fails.
    let scripts = [
        (
            "priced",
            "price = { input_usd_per_million = 0.3, output_usd_per_million = 2.5 }\n",
            json!([{"fails": "gone"}, {"text": "Done."}]),
        ),
        (
            "plain",
            "",
            json!([{"calls": [{"name": "search_user", "arguments": {"name": "Bob"}}]}, {"text": "Done."}]),
        ),
    ];
    let mut folders = Vec::new();
    for (name, price, replies) in scripts {
        let toml = read("loopgate.toml").replacen("name = \"crm\"", &format!("name = \"{name}\""), 1);
        let toml = toml.replacen("SELECT id,", "SELECT abs(-9223372036854775807 - 1) AS id,", 1);
        let model = format!("provider = \"scripted\"\nscript = \"replies.json\"\n{price}");
        let toml = toml.replacen(offline, &model, 1) + "\n[budget]\nday_usd = 20\nmonth_usd = 100\n";
        let file = shell.file(&format!("{name}/loopgate.toml"), &toml);
        shell.file(&format!("{name}/crm.sql"), &read("crm.sql"));
        shell.file(&format!("{name}/replies.json"), &json!({"version": 1, "replies": replies}).to_string());
        folders.push(file.parent().unwrap().display().to_string());
    }
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    let server = Server::start(&shell, &folders);
    for domain in ["priced", "plain"] {
        server.submitted(&json!({"domain": domain, "item": "Who is Bob?"}));
    }
    // Observers hear of the end of a run a little later.
    let until = Instant::now() + LONG;
    let text = loop {
        let text = server.ask("GET /metrics", "", "").body;
        if text.matches("loopgate_runs_stopped_total{").count() == 2 {
            break text;
        }
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let lines = || text.lines().filter(|line| !line.starts_with('#'));
    let metrics: BTreeSet<&str> = lines().map(|line| line.split(['{', ' ']).next().unwrap()).collect();
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 42);
    let mut queries = queries(&dashboard);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variable = variables.iter().find_map(|variable| variable["definition"].as_str()).unwrap();
    let (metric, label) = variable.strip_prefix("label_values(").unwrap().split_once(", ").unwrap();
    queries.push(format!("{metric}{{{}=\"\"}}", label.trim_end_matches(')')));
    assert!(queries.len() > 20, "{queries:?}");
    for query in &queries {
        let (asked, labels) = asked(query);
        assert!(!asked.is_empty(), "{query}");
        for metric in asked {
            assert!(metrics.contains(&*metric), "{query}: /metrics has no {metric}: {metrics:#?}");
            // Each label is one of that metric, apart from the operator's own of the scrape.
            let has = |label: &String| {
                lines().any(|line| line.starts_with(&metric) && line.contains(&format!("{label}=\"")))
            };
            assert!(labels.iter().all(has), "{query}: {metric} lacks one of {labels:?}\n{text}");
        }
    }
    // A budget belongs to its domain: a caller of another one does not see it.
    let file = shell.state.path().join("tokens.toml");
    let other = token(&shell, &file, "other", &["--role", "read", "--domain", "plain"]);
    let text = server.send("GET /metrics", &bearer(&other), "").body;
    assert!(text.contains("loopgate_budget_limit_usd{domain=\"plain\",span=\"month\"} 100\n"), "{text}");
    assert!(!text.contains("domain=\"priced\""), "{text}");
    assert_eq!(server.end().0, 0);
}

#[test]
#[ignore = "needs Prometheus: cargo xtask servers otel"]
fn prometheus_scrapes_the_server() {
    let program = std::env::var_os("LOOPGATE_PROMETHEUS").map(PathBuf::from);
    let program = program.expect("LOOPGATE_PROMETHEUS is not set; see xtask/src/servers.rs");
    let shell = Shell::new();
    let folder = shell.copy_of("examples/helpdesk");
    let server = Server::start(&shell, &[folder.to_str().unwrap()]);
    let item = std::fs::read_to_string(root().join(ticket(1042))).unwrap();
    let headers = format!("traceparent: {PARENT}\r\nprefer: wait=60\r\n");
    let body = json!({"item": serde_json::from_str::<Value>(&item).unwrap_or(Value::from(item))}).to_string();
    let answered = server.ask("POST /v1/runs", &headers, &body);
    assert_eq!(answered.status, 202, "{answered:?}");
    let run = answered.json()["run"].as_str().unwrap().to_owned();
    let outcome = server.get(&format!("/v1/runs/{run}/outcome"));
    assert_eq!(outcome["otel_trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    let text = server.ask("GET /metrics", "", "").body;
    // The format and the names, as the tool of Prometheus judges them.
    let lint = shell.file("metrics.txt", &text);
    let checked = Command::new(program.with_file_name("promtool"))
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(lint).unwrap())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}");
    // The queries of the dashboard, with its variables filled in.
    let rule = |(n, query): (usize, String)| {
        let query = query.replace("$__rate_interval", "5m").replace("$domain", ".*");
        json!({"record": format!("panel:{n}"), "expr": query})
    };
    let rules: Vec<Value> = queries(&dashboard()).into_iter().enumerate().map(rule).collect();
    let rules =
        shell.file("rules.yml", &json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string());
    let checked =
        Command::new(program.with_file_name("promtool")).args(["check", "rules"]).arg(rules).output();
    let checked = checked.unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: loopgate\n    authorization:\n      credentials: {}\n    static_configs:\n      - targets: ['{}']\n",
        server.token, server.address
    );
    let config = shell.file("prometheus.yml", &config);
    let data = shell.state.path().join("prometheus");
    let prometheus = Command::new(program)
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", data.display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _prometheus = Prometheus(prometheus);
    let until = Instant::now() + LONG;
    let value = |query: &str| loop {
        let line = format!("GET /api/v1/query?query={query}");
        let answered = ask(&format!("127.0.0.1:{port}"), &line, &bearer(""), "");
        let found = answered.filter(|answered| answered.status == 200).and_then(|answered| {
            let start = answered.body.find('{')?;
            let end = answered.body.rfind('}')?;
            let value: Value = serde_json::from_str(&answered.body[start..=end]).ok()?;
            value["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
        });
        if let Some(found) = found {
            return found;
        }
        assert!(Instant::now() < until, "{query} has no value");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(value("up"), "1");
    let calls = outcome["totals"]["model_calls"].to_string();
    assert_eq!(value("sum(gen_ai_client_inference_duration_seconds_count)"), calls);
    assert_eq!(value("loopgate_runs_ended_total"), "1");
    assert_eq!(value("sum(loopgate_runs_stopped_total)"), "1");
    assert_eq!(server.end().0, 0);
}

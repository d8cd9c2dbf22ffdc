//! What came out: tables, sums, the first differences; as text or as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::judge::{Column, Difference, Findings};

/// One exchange after everything was compared.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) id: String,
    pub(crate) place: String,
    pub(crate) provider: String,
    pub(crate) api: &'static str,
    pub(crate) is_streamed: bool,
    pub(crate) features: Vec<String>,
    /// `None` where the recording does not say what should have been understood.
    pub(crate) findings: Option<Findings>,
    /// What its request holds that the neutral form has no place for.
    pub(crate) lacks: BTreeSet<String>,
    /// What the client did not send back as it came.
    pub(crate) notes: Vec<String>,
    /// Columns in which a row excuses a difference, one for each.
    pub(crate) excused: Vec<Column>,
}

impl Judged {
    fn differs(&self) -> bool {
        self.differences().next().is_some()
    }

    fn differences(&self) -> impl Iterator<Item = &Difference> {
        self.findings.iter().flat_map(|findings| findings.columns.values().flatten())
    }
}

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) judged: Vec<Judged>,
    /// Endpoints that are none of ours, with how many exchanges each.
    pub(crate) unsupported: BTreeMap<String, usize>,
    /// The lines of the exceptions that are void or not needed any more.
    pub(crate) exceptions: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    agreed: usize,
    partly: usize,
    of: usize,
}

#[derive(Clone, Debug, Default)]
struct Line {
    exchanges: usize,
    agreed: usize,
    cells: BTreeMap<Column, Cell>,
    exceptions: usize,
}

/// How the exchanges came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Everything that was compared agreed.
    pub(crate) agreed: usize,
    /// The same, and the request holds something that the neutral form has no place for.
    pub(crate) partly: usize,
    pub(crate) differ: usize,
    /// There is nothing to compare a reply with.
    pub(crate) unjudged: usize,
    pub(crate) of: usize,
    pub(crate) unsupported: usize,
    /// Everything agreed but what a row excuses.
    pub(crate) excepted: usize,
    /// How many differences rows excuse.
    pub(crate) excused: usize,
}

impl Report {
    pub(crate) fn sums(&self) -> Sums {
        let mut sums =
            Sums { of: self.judged.len(), unsupported: self.unsupported.values().sum(), ..Sums::default() };
        for judged in &self.judged {
            sums.excused += judged.excused.len();
            let which = match &judged.findings {
                _ if judged.differs() => &mut sums.differ,
                None => &mut sums.unjudged,
                Some(_) if !judged.excused.is_empty() => &mut sums.excepted,
                Some(_) if judged.lacks.is_empty() => &mut sums.agreed,
                Some(_) => &mut sums.partly,
            };
            *which += 1;
        }
        sums
    }

    fn lines(&self) -> BTreeMap<(String, String, &'static str), Line> {
        let mut lines: BTreeMap<_, Line> = BTreeMap::new();
        for judged in &self.judged {
            let form = if judged.is_streamed { "streamed" } else { "whole" };
            lines.entry((judged.provider.clone(), judged.api.to_owned(), form)).or_default().add(judged);
            lines.entry(("all".to_owned(), String::new(), "")).or_default().add(judged);
        }
        lines
    }

    fn features(&self) -> BTreeMap<String, Line> {
        let mut lines: BTreeMap<_, Line> = BTreeMap::new();
        for judged in &self.judged {
            let features: BTreeSet<&String> = judged.features.iter().collect();
            for feature in features {
                lines.entry(feature.clone()).or_default().add(judged);
            }
        }
        lines
    }

    /// By what is missing, how many exchanges.
    fn counted<'a>(&'a self, names: impl Fn(&'a Judged) -> Vec<&'a String>) -> BTreeMap<&'a str, usize> {
        let mut counted = BTreeMap::new();
        for name in self.judged.iter().flat_map(names) {
            *counted.entry(name.as_str()).or_insert(0) += 1;
        }
        counted
    }

    fn lacks(&self) -> BTreeMap<&str, usize> {
        self.counted(|judged| judged.lacks.iter().collect())
    }

    fn notes(&self) -> BTreeMap<&str, usize> {
        self.counted(|judged| judged.notes.iter().collect())
    }

    /// The last line.
    pub(crate) fn summary(&self) -> String {
        let sums = self.sums();
        let names: Vec<String> =
            self.unsupported.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        let mut summary = format!("agreed {} of {}", sums.agreed, sums.of);
        if sums.partly > 0 {
            summary += &format!("; {} more but for what a request holds that has no place here", sums.partly);
        }
        if sums.unjudged > 0 {
            summary += &format!("; not judged {}", sums.unjudged);
        }
        if sums.differ > 0 {
            summary += &format!("; differ {}", sums.differ);
        }
        format!("{summary}; unsupported {}{names}; exceptions {}", sums.unsupported, sums.excused)
    }

    /// The report for people, with so many differences.
    pub(crate) fn text(&self, max: usize) -> Vec<String> {
        let mut rows = vec![head(["provider", "api", "form"])];
        for ((provider, api, form), line) in self.lines() {
            rows.push(line.row([provider, api, form.to_owned()]));
        }
        for (name, count) in &self.unsupported {
            let mut row = vec![String::new(); rows.first().map_or(0, Vec::len)];
            for (cell, text) in row.iter_mut().zip(["unsupported", name]) {
                text.clone_into(cell);
            }
            if let Some(cell) = row.last_mut() {
                *cell = count.to_string();
            }
            rows.push(row);
        }
        let mut lines = aligned(&rows);
        lines.push(String::new());
        let mut rows = vec![head(["feature", "", ""])];
        for (feature, line) in self.features() {
            rows.push(line.row([feature, String::new(), String::new()]));
        }
        lines.extend(aligned(&rows));
        for (title, counted) in
            [("not expressed", self.lacks()), ("not sent back by the client", self.notes())]
        {
            if !counted.is_empty() {
                lines.push(String::new());
            }
            lines.extend(counted.iter().map(|(name, count)| format!("{title}: {name}: {count}")));
        }
        let all: Vec<(&Judged, &Difference)> =
            self.judged.iter().flat_map(|judged| judged.differences().map(move |it| (judged, it))).collect();
        if !all.is_empty() {
            lines.push(String::new());
        }
        for (judged, difference) in all.iter().take(max) {
            lines.push(format!("{} ({}) {}", judged.id, judged.place, difference.field));
            let (expected, ours) = cut(&difference.expected, &difference.ours);
            lines.push(format!("    expected {expected}"));
            lines.push(format!("    ours     {ours}"));
        }
        if all.len() > max {
            lines.push(format!("… and {} differences more", all.len() - max));
        }
        lines.extend(self.exceptions.iter().cloned());
        lines.push(self.summary());
        lines
    }

    /// The report for programs, with so many differences.
    pub(crate) fn json(&self, max: usize) -> Value {
        let sums = self.sums();
        let rows = self.lines().into_iter().filter(|((provider, ..), _)| provider != "all");
        let rows: Vec<Value> = rows
            .map(|((provider, api, form), line)| {
                let mut row = line.json();
                if let Some(row) = row.as_object_mut() {
                    let names = [("provider", provider.as_str()), ("api", api.as_str()), ("form", form)];
                    row.extend(names.map(|(key, name)| (key.to_owned(), name.into())));
                }
                row
            })
            .collect();
        let features: BTreeMap<String, Value> =
            self.features().into_iter().map(|(feature, line)| (feature, line.json())).collect();
        let differences = self.judged.iter().flat_map(|judged| {
            judged.differences().map(|it| {
                json!({"id": judged.id, "place": judged.place, "field": it.field, "expected": it.expected,
                    "ours": it.ours})
            })
        });
        json!({
            "agreed": sums.agreed,
            "partly": sums.partly,
            "differ": sums.differ,
            "unjudged": sums.unjudged,
            "of": sums.of,
            "unsupported": self.unsupported,
            "exceptions": sums.excused,
            "exception_rows": self.exceptions,
            "rows": rows,
            "features": features,
            "not_expressed": self.lacks(),
            "not_sent_back": self.notes(),
            "differences": differences.take(max).collect::<Vec<_>>(),
            "summary": self.summary(),
        })
    }
}

impl Line {
    fn add(&mut self, judged: &Judged) {
        self.exchanges += 1;
        self.exceptions += judged.excused.len();
        let is_whole = judged.findings.is_some() && !judged.differs() && judged.lacks.is_empty();
        self.agreed += usize::from(is_whole && judged.excused.is_empty());
        for (column, differences) in judged.findings.iter().flat_map(|findings| &findings.columns) {
            let cell = self.cells.entry(*column).or_default();
            cell.of += 1;
            if judged.excused.contains(column) {
                continue;
            }
            match (differences.is_empty(), *column == Column::Request && !judged.lacks.is_empty()) {
                (true, false) => cell.agreed += 1,
                (true, true) => cell.partly += 1,
                (false, _) => {}
            }
        }
    }

    fn row(&self, names: [String; 3]) -> Vec<String> {
        let mut row = names.to_vec();
        row.push(format!("{}/{}", self.agreed, self.exchanges));
        let cells = Column::ALL.iter().map(|column| match self.cells.get(column) {
            None => "-".to_owned(),
            Some(Cell { agreed, partly: 0, of }) => format!("{agreed}/{of}"),
            Some(Cell { agreed, partly, of }) => format!("{agreed}+{partly}/{of}"),
        });
        row.extend(cells);
        row.push(self.exceptions.to_string());
        row.push("0".to_owned());
        row
    }

    fn json(&self) -> Value {
        let cells: BTreeMap<&str, Value> = self
            .cells
            .iter()
            .map(|(column, cell)| {
                (column.name(), json!({"agreed": cell.agreed, "partly": cell.partly, "of": cell.of}))
            })
            .collect();
        json!({"exchanges": self.exchanges, "agreed": self.agreed, "columns": cells, "exceptions": self.exceptions})
    }
}

fn head(names: [&str; 3]) -> Vec<String> {
    let columns = Column::ALL.iter().map(|column| column.name());
    let all = names.into_iter().chain(["exchanges"]).chain(columns).chain(["exceptions", "unsupported"]);
    all.map(str::to_owned).collect()
}

/// Rows with columns below each other; a column that says nothing in any row is left out.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let says = |at: usize| rows.iter().skip(1).any(|row| row.get(at).is_some_and(|cell| !cell.is_empty()));
    let columns: Vec<(usize, usize)> = (0..width)
        .filter(|at| says(*at))
        .map(|at| {
            (
                at,
                rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0),
            )
        })
        .collect();
    let line = |row: &Vec<String>| {
        let cells = columns.iter().map(|(at, max)| {
            let cell = row.get(*at).map_or("", String::as_str);
            if *at < 3 { format!("{cell:max$}") } else { format!("{cell:>max$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Two texts on a line each, from a little before the place where they part.
fn cut(one: &str, two: &str) -> (String, String) {
    let same = one.chars().zip(two.chars()).take_while(|(one, two)| one == two).count();
    let start = if one.chars().count().max(two.chars().count()) > MAX { same.saturating_sub(40) } else { 0 };
    let part = |text: &str| {
        let piece: String = text.chars().skip(start).take(MAX).collect();
        let before = if start > 0 { "…" } else { "" };
        let after = if text.chars().count() > start + MAX { "…" } else { "" };
        format!("{before}{piece:?}{after}")
    };
    (part(one), part(two))
}

/// Characters of a value that are shown.
const MAX: usize = 160;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    fn judged(differs: bool, lacks: bool) -> Judged {
        let mut findings = Findings::default();
        findings.add(Column::Text, differs.then(|| Difference::new("text", "a", "b")));
        findings.add(Column::Request, None);
        Judged {
            id: "x#0".to_owned(),
            place: "f:1".to_owned(),
            provider: "p".to_owned(),
            api: "openai-chat",
            is_streamed: false,
            features: vec!["stream".to_owned()],
            findings: Some(findings),
            lacks: lacks.then(|| "audio".to_owned()).into_iter().collect(),
            notes: Vec::new(),
            excused: Vec::new(),
        }
    }

    #[test]
    fn an_exchange_counts_once_and_what_has_no_place_is_never_agreed() {
        let mut report = Report {
            judged: vec![judged(false, false), judged(false, true), judged(true, false)],
            ..Report::default()
        };
        report.judged.push(Judged { findings: None, ..judged(false, false) });
        report.unsupported.insert("bedrock".to_owned(), 2);
        let sums = report.sums();
        assert_eq!((sums.agreed, sums.partly, sums.differ, sums.unjudged, sums.of), (1, 1, 1, 1, 4));
        let summary = "agreed 1 of 4; 1 more but for what a request holds that has no place here; not judged 1; \
                       differ 1; unsupported 2 (bedrock 2); exceptions 0";
        assert_eq!(report.summary(), summary);
        let text = report.text(0).join("\n");
        assert!(text.contains("2+1/3") && text.contains("not expressed: audio: 1"), "{text}");
        assert!(text.contains("… and 1 differences more"), "{text}");
        let json = report.json(10);
        assert_eq!(json["differences"][0]["field"], "text");
        assert_eq!(json["rows"][0]["columns"]["text"]["agreed"], 2);
    }

    #[test]
    fn the_place_where_two_texts_part_is_shown() {
        let one = format!("{}x", "a".repeat(500));
        let (expected, ours) = cut(&one, &"a".repeat(500));
        assert!(expected.ends_with("x\"") && ours.ends_with("a\""));
        assert_eq!(cut("a", "b"), ("\"a\"".to_owned(), "\"b\"".to_owned()));
    }
}

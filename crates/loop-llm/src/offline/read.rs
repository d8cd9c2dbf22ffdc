//! Reading a prompt as a model would: tools, sections, the item, evidence, what was written before.

use std::collections::BTreeMap;

use crate::offline::words::Shape;
use crate::request::{Message, ModelRequest};
use crate::scripted::nonce_of;

/// What a prompt says.
#[derive(Debug, Default)]
pub(super) struct Read<'a> {
    pub(super) nonce: &'a str,
    pub(super) tools: Vec<Tool<'a>>,
    pub(super) sections: Vec<Section<'a>>,
    pub(super) title: &'a str,
    pub(super) item: &'a str,
    pub(super) evidence: Vec<Evidence<'a>>,
    /// The body that each heading had last.
    pub(super) written: BTreeMap<&'a str, String>,
    /// Tool and target of every call that the prompt lists, run or not.
    pub(super) listed: Vec<(&'a str, String)>,
    pub(super) is_landing: bool,
}

/// A tool as the prompt describes it.
#[derive(Debug)]
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    pub(super) hints: &'a str,
    pub(super) parameters: Vec<Parameter<'a>>,
}

#[derive(Debug)]
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    pub(super) required: bool,
    /// Shapes of its examples; none for free text.
    pub(super) shapes: Vec<Shape>,
}

/// A section to write.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) heading: &'a str,
    pub(super) describe: &'a str,
}

/// A piece of evidence.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) id: &'a str,
    pub(super) tool: &'a str,
    pub(super) parameters: &'a str,
    pub(super) status: &'a str,
    pub(super) body: &'a str,
}

impl Evidence<'_> {
    pub(super) fn is_ok(&self) -> bool {
        self.status == "ok"
    }

    /// Whether it was asked for this value.
    pub(super) fn is_about(&self, value: &str) -> bool {
        let members: BTreeMap<String, serde_json::Value> = serde_json::from_str(self.parameters).unwrap_or_default();
        members.values().any(|member| member.as_str().is_some_and(|text| text.eq_ignore_ascii_case(value)))
    }
}

impl<'a> Read<'a> {
    pub(super) fn of(request: &'a ModelRequest) -> Self {
        let mut read = Self { nonce: nonce_of(request).unwrap_or_default(), ..Self::default() };
        read.read_system(&request.system);
        for message in &request.messages {
            match message {
                Message::User { text } => read.read_user(text),
                Message::Assistant { text, .. } => read.read_reply(text),
            }
        }
        // In the layout that repeats everything, evidence stands in the system prompt.
        read.read_evidence(&request.system);
        let last = request.messages.last().map_or("", |message| message.text());
        read.is_landing = last.contains("This is the LAST call");
        read
    }

    /// Whether a call with this value was made or refused before.
    pub(super) fn was_asked(&self, tool: &str, value: &str) -> bool {
        let made = |evidence: &Evidence<'_>| evidence.tool == tool && (value.is_empty() || evidence.is_about(value));
        let listed = |(name, target): &(&str, String)| *name == tool && (value.is_empty() || target.contains(&value.to_lowercase()));
        self.evidence.iter().any(made) || self.listed.iter().any(listed)
    }

    fn read_system(&mut self, system: &'a str) {
        for line in system.lines() {
            if let Some(section) = section_line(line) {
                self.sections.push(section);
            } else if let Some(parameter) = parameter_line(line) {
                if let Some(tool) = self.tools.last_mut() {
                    tool.parameters.push(parameter);
                }
            } else if let Some(tool) = tool_line(line) {
                self.tools.push(tool);
            }
        }
    }

    fn read_user(&mut self, text: &'a str) {
        if let Some((_, after)) = text.split_once("## The ")
            && let Some((_, title)) = after.lines().next().and_then(|line| line.split_once(": "))
            && self.title.is_empty()
        {
            self.title = title;
        }
        if self.item.is_empty() {
            self.item = fenced(text, "E0").map_or("", |(body, _)| body);
        }
        self.read_evidence(text);
        for line in text.lines() {
            // `- tool (target: X): Success — …`
            let Some((head, _)) = line.strip_prefix("- ").and_then(|line| line.split_once(": ").map(|_| (line, ()))) else {
                continue;
            };
            let ends = ["): Success — ", "): Failed — ", "): Not run — ", "): Skipped — "];
            let bare = [": Success — ", ": Failed — ", ": Not run — ", ": Skipped — "];
            if let Some((call, _)) = ends.iter().find_map(|end| head.split_once(end))
                && let Some((tool, target)) = call.split_once(" (")
            {
                self.listed.push((tool, target.to_lowercase()));
            } else if let Some((tool, _)) = bare.iter().find_map(|end| head.split_once(end)) {
                self.listed.push((tool, String::new()));
            }
        }
    }

    fn read_evidence(&mut self, text: &'a str) {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once("### E") {
            rest = after;
            let Some((header, body)) = after.split_once('\n') else { return };
            let mut parts = header.splitn(2, " · ");
            let (Some(number), Some(call)) = (parts.next(), parts.next()) else { continue };
            let Some((call, status)) = call.rsplit_once(" · ") else { continue };
            let Some((tool, parameters)) = call.split_once(' ') else { continue };
            let label = format!("E{number}");
            let Some((body, after)) = body.starts_with(&format!("<<<{label} ")).then(|| fenced(body, &label)).flatten() else {
                continue;
            };
            rest = after;
            // The label's text stands in the prompt as well; borrow it from there.
            let id = header.get(..number.len()).unwrap_or_default();
            if self.evidence.iter().all(|known| known.id != id) {
                self.evidence.push(Evidence { id, tool, parameters, status, body });
            }
        }
    }

    fn read_reply(&mut self, text: &'a str) {
        let mut rest = text;
        while let Some(at) = section_start(rest) {
            let after = rest.get(at + 3..).unwrap_or_default();
            let (heading, body) = after.split_once('\n').unwrap_or((after, ""));
            let end = section_start(body).or_else(|| body.find("```json")).unwrap_or(body.len());
            self.written.insert(heading.trim(), body.get(..end).unwrap_or_default().trim().to_owned());
            rest = body;
        }
    }
}

/// What stands between the marks of `label`, and what follows them.
fn fenced<'a>(text: &'a str, label: &str) -> Option<(&'a str, &'a str)> {
    let (_, after) = text.split_once(&format!("<<<{label} "))?;
    let (nonce, after) = after.split_once(">>>\n")?;
    after.split_once(&format!("\n<<<end {label} {nonce}>>>"))
}

fn section_start(text: &str) -> Option<usize> {
    if text.starts_with("## ") { Some(0) } else { text.find("\n## ").map(|at| at + 1) }
}

fn section_line(line: &str) -> Option<Section<'_>> {
    let (heading, rest) = line.strip_prefix("- `## ")?.split_once('`')?;
    let describe = rest.split_once(": ").map_or("", |(_, describe)| describe);
    Some(Section { heading, describe })
}

fn tool_line(line: &str) -> Option<Tool<'_>> {
    let (name, hints) = line.strip_prefix("- ")?.split_once(": ")?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    is_name.then_some(Tool { name, hints, parameters: Vec::new() })
}

fn parameter_line(line: &str) -> Option<Parameter<'_>> {
    let (name, rest) = line.strip_prefix("  - `")?.split_once("` (")?;
    let (kind, rest) = rest.split_once(')')?;
    let examples = rest.split_once("; for example ").map_or("", |(_, examples)| examples);
    let examples: Vec<serde_json::Value> = serde_json::from_str(&format!("[{examples}]")).unwrap_or_default();
    let shapes = examples.iter().filter_map(|example| Shape::of(example.as_str()?)).collect();
    Some(Parameter { name, required: kind.contains("required"), shapes })
}

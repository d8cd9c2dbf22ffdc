//! Parses an HTML page, and fails if it is not inert: well-formed, of known elements, and without anything that runs or
//! loads something.

/// An element of a page, or a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// An element.
    Element {
        /// Its name.
        name: String,
        /// Its attributes in their order; one without a value has an empty one.
        attributes: Vec<(String, String)>,
        /// What is in it.
        children: Vec<Node>,
    },
    /// A text, as it is read.
    Text(String),
}

/// An open element: its name, its attributes, and its content so far.
type OpenElement = (String, Vec<(String, String)>, Vec<Node>);

const VOID: [&str; 5] = ["!DOCTYPE", "meta", "hr", "input", "link"];
const KNOWN: [&str; 69] = [
    "html",
    "head",
    "meta",
    "title",
    "style",
    "script",
    "link",
    "body",
    "main",
    "header",
    "nav",
    "section",
    "article",
    "time",
    "h1",
    "h2",
    "h3",
    "h4",
    "p",
    "div",
    "span",
    "a",
    "b",
    "i",
    "strong",
    "code",
    "pre",
    "ins",
    "del",
    "blockquote",
    "hr",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "figure",
    "figcaption",
    "form",
    "label",
    "input",
    "select",
    "option",
    "button",
    "output",
    "noscript",
    "svg",
    "g",
    "rect",
    "path",
    "ellipse",
    "line",
    "text",
    "!DOCTYPE",
    "textarea",
    "em",
    "sup",
    "mark",
    "circle",
];

/// Parses a page and asserts that it is inert. `own` are the permitted styles and scripts.
///
/// # Panics
/// The page is not inert.
#[track_caller]
pub fn inert(html: &str, own: &[&str]) -> Node {
    let begin: String = html.chars().take(200).filter(|c| *c != '\n').collect();
    assert!(begin.starts_with("<!DOCTYPE html><html lang=\"en\">"), "{begin}");
    let mut stack: Vec<OpenElement> = vec![("page".to_owned(), Vec::new(), Vec::new())];
    let mut rest = html;
    while let Some((text, after)) = rest.split_once('<') {
        push_text(&mut stack, text);
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let (open, attributes, children) = stack.pop().expect("an element is open");
            assert_eq!(open, name, "an element is closed that is not the last");
            push(&mut stack, Node::Element { name: open, attributes, children });
            continue;
        }
        let (name, attributes) = read_tag(tag);
        assert!(KNOWN.contains(&name.as_str()), "<{tag}>");
        checked(&name, &attributes);
        if VOID.contains(&name.as_str()) || tag.ends_with('/') {
            push(&mut stack, Node::Element { name, attributes, children: Vec::new() });
            continue;
        }
        if ["script", "style"].contains(&name.as_str()) {
            // What is in them is not markup.
            let (inner, after) = rest.split_once(&format!("</{name}>")).expect("it ends");
            assert!(inner.is_empty() || own.contains(&inner), "a page has a {name} that is not its own");
            rest = after;
            continue;
        }
        stack.push((name, attributes, Vec::new()));
    }
    push_text(&mut stack, rest);
    assert_eq!(stack.len(), 1, "not closed: {:?}", stack.iter().map(|it| &it.0).collect::<Vec<_>>());
    Node::Element {
        name: "page".to_owned(),
        attributes: Vec::new(),
        children: stack.pop().expect("the page is open").2,
    }
}

#[track_caller]
fn push(stack: &mut [OpenElement], node: Node) {
    stack.last_mut().expect("an element is open").2.push(node);
}

fn push_text(stack: &mut [OpenElement], text: &str) {
    assert!(!text.contains('>'), "a bare > in {text:?}");
    let invisible = text.chars().find(|c| *c != '\n' && *c != '\t' && !loop_core::types::is_clean(*c));
    assert_eq!(invisible, None, "a character that is not seen in {text:?}");
    if !text.is_empty() {
        push(stack, Node::Text(plain(text)));
    }
}

fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    text.replace("&amp;", "&")
}

fn read_tag(tag: &str) -> (String, Vec<(String, String)>) {
    let tag = tag.trim_end_matches('/');
    let (name, mut rest) = tag.split_once([' ', '\n']).unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let (attribute, after) = rest.split_at(end);
        rest = after;
        let mut value = String::new();
        if let Some(quoted) = rest.strip_prefix("=\"") {
            let (inner, after) = quoted.split_once('"').expect("an attribute ends");
            value = plain(inner);
            rest = after;
        }
        attributes.push((attribute.to_owned(), value));
        rest = rest.trim_start();
    }
    (name.to_owned(), attributes)
}

/// Checks attributes: no event handler, no style except a legend's colour, no URL outside of this page and server.
#[track_caller]
fn checked(name: &str, attributes: &[(String, String)]) {
    for (attribute, value) in attributes {
        let is_own = value.starts_with('#')
            || (value.starts_with('/') && !value.starts_with("//"))
            || value.starts_with("?at=");
        match attribute.as_str() {
            "href" | "action" => assert!(is_own, "<{name} {attribute}={value:?}>"),
            "src" => assert!(name == "script" && value == "/assets/page.js", "<{name} src={value:?}>"),
            // The key of a picture's colours.
            "style" => {
                let colour = value.strip_prefix("background:#").unwrap_or_default();
                let is_colour =
                    name == "i" && colour.len() == 6 && colour.chars().all(|c| c.is_ascii_hexdigit());
                assert!(is_colour, "<{name} style={value:?}>");
            }
            other => {
                assert!(!other.starts_with("on") && other != "srcdoc", "<{name} {other}>")
            }
        }
    }
}

impl Node {
    /// The value of the first attribute of this name, of an element.
    pub fn attribute(&self, wanted: &str) -> Option<&str> {
        match self {
            Self::Element { attributes, .. } => {
                attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
            }
            Self::Text(_) => None,
        }
    }

    /// This node and everything in it, in the order of the page.
    pub fn all(&self) -> Vec<&Self> {
        let mut found = vec![self];
        if let Self::Element { children, .. } = self {
            found.extend(children.iter().flat_map(Self::all));
        }
        found
    }

    /// The form value of a select or textarea element.
    pub fn chosen(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Element { name, children, .. } if name == "select" => {
                let chosen = children.iter().find(|it| it.attribute("selected").is_some());
                chosen.and_then(|it| it.attribute("value")).unwrap_or_default().to_owned()
            }
            Self::Element { children, .. } => children.iter().map(Self::chosen).collect(),
        }
    }

    /// This node and everything visible in it, in the order of the page.
    pub fn all_seen(&self) -> Vec<&Self> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Self>) {
        if self.attribute("hidden").is_some() {
            return;
        }
        found.push(self);
        if let Self::Element { children, .. } = self {
            children.iter().for_each(|child| child.collect(found));
        }
    }

    /// The visible text.
    pub fn seen(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Text(own) => text.push_str(own),
            Self::Element { name, attributes, children } => {
                let is_hidden = attributes.iter().any(|(name, _)| name == "hidden");
                if is_hidden || name == "head" {
                    return;
                }
                children.iter().for_each(|child| child.write(text));
                // A place within a text takes no room.
                if name != "mark" {
                    text.push(' ');
                }
            }
        }
    }
}

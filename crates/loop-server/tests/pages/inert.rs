//! Reads a page as a tree, and insists on what every page has to be: well-formed, of known elements, without anything that
//! runs or loads something.

/// An element of a page, or a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Element { name: String, attributes: Vec<(String, String)>, children: Vec<Node> },
    Text(String),
}

/// An element that is not closed yet: its name, its attributes, and what is in it so far.
type Open = (String, Vec<(String, String)>, Vec<Node>);

const VOID: [&str; 5] = ["!DOCTYPE", "meta", "hr", "input", "link"];
const KNOWN: [&str; 66] = [
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
];

/// The page as a tree, which is inert.
#[track_caller]
pub(super) fn inert(html: &str) -> Node {
    assert!(html.starts_with("<!DOCTYPE html><html lang=\"en\">"), "{}", &html[..200.min(html.len())]);
    let mut stack: Vec<Open> = vec![("page".to_owned(), Vec::new(), Vec::new())];
    let mut rest = html;
    while let Some((text, after)) = rest.split_once('<') {
        push_text(&mut stack, text);
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let (open, attributes, children) = stack.pop().unwrap();
            assert_eq!(open, name, "an element is closed that is not the last");
            stack.last_mut().unwrap().2.push(Node::Element { name: open, attributes, children });
            continue;
        }
        let (name, attributes) = read_tag(tag);
        assert!(KNOWN.contains(&name.as_str()), "<{tag}>");
        checked(&name, &attributes);
        if VOID.contains(&name.as_str()) {
            stack.last_mut().unwrap().2.push(Node::Element { name, attributes, children: Vec::new() });
            continue;
        }
        if ["script", "style"].contains(&name.as_str()) {
            // What is in them is not markup.
            let (own, after) = rest.split_once(&format!("</{name}>")).expect("it ends");
            let is_ours =
                own.is_empty() || own == loop_server::pages::SCRIPT || own == loop_server::pages::STYLE;
            assert!(is_ours, "a page has a {name} that is not its own");
            rest = after;
            continue;
        }
        stack.push((name, attributes, Vec::new()));
    }
    push_text(&mut stack, rest);
    assert_eq!(stack.len(), 1, "not closed: {:?}", stack.iter().map(|it| &it.0).collect::<Vec<_>>());
    Node::Element { name: "page".to_owned(), attributes: Vec::new(), children: stack.pop().unwrap().2 }
}

fn push_text(stack: &mut [Open], text: &str) {
    assert!(!text.contains('>'), "a bare > in {text:?}");
    let unseen = text.chars().find(|c| *c != '\n' && *c != '\t' && !loop_core::is_clean(*c));
    assert_eq!(unseen, None, "a character that is not seen in {text:?}");
    if !text.is_empty() {
        stack.last_mut().unwrap().2.push(Node::Text(plain(text)));
    }
}

fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    text.replace("&amp;", "&")
}

fn read_tag(tag: &str) -> (String, Vec<(String, String)>) {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let attribute = rest[..end].to_owned();
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(quoted) = rest.strip_prefix("=\"") {
            let (inner, after) = quoted.split_once('"').expect("an attribute ends");
            value = plain(inner);
            rest = after;
        }
        attributes.push((attribute, value));
        rest = rest.trim_start();
    }
    (name.to_owned(), attributes)
}

/// No handler, no style, no address but of this page and this server.
#[track_caller]
fn checked(name: &str, attributes: &[(String, String)]) {
    for (attribute, value) in attributes {
        let is_own = value.starts_with('#')
            || (value.starts_with('/') && !value.starts_with("//"))
            || value.starts_with("?at=");
        match attribute.as_str() {
            "href" | "action" => assert!(is_own, "<{name} {attribute}={value:?}>"),
            "src" => assert!(name == "script" && value == "/assets/page.js", "<{name} src={value:?}>"),
            other => {
                assert!(!other.starts_with("on") && other != "style" && other != "srcdoc", "<{name} {other}>")
            }
        }
    }
}

impl Node {
    /// The text that is seen: nothing that is hidden, and no head.
    pub(super) fn seen(&self) -> String {
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
                text.push(' ');
            }
        }
    }
}

//! The secrets of a canary test: where each is planted, and how one is found again in whatever spelling.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::servers::Servers;
use crate::common::Shell;

/// How many secrets there are.
pub const SECRETS: usize = 200;
/// How tools over HTTP show who calls.
pub const AUTHS: [&str; 6] = ["bearer", "header", "query", "cookie", "basic", "oauth"];
/// What the API does with a request.
pub const BEHAVIOURS: [&str; 8] = ["json", "text", "refuses", "wrong", "fails", "leads", "away", "breaks"];
/// What programs do with their secrets.
pub const PROGRAMS: [&str; 7] = ["text", "lines", "json", "escaped", "cut", "fails", "killed"];
/// The keys of known providers, with the provider that sends each.
pub const PROVIDERS: [(&str, &str); 9] = [
    ("OPENAI_API_KEY", "openai"),
    ("AZURE_OPENAI_API_KEY", "azure"),
    ("ANTHROPIC_API_KEY", "anthropic"),
    ("GEMINI_API_KEY", "gemini"),
    ("GROQ_API_KEY", "groq"),
    ("MISTRAL_API_KEY", "mistral"),
    ("DEEPSEEK_API_KEY", "deepseek"),
    ("OPENROUTER_API_KEY", "openrouter"),
    ("XAI_API_KEY", "xai-chat"),
];

/// What a secret may consist of at its place.
#[derive(Clone, Copy)]
pub enum Shape {
    /// What a header may hold.
    Header,
    /// What a cookie may hold.
    Cookie,
    /// Anything on one line.
    Password,
    /// Letters and digits, as a segment of a path is recognised to be a key.
    Segment,
    /// Too few letters and digits to look like a key.
    Word,
}

/// A secret.
#[derive(Debug)]
pub struct Plant {
    pub text: String,
    /// The tool, or the part of the program, that uses it.
    pub user: String,
    /// Whether all texts of a run may hold it: it is known before the run begins.
    pub is_known: bool,
}

/// The secrets, and the domain that uses them.
pub struct Plants {
    pub all: Vec<Plant>,
    /// What the environment is to hold.
    pub env: Vec<(String, String)>,
    /// The pairs of Basic authentication, in Base64 and in small letters.
    pub pairs: Vec<String>,
    /// Where secrets are that are not in the environment, and where programs prove that they got theirs. Nothing of it is
    /// written by Loopgate.
    pub vault: PathBuf,
    pub folder: PathBuf,
    pub tools: Vec<String>,
    toml: String,
    by_command: usize,
}

impl Plants {
    pub fn new(vault: &Path) -> Self {
        Self {
            all: Vec::new(),
            env: Vec::new(),
            pairs: Vec::new(),
            vault: vault.to_owned(),
            folder: PathBuf::new(),
            tools: Vec::new(),
            toml: String::new(),
            by_command: 0,
        }
    }

    /// Another secret. It begins and ends with its number, so that a part of it is found as well.
    pub fn plant(&mut self, user: &str, shape: Shape, is_known: bool) -> String {
        let n = self.all.len();
        let middle = match shape {
            Shape::Header => "Q7-t_w/K+9=m~",
            Shape::Cookie => "Q7-t_w.m9",
            Shape::Password => "p@s:/ w%&+\"\\'<é>",
            Shape::Segment => "Q7twK9Lm",
            Shape::Word => "/\"+&z",
        };
        let text = match shape {
            Shape::Word => format!("cnr{n:03}ya{middle}"),
            Shape::Segment => format!("sk-cnr{n:03}ya{middle}zz{n:03}rnc"),
            _ => format!("cnr{n:03}ya{middle}zz{n:03}rnc"),
        };
        self.all.push(Plant { text: text.clone(), user: user.to_owned(), is_known });
        text
    }

    /// Another secret under a name, at one of the places where it may be.
    fn named(&mut self, user: &str, name: &str, shape: Shape) -> String {
        let text = self.plant(user, shape, true);
        let file = self.vault.join(name);
        let shown = file.display();
        match self.all.len() % 4 {
            0 => {
                fs::write(&file, format!(" {text}\n")).unwrap();
                _ = writeln!(self.toml, "[secrets.{name}]\nfile = \"{shown}\"");
            }
            1 => {
                self.env.push((format!("OTHER_{name}"), text.clone()));
                _ = writeln!(self.toml, "[secrets.{name}]\nenv = \"OTHER_{name}\"");
            }
            // Each starts a program whenever the domain is read.
            2 if self.by_command < 3 => {
                self.by_command += 1;
                fs::write(&file, &text).unwrap();
                let says = format!("cat {shown}; cat {shown} >&2");
                _ = writeln!(self.toml, "[secrets.{name}]\ncommand = [\"sh\", \"-c\", \"{says}\"]");
            }
            _ => self.env.push((name.to_owned(), text.clone())),
        }
        text
    }

    fn pair(&mut self, user: &str, password: &str) {
        for password in [password.to_owned(), form_encoded(password)] {
            let pair = base64(&format!("{user}:{password}"));
            self.pairs.extend(escaped(&pair).into_iter().chain([pair]).map(|it| it.to_ascii_lowercase()));
        }
    }

    /// The tokens that the token endpoint gives, by tool: planted before the servers begin.
    pub fn tokens(&mut self) -> BTreeMap<String, VecDeque<String>> {
        let tools = BEHAVIOURS.iter().filter(|behaviour| **behaviour != "refuses");
        let tools: Vec<String> = tools.chain(&["renews"]).map(|it| format!("oauth_{it}")).collect();
        let many = |tool: &str| if tool.ends_with("renews") { 2 } else { 1 };
        let given = tools.into_iter().map(|tool| {
            let tokens = (0..many(&tool)).map(|_| self.plant(&tool, Shape::Header, false)).collect();
            (tool, tokens)
        });
        given.collect()
    }

    /// Writes the domain.
    pub fn write_domain(&mut self, shell: &Shell, servers: &Servers) {
        let address = servers.address.clone();
        self.models(&address);
        for auth in AUTHS {
            for behaviour in BEHAVIOURS {
                self.http(auth, behaviour, servers);
            }
        }
        self.http("oauth", "renews", servers);
        self.http("query", "pages", servers);
        for name in ["one", "two", "three", "four"] {
            self.postgres(name, servers.postgres);
        }
        // A write that a person has to allow.
        let name = "bearer_json".to_uppercase();
        _ = writeln!(
            self.toml,
            "[tools.change_shop]\nkind = \"http\"\neffect = \"write_irreversible\"\ndescription = \"Change\"\n\
             parameters.text = {{ required = true }}\n[tools.change_shop.http]\nmethod = \"POST\"\n\
             url = \"http://{address}/api/json/change_shop\"\nbody = {{ text = \"{{text}}\" }}\nprivate = [\"{address}\"]\n\
             plain_http = true\nauth = {{ bearer_env = \"{name}\" }}"
        );
        // What is left goes to the programs.
        let left = SECRETS - self.all.len();
        for (at, name) in PROGRAMS.iter().enumerate() {
            let many = left / PROGRAMS.len() + usize::from(at < left % PROGRAMS.len());
            self.program(shell, name, many);
        }
        // Files that hold secrets of others, one after another so that a cut goes through one.
        let known: Vec<String> = self.known().collect();
        for shift in 0..4 {
            let text = format!("{}{}\n", "y".repeat(shift * 9), known.join(" "));
            shell.file(&format!("shop/notes/{shift}.md"), &text);
        }
        self.tools.push("read_note".to_owned());
        _ = writeln!(
            self.toml,
            "[tools.read_note]\nkind = \"files\"\neffect = \"read\"\ndescription = \"Read\"\nfiles = {{ folder = \"notes\", do = \"read\" }}"
        );
        let file = shell.file("shop/loopgate.toml", &std::mem::take(&mut self.toml));
        self.folder = file.parent().unwrap().to_owned();
    }

    fn models(&mut self, address: &str) {
        _ = writeln!(
            self.toml,
            "version = 1\nname = \"shop\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\nexecution = \"parallel\"\n\
             [limits]\ntool_calls = 500\nrequested_calls = 128\nmodel_calls = 100\nmessages = 1000\ncost_usd = \"none\"\n\
             [gate]\npeople = true\nrepeats = \"off\""
        );
        self.named("model", "MODEL_KEY", Shape::Header);
        let [segment, parameter] = [(); 2].map(|()| self.plant("model", Shape::Segment, true));
        _ = writeln!(
            self.toml,
            "[models.base]\nprovider = \"compatible\"\nmodel = \"m\"\napi_key_env = \"MODEL_KEY\"\n\
             base_url = \"http://{address}/{segment}/v1?api-key={parameter}\""
        );
        for (name, provider) in PROVIDERS {
            let key = self.plant(provider, Shape::Header, true);
            self.env.push((name.to_owned(), key));
        }
        // The path may be a key to where reports go. Nothing else knows it.
        let [segment, parameter] = [(); 2].map(|()| self.plant("save", Shape::Segment, false));
        self.named("save", "SAVE_TOKEN", Shape::Header);
        _ = writeln!(
            self.toml,
            "[save]\nurl = \"http://{address}/save/{segment}?code={parameter}\"\nbearer_env = \"SAVE_TOKEN\"\nlimit_ms = 5000"
        );
        let [user, password] = [(); 2].map(|()| self.plant("proxy", Shape::Segment, false));
        self.pair(&user, &password);
        for name in ["HTTPS_PROXY", "ALL_PROXY"] {
            self.env.push((name.to_owned(), format!("http://{user}:{password}@{address}")));
        }
    }

    fn http(&mut self, auth: &str, behaviour: &str, servers: &Servers) {
        let Servers { address, other, .. } = servers;
        let tool = format!("{auth}_{behaviour}");
        let name = tool.to_uppercase();
        let shape = match auth {
            "basic" | "query" | "oauth" if behaviour != "text" => Shape::Password,
            "cookie" => Shape::Cookie,
            "bearer" if behaviour == "json" => Shape::Word,
            _ => Shape::Header,
        };
        let secret = self.named(&tool, &name, shape);
        let auth = match auth {
            "bearer" => format!("bearer_env = \"{name}\""),
            "header" => format!("key_env = \"{name}\", header = \"x-shop-key\""),
            "query" => format!("key_env = \"{name}\", parameter = \"key\""),
            "cookie" => format!("cookie_env = \"{name}\", cookie = \"sid\""),
            "basic" => format!("password_env = \"{name}\", user = \"ada\""),
            _ => format!(
                "client_secret_env = \"{name}\", client_id = \"desk\", token_url = \"http://{address}/token/{tool}\""
            ),
        };
        if auth.contains("user") || auth.contains("client_id") {
            let user = if auth.contains("client_id") { "desk" } else { "ada" };
            self.pair(user, &secret);
        }
        let pages = if behaviour == "pages" { "pages = { by = \"link\" }\n" } else { "" };
        _ = writeln!(
            self.toml,
            "[tools.{tool}]\nkind = \"http\"\neffect = \"read\"\ndescription = \"Look\"\n[tools.{tool}.http]\n\
             url = \"http://{address}/api/{behaviour}/{tool}?shop=1\"\nprivate = [\"{address}\", \"{other}\"]\n\
             allow = [\"{address}\", \"{other}\"]\n\
             plain_http = true\nredirects = 1\nauth = {{ {auth} }}\n{pages}"
        );
        self.tools.push(tool);
    }

    fn postgres(&mut self, name: &str, port: u16) {
        let (tool, secret) = (format!("postgres_{name}"), format!("POSTGRES_{}", name.to_uppercase()));
        let login = if name < "p" {
            let password = self.plant(&tool, Shape::Password, true);
            let url = format!("postgres://ada:{}@127.0.0.1:{port}/shop", percent(&password, false));
            self.env.push((secret.clone(), url));
            format!("url_env = \"{secret}\"")
        } else {
            self.named(&tool, &secret, Shape::Password);
            format!(
                "host = \"127.0.0.1\"\nport = {port}\ndatabase = \"shop\"\nuser = \"ada\"\npassword_env = \"{secret}\""
            )
        };
        _ = writeln!(
            self.toml,
            "[sources.{name}]\nkind = \"postgres\"\ntls = \"off\"\n{login}\n[tools.{tool}]\nkind = \"sql\"\nsource = \"{name}\"\n\
             effect = \"read\"\ndescription = \"Look\"\nquery = \"SELECT 1\""
        );
        self.tools.push(tool);
    }

    /// A program that gets some secrets, proves it, and prints them.
    fn program(&mut self, shell: &Shell, behaviour: &str, many: usize) {
        let tool = format!("program_{behaviour}");
        let names: Vec<String> = (0..many).map(|at| format!("{}_{at:02}", tool.to_uppercase())).collect();
        let shapes = [Shape::Header, Shape::Password, Shape::Word, Shape::Segment];
        for (at, name) in names.iter().enumerate() {
            self.named(&tool, name, shapes[at % 4]);
        }
        let says: String = names.iter().map(|name| format!("\"${name}\" ")).collect();
        let all = format!("printf 'shop web-1: %s\\n' {says}");
        let does = match behaviour {
            "text" | "lines" => all,
            "json" => {
                format!(
                    "{all} | sed 's/\\\\/\\\\\\\\/g; s/\"/\\\\\"/g; s/^/\"/; s/$/\",/; 1s/^/[/; $s/,$/]/'"
                )
            }
            "escaped" => format!("{all} | sed 's|%|%25|g; s|/|%2f|g; s|\"|%22|g; s|+|%2B|g; s|&|%26|g'"),
            "cut" => format!("{all}; {all}"),
            "fails" => format!("{all} >&2; exit 3"),
            _ => format!("{all} >&2; kill -9 $$"),
        };
        let proof = self.vault.join(format!("{tool}.got")).display().to_string();
        let script = format!("#!/bin/sh\nprintf '%s\\n' {says} > \"$PROOF\"\n{does}\n");
        let script = shell.file(&format!("shop/{tool}.sh"), &script);
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        let output = match behaviour {
            "lines" | "json" => behaviour,
            _ => "text",
        };
        let max_bytes = if behaviour == "cut" { "max_bytes = 150\n" } else { "" };
        _ = writeln!(
            self.toml,
            "[tools.{tool}]\nkind = \"command\"\neffect = \"read\"\ndescription = \"Print\"\n[tools.{tool}.command]\n\
             program = \"./{tool}.sh\"\nenv = [\"PATH\"]\nset = {{ PROOF = \"{proof}\" }}\noutput = \"{output}\"\n{max_bytes}\
             secret_env = {names:?}"
        );
        self.tools.push(tool);
    }

    /// The secrets that any text of a run may hold.
    pub fn known(&self) -> impl Iterator<Item = String> {
        let known = self.all.iter().filter(|plant| plant.is_known);
        known.map(|plant| plant.text.clone()).collect::<Vec<_>>().into_iter()
    }

    /// The first secret, or part of one, in what was written or sent, with what is around it.
    pub fn found_in(&self, bytes: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
        let digits =
            |at: usize| text.get(at..at + 3).is_some_and(|it| it.bytes().all(|b| b.is_ascii_digit()));
        // Fewer letters of a beginning say nothing.
        let is_begun = |at: usize| digits(at + 3) && text.get(at + 6..at + 8) == Some("ya");
        let begins = text.match_indices("cnr").find(|(at, _)| is_begun(*at));
        let ends = text.match_indices("rnc").find(|(at, _)| *at >= 3 && digits(at - 3));
        let pair = self.pairs.iter().find_map(|pair| text.find(pair.as_str()).map(|at| (at, "")));
        let (at, _) = begins.or(ends).or(pair)?;
        let around = text.floor_char_boundary(at.saturating_sub(200))..text.ceil_char_boundary(at + 100);
        Some(text.get(around).unwrap_or_default().to_owned())
    }
}

/// A text as URLs, forms, JSON and HTML escape it.
pub fn escaped(text: &str) -> Vec<String> {
    let html = text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let json = serde_json::Value::from(text).to_string();
    vec![
        percent(text, false),
        percent(text, true),
        form_encoded(text),
        json.replace('/', "\\/"),
        serde_json::Value::from(json.as_str()).to_string(),
        html,
    ]
}

fn percent(text: &str, small: bool) -> String {
    let byte = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ if small => format!("%{byte:02x}"),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// As a form writes a value: a blank is a plus.
pub fn form_encoded(text: &str) -> String {
    percent(text, false).replace("%20", "+").replace('~', "%7E")
}

pub fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encoded = text.as_bytes().chunks(3).flat_map(|three| {
        let bits =
            three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let letter = move |at: usize| char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]);
        (0..4).map(move |at| if at <= three.len() { letter(at) } else { '=' })
    });
    encoded.collect()
}

//! The servers of a canary test, all on loopback: an API that repeats what it is sent, a token endpoint, a model, a place
//! to save to, a proxy, and a PostgreSQL server that repeats the password that it refuses.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::plants::escaped;
use crate::common::provider;

/// What the model says to a call.
pub enum Says {
    /// A chat completion.
    Completion(Value),
    /// A failure with this status that repeats the head of the request.
    Repeats(u16),
    /// Nothing, until the client closes the connection.
    Nothing,
}

impl From<provider::Says> for Says {
    fn from(says: provider::Says) -> Self {
        match says {
            provider::Says::Body(body) => Self::Completion(body),
            provider::Says::Nothing => Self::Nothing,
            provider::Says::Refused { .. } | provider::Says::Stream(_) => {
                unreachable!("no canary is told so")
            }
        }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub target: String,
    pub head: String,
    pub body: String,
}

/// All of them behind one port, told apart by the first segment of the path.
pub struct Servers {
    pub address: String,
    /// Another origin, to which the API redirects.
    pub other: String,
    /// The port of the PostgreSQL server.
    pub postgres: u16,
    shared: Arc<Shared>,
    model_asked: Receiver<()>,
}

struct Shared {
    other: String,
    /// The tokens that are given for a tool, in their order. The last one is given again.
    tokens: BTreeMap<String, VecDeque<String>>,
    model: Mutex<VecDeque<Says>>,
    received: Mutex<Vec<Request>>,
    passwords: Mutex<Vec<String>>,
}

impl Servers {
    pub fn start(tokens: BTreeMap<String, VecDeque<String>>) -> Self {
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [address, other, postgres] =
            [0, 1, 2].map(|at: usize| listeners[at].local_addr().unwrap().to_string());
        let [main, second, third] = listeners;
        let (tell, model_asked) = channel();
        let shared = Arc::new(Shared {
            other: other.clone(),
            tokens,
            model: Mutex::default(),
            received: Mutex::default(),
            passwords: Mutex::default(),
        });
        for listener in [main, second] {
            let (shared, tell) = (Arc::clone(&shared), tell.clone());
            thread::spawn(move || serve(&listener, move |stream| shared.answer(stream, &tell)));
        }
        let of_postgres = Arc::clone(&shared);
        thread::spawn(move || serve(&third, move |stream| _ = of_postgres.refuse_login(stream)));
        let postgres = postgres.rsplit(':').next().unwrap().parse().unwrap();
        Self { address, other, postgres, shared, model_asked }
    }

    /// What the model says next. Once all is said, it answers with a short text.
    pub fn model_says(&self, says: impl IntoIterator<Item = Says>) {
        *self.shared.model.lock().unwrap() = says.into_iter().collect();
        while self.model_asked.try_recv().is_ok() {}
    }

    /// Waits until the model is called.
    pub fn wait_for_model(&self) {
        self.model_asked.recv_timeout(Duration::from_secs(60)).expect("the model is not called");
    }

    pub fn received(&self) -> Vec<Request> {
        self.shared.received.lock().unwrap().clone()
    }

    /// The passwords that the PostgreSQL server was sent.
    pub fn passwords(&self) -> Vec<String> {
        self.shared.passwords.lock().unwrap().clone()
    }
}

fn serve(listener: &TcpListener, answer: impl Fn(TcpStream) + Clone + Send + 'static) {
    for stream in listener.incoming() {
        let answer = answer.clone();
        thread::spawn(move || answer(stream.unwrap()));
    }
}

impl Shared {
    fn answer(&self, stream: TcpStream, tell: &Sender<()>) {
        let mut reader = BufReader::new(stream);
        let Some(request) = read(&mut reader) else { return };
        let stream = reader.into_inner();
        self.received.lock().unwrap().push(request.clone());
        let path = request.target.split('?').next().unwrap_or_default();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match *segments {
            ["api", behaviour, tool] => self.api(stream, behaviour, tool, &request),
            ["token", tool] => self.token(stream, tool, &request),
            ["save", ..] => {
                let says = format!("cannot save: {}{}", request.head, request.body);
                write(stream, "403 Forbidden", "text/plain", "", &says);
            }
            _ if request.head.starts_with("CONNECT") => {
                write(stream, "407 Proxy Authentication Required", "text/plain", "", &request.head);
            }
            _ => {
                let says = self.model.lock().unwrap().pop_front();
                let says = says.unwrap_or_else(|| provider::text("m", "It is web-1.").into());
                let _ = tell.send(());
                say(stream, says, &request);
            }
        }
    }

    fn api(&self, mut stream: TcpStream, behaviour: &str, tool: &str, request: &Request) {
        let Request { target, head, .. } = request;
        let kind = "application/json";
        match behaviour {
            "json" => {
                let lines: Vec<&str> = head.lines().collect();
                let body = json!({"shop": "web-1", "url": target, "head": lines, "again": {(head): 1}});
                write(stream, "200 OK", kind, "", &body.to_string());
            }
            "text" => {
                let body = format!("shop web-1\n{head}\n{}", escaped(head).join("\n"));
                write(stream, "200 OK", "text/plain", "", &body);
            }
            "refuses" => {
                write(stream, "401 Unauthorized", kind, "", &json!({"message": head}).to_string());
            }
            "wrong" => write(stream, "400 Bad Request", "text/plain", "", &escaped(head).join(" ")),
            "fails" => {
                write(stream, "500 Internal Server Error", kind, "", &json!({"error": head}).to_string());
            }
            // The first page names another one, in which the credentials are.
            "pages" => {
                let link = format!("link: <{target}&more={}>; rel=\"next\"\r\n", escaped(head)[0]);
                let body = json!([{"shop": "web-1", "head": head}]).to_string();
                write(stream, "200 OK", kind, if target.contains("more=") { "" } else { &link }, &body);
            }
            "leads" => {
                let location = format!("location: /api/json/{tool}?moved={}\r\n", escaped(head)[0]);
                write(stream, "302 Found", kind, &location, "");
            }
            "away" => {
                let location = format!("location: http://{}/api/json/elsewhere\r\n", self.other);
                write(stream, "302 Found", kind, &location, "");
            }
            // A token is accepted once it is the second one.
            "renews" => {
                let last = self.tokens[tool].back().unwrap();
                if head.contains(last.as_str()) {
                    write(stream, "200 OK", kind, "", &json!({"shop": "web-1", "head": head}).to_string());
                } else {
                    write(stream, "401 Unauthorized", kind, "", &json!({"message": head}).to_string());
                }
            }
            "breaks" => {
                let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{head}");
            }
            other => panic!("{other} is not a behaviour"),
        }
    }

    fn token(&self, stream: TcpStream, tool: &str, request: &Request) {
        if tool.ends_with("refuses") {
            let says = json!({"error": "invalid_client", "error_description": request.head});
            return write(stream, "401 Unauthorized", "application/json", "", &says.to_string());
        }
        let earlier = self.received.lock().unwrap().iter().filter(|it| it.target == request.target).count();
        let tokens = &self.tokens[tool];
        let token = tokens.get(earlier - 1).or(tokens.back()).unwrap();
        let body = json!({"access_token": token, "token_type": "bearer", "expires_in": 3600});
        write(stream, "200 OK", "application/json", "", &body.to_string());
    }

    /// Asks for the password in clear text, and repeats it twice: at once, and where a long message is cut.
    fn refuse_login(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let message = |stream: &mut TcpStream| -> std::io::Result<Vec<u8>> {
            let mut length = [0; 4];
            stream.read_exact(&mut length)?;
            let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
            stream.read_exact(&mut body)?;
            Ok(body)
        };
        message(&mut stream)?;
        stream.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 3])?;
        stream.read_exact(&mut [0])?;
        let password = message(&mut stream)?;
        let password = String::from_utf8_lossy(&password).trim_end_matches('\0').to_owned();
        self.passwords.lock().unwrap().push(password.clone());
        let begins = format!("the password {password} is wrong, ");
        let says = format!("{begins}{} {password}", "x".repeat(284 - begins.chars().count()));
        let mut fields = Vec::new();
        for (name, value) in [('S', "FATAL"), ('V', "FATAL"), ('C', "28P01"), ('M', &*says)] {
            fields.extend([&[name as u8][..], value.as_bytes(), &[0]].concat());
        }
        fields.push(0);
        stream.write_all(b"E")?;
        stream.write_all(&u32::try_from(fields.len() + 4).unwrap().to_be_bytes())?;
        stream.write_all(&fields)
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let target = head.split(' ').nth(1)?.to_owned();
    Some(Request { target, head, body: String::from_utf8(body).unwrap() })
}

fn write(mut stream: TcpStream, status: &str, kind: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n{headers}");
    // A client that was killed does not read it.
    let _ = write!(stream, "{head}content-length: {length}\r\n\r\n{body}");
}

fn say(mut stream: TcpStream, says: Says, request: &Request) {
    match says {
        Says::Completion(body) => write(stream, "200 OK", "application/json", "", &body.to_string()),
        Says::Repeats(status) => {
            let message = format!("wrong credential: {} {}", request.head, escaped(&request.head).join(" "));
            let body = json!({"error": {"message": message, "type": "x", "code": "x"}}).to_string();
            write(stream, &format!("{status} Failure"), "application/json", "", &body);
        }
        Says::Nothing => _ = stream.read_to_end(&mut Vec::new()),
    }
}

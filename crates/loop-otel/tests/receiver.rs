//! A receiver that keeps what it gets and answers as a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver as Gate, Sender, channel};
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::wire::{self, Span};

/// A request, decompressed.
#[derive(Clone, Debug)]
pub struct Got {
    pub path: String,
    pub head: String,
    pub body: Vec<u8>,
}

/// What a receiver answers to its nth request: a status line with headers. `None`: nothing, until the test ends.
type Answers = Arc<dyn Fn(usize) -> Option<String> + Send + Sync>;

pub struct Receiver {
    pub url: String,
    got: Arc<Mutex<Vec<Got>>>,
    /// Lets requests go that are not answered.
    _release: Sender<()>,
}

impl Receiver {
    pub fn accepting() -> Self {
        Self::answering(|_| Some("200 OK\r\n".to_owned()))
    }

    pub fn answering(answers: impl Fn(usize) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::over(None, answers)
    }

    /// One with a certificate for `localhost`, signed by an authority whose own certificate is returned as PEM.
    pub fn over_tls() -> (Self, String) {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority =
            rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap());
        (Self::over(Some(Arc::new(tls.unwrap())), |_| Some("200 OK\r\n".to_owned())), authority.pem())
    }

    fn over(
        tls: Option<Arc<ServerConfig>>,
        answers: impl Fn(usize) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https://localhost" } else { "http://127.0.0.1" };
        let url = format!("{scheme}:{port}");
        let (got, answers): (Arc<Mutex<Vec<Got>>>, Answers) = (Arc::default(), Arc::new(answers));
        let (release, released) = channel();
        let (kept, released) = (Arc::clone(&got), Arc::new(Mutex::new(released)));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, answers, released) =
                    (Arc::clone(&kept), Arc::clone(&answers), Arc::clone(&released));
                let (tls, stream) = (tls.clone(), stream.unwrap());
                std::thread::spawn(move || match tls {
                    Some(tls) => {
                        let tls = StreamOwned::new(ServerConnection::new(tls).unwrap(), stream);
                        serve(tls, &kept, &answers, &released);
                    }
                    None => serve(stream, &kept, &answers, &released),
                });
            }
        });
        Self { url, got, _release: release }
    }

    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    fn of(&self, path: &str) -> Vec<Got> {
        self.got().into_iter().filter(|got| got.path == path).collect()
    }

    /// The spans of all requests.
    pub fn spans(&self) -> Vec<Span> {
        self.of("/v1/traces").iter().flat_map(|got| wire::spans(&got.body)).collect()
    }

    /// The metrics of the last request of them.
    pub fn metrics(&self) -> std::collections::BTreeMap<String, usize> {
        self.of("/v1/metrics").last().map(|got| wire::metrics(&got.body)).unwrap_or_default()
    }

    pub fn records(&self) -> Vec<(String, std::collections::BTreeMap<String, String>)> {
        self.of("/v1/logs").iter().flat_map(|got| wire::records(&got.body)).collect()
    }
}

fn serve(stream: impl Read + Write, kept: &Mutex<Vec<Got>>, answers: &Answers, released: &Mutex<Gate<()>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        let mut body = vec![0; length.unwrap_or_default()];
        reader.read_exact(&mut body).unwrap();
        if head.to_ascii_lowercase().contains("content-encoding: gzip") {
            let mut whole = Vec::new();
            flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut whole).unwrap();
            body = whole;
        }
        let path = head.split_whitespace().nth(1).unwrap().to_owned();
        let nth = {
            let mut kept = kept.lock().unwrap();
            kept.push(Got { path, head, body });
            kept.len()
        };
        match answers(nth) {
            Some(answer) => {
                let answer = format!("HTTP/1.1 {answer}content-length: 0\r\n\r\n");
                if reader
                    .get_mut()
                    .write_all(answer.as_bytes())
                    .and_then(|()| reader.get_mut().flush())
                    .is_err()
                {
                    return;
                }
            }
            None => {
                // It ends when the test drops the other side.
                _ = released.lock().unwrap().recv();
                return;
            }
        }
    }
}

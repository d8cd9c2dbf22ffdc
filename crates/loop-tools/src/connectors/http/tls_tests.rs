//! Requests over TLS, with a server on loopback and an authority of its own.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::{Credentials, Tool as _, ToolResult};
use loop_core::types::Effect;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::connectors::http::test_server::{context, declaration};
use crate::connectors::http::{HttpAuth, HttpDefinition, HttpTool};

const SECRET: &str = "client-secret-0123456789";

/// Who signs certificates, with its own in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file, _folder: folder }
    }

    /// A server whose certificate is for `name` and ends with this year.
    fn serve(&self, name: &str, last_year: i32) -> Server {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(last_year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            );
        Server::start(Arc::new(config.unwrap()))
    }
}

/// Answers with a token at `/token`, and with an order elsewhere.
struct Server {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(config: Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&heads);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let session = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut reader = BufReader::new(StreamOwned::new(session, stream.unwrap()));
                let mut head = String::new();
                // A client that refuses the certificate sends nothing.
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0)
                {
                }
                if head.is_empty() {
                    continue;
                }
                let body = match head.contains(" /token ") {
                    true => json!({ "access_token": "token-0123456789", "token_type": "bearer" }),
                    false => json!({ "order": "late" }),
                };
                log.lock().unwrap().push(head);
                let (stream, body) = (reader.get_mut(), body.to_string());
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        Self { port, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    fn definition(&self, ca: Option<&Authority>) -> HttpDefinition {
        HttpDefinition {
            url: format!("https://localhost:{}/orders", self.port),
            private: vec![format!("localhost:{}", self.port)],
            ca: ca.map(|authority| authority.file.clone()),
            ..HttpDefinition::default()
        }
    }
}

async fn call(definition: &HttpDefinition, effect: Effect) -> ToolResult {
    let credentials: Credentials = [("SHOP_SECRET".to_owned(), SECRET.to_owned())].into_iter().collect();
    let tool = HttpTool::new(declaration(effect, &[]), definition).unwrap();
    tool.call(json!({}), &context(), &credentials).await
}

fn with_token_of(definition: HttpDefinition, server: &Server) -> HttpDefinition {
    let auth = HttpAuth::ClientCredentials {
        token_url: format!("https://localhost:{}/token", server.port),
        client_id: "desk".to_owned(),
        client_secret_env: "SHOP_SECRET".to_owned(),
        scope: String::new(),
    };
    let mut private = definition.private.clone();
    private.push(format!("localhost:{}", server.port));
    HttpDefinition { auth: Some(auth), private, ..definition }
}

// S0-141
#[tokio::test]
async fn a_server_is_trusted_by_the_authority_in_the_file_alone() {
    let (authority, other) = (Authority::new("ours"), Authority::new("another"));
    let server = authority.serve("localhost", 2999);
    let found = call(&server.definition(Some(&authority)), Effect::Read).await;
    assert!(found.kind.is_none() && found.markdown.contains("late"), "{found:?}");
    assert_eq!(server.heads().len(), 1);
    for ca in [Some(&other), None] {
        let refused = call(&server.definition(ca), Effect::Read).await;
        let says = refused.error.clone().unwrap_or_default();
        assert!(
            says.contains("no connection could be made") && says.contains("UnknownIssuer"),
            "{refused:?}"
        );
    }
    assert_eq!(server.heads().len(), 1, "nothing is sent to a server that is not trusted");
}

// S0-141
#[tokio::test]
async fn a_certificate_for_another_name_or_one_that_has_expired_is_refused_and_a_write_was_not_made() {
    let authority = Authority::new("ours");
    for (name, last_year, says) in
        [("other.example", 2999, "not valid for name"), ("localhost", 2020, "expired")]
    {
        let server = authority.serve(name, last_year);
        for effect in [Effect::Read, Effect::WriteIrreversible] {
            let refused = call(&server.definition(Some(&authority)), effect).await;
            let message = refused.error.clone().unwrap_or_default();
            assert!(message.contains(says), "{refused:?}");
            assert_ne!(refused.kind, Some(crate::Failure::InDoubt), "{effect:?}: {refused:?}");
        }
        assert_eq!(server.heads(), [""; 0]);
    }
}

// S0-141, K13
#[tokio::test]
async fn a_token_is_asked_for_over_tls_with_the_same_trust() {
    let (authority, other) = (Authority::new("ours"), Authority::new("another"));
    let server = authority.serve("localhost", 2999);
    let found = call(&with_token_of(server.definition(Some(&authority)), &server), Effect::Read).await;
    assert!(found.kind.is_none() && found.markdown.contains("late"), "{found:?}");
    let heads = server.heads();
    assert!(heads[0].starts_with("POST /token ") && heads[0].contains("authorization: Basic "), "{heads:?}");
    assert!(heads[1].contains("authorization: Bearer token-0123456789\r"), "{heads:?}");
    for tokens in [other.serve("localhost", 2999), authority.serve("other.example", 2999)] {
        let refused = call(&with_token_of(server.definition(Some(&authority)), &tokens), Effect::Read).await;
        let says = refused.error.clone().unwrap_or_default();
        assert!(says.contains("no token for this tool") && !says.contains(SECRET), "{refused:?}");
        assert_eq!(tokens.heads(), [""; 0], "the secret is sent to no server that is not trusted");
    }
    assert_eq!(server.heads().len(), 2);
}

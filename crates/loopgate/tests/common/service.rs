//! The order service of `examples/api`, on a free port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{Shell, copy, root};

/// The address that the example names.
const WRITTEN: &str = "127.0.0.1:8093";

/// Ended by its process when it is dropped.
pub struct Service {
    process: Child,
    /// Host and port.
    pub address: String,
}

impl Service {
    pub fn start() -> Self {
        let mut process = Command::new("python3")
            .arg(root().join("examples/api/service.py"))
            .args(["--port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test needs python3: install it");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        Self { process, address }
    }

    /// A copy of the example that asks this service.
    pub fn domain(&self, shell: &Shell) -> PathBuf {
        let folder = shell.state.path().join("api");
        copy(&root().join("examples/api"), &folder);
        let file = folder.join("loopgate.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(WRITTEN));
        std::fs::write(file, text.replace(WRITTEN, &self.address)).unwrap();
        folder
    }

    /// What the service answers to a GET.
    pub fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

//! The names of the server, and the origins of its pages. A request for another name is refused, so that a foreign name
//! that resolves to this machine (DNS rebinding) reaches nothing.

use std::net::SocketAddr;

/// The names of a server, each with the origin of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    names: Vec<Name>,
    /// The name to which browsers are sent.
    first: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The name as in the header `Host`.
    host: String,
    /// The origin as in the header `Origin`.
    origin: String,
}

/// A text that is not a valid name of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--public-host {0}: expected NAME or NAME:PORT as browsers show it, for example loops.example.org")]
pub struct NotAHost(String);

impl Hosts {
    /// The names of a server that listens at this address, and the names by which proxies forward to it. Pages of a
    /// public name are `https`, unless the name begins with `http://`.
    ///
    /// # Errors
    /// A public name is not valid.
    pub fn new(listen: SocketAddr, public: &[String]) -> Result<Self, NotAHost> {
        let (ip, port) = (listen.ip(), listen.port());
        let mut own: Vec<String> = Vec::new();
        if ip.is_loopback() || ip.is_unspecified() {
            own.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        if !ip.is_unspecified() {
            own.push(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
        }
        let mut names: Vec<Name> = Vec::new();
        for own in own {
            let host = if port == 80 { own } else { format!("{own}:{port}") };
            names.push(Name { origin: format!("http://{host}"), host });
        }
        // The address itself, where there is one.
        let own = names.len().saturating_sub(1);
        for given in public {
            let text = given.trim().to_ascii_lowercase();
            let (scheme, host) = match text.strip_prefix("http://") {
                Some(host) => ("http", host),
                None => ("https", text.strip_prefix("https://").unwrap_or(&text)),
            };
            if !is_host(host) {
                return Err(NotAHost(given.chars().filter(|c| !c.is_control()).take(80).collect()));
            }
            names.push(Name { origin: format!("{scheme}://{host}"), host: host.to_owned() });
        }
        let first = if public.is_empty() { own } else { own + 1 };
        Ok(Self { names, first })
    }

    /// The origin of the pages for other machines: of the first public name, or of the address at which the server
    /// listens.
    pub fn origin(&self) -> &str {
        self.names.get(self.first).map_or("", |name| &name.origin)
    }

    /// The server's name for this `Host`. `None`: it is not one of its names.
    pub(super) fn find(&self, host: &str) -> Option<&Name> {
        self.names.iter().find(|name| name.host.eq_ignore_ascii_case(host))
    }
}

impl Name {
    /// Whether an origin belongs to the server's pages under this name.
    pub(super) fn is_origin(&self, origin: &str) -> bool {
        self.origin == origin
    }

    /// Whether browsers reach this name by TLS.
    pub(super) fn is_https(&self) -> bool {
        self.origin.starts_with("https://")
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port),
        _ => (host, "1"),
    };
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    let is_v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_v6 = is_v6.is_some_and(|name| name.parse::<std::net::Ipv6Addr>().is_ok());
    !name.is_empty() && (is_name || is_v6) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_the_names_of_its_address_and_those_that_it_is_given() {
        // K15
        let at = |listen: &str, public: &[&str]| {
            let public: Vec<String> = public.iter().map(|name| (*name).to_owned()).collect();
            Hosts::new(listen.parse().unwrap(), &public)
        };
        let hosts =
            at("127.0.0.1:8787", &["Loops.example.org", "http://lan:81", "[2001:db8::1]:444"]).unwrap();
        for host in ["127.0.0.1:8787", "LOCALHOST:8787", "[::1]:8787", "loops.example.org", "lan:81"] {
            assert!(hosts.find(host).is_some(), "{host}");
        }
        let foreign =
            ["127.0.0.1", "localhost", "0.0.0.0:8787", "evil.example:8787", "localhost.:8787", "", "lan"];
        for host in foreign {
            assert_eq!(hosts.find(host), None, "{host}");
        }
        assert_eq!(hosts.origin(), "https://loops.example.org");
        assert_eq!(at("127.0.0.1:8787", &[]).unwrap().origin(), "http://127.0.0.1:8787");
        assert_eq!(at("[::]:80", &["http://lan"]).unwrap().origin(), "http://lan");
        assert_eq!(at("10.1.2.3:80", &[]).unwrap().origin(), "http://10.1.2.3");
        let public = hosts.find("loops.example.org").unwrap();
        assert!(public.is_https() && public.is_origin("https://loops.example.org"));
        assert!(!public.is_origin("http://loops.example.org") && !public.is_origin("null"));
        assert!(hosts.find("lan:81").unwrap().is_origin("http://lan:81"));
        assert!(at("127.0.0.1:80", &[]).unwrap().find("localhost").is_some());
        assert!(at("10.1.2.3:8787", &[]).unwrap().find("localhost:8787").is_none());
        assert!(at("0.0.0.0:8787", &[]).unwrap().find("0.0.0.0:8787").is_none());
        for wrong in ["", "a/b", "a b", "a:", "a:x", "a:0", "user@a", "*", "*.example.org", "https://a/"] {
            assert!(at("127.0.0.1:1", &[wrong]).is_err(), "{wrong}");
        }
    }
}

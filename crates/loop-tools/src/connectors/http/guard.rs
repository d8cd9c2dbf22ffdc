//! Which hosts, ports and addresses a tool may connect to.
//!
//! ```text
//! URL ─▶ scheme, user, host and port ─▶ an address? ─▶ judged ─▶ connect
//!                                          │ a name
//!                                          ▼
//!                          resolver ─▶ all addresses judged ─▶ connect to one of these
//! ```
//!
//! The URL is judged before each connection, also at each redirect and for each page. The addresses of a name are judged by
//! the resolver that the connection itself uses, so that no second look at the name can bring another address.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use loop_core::types::Proxy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// What a URL is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    allow: Vec<HostPort>,
    private: Vec<HostPort>,
    plain_http: bool,
}

/// Which addresses a connection may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressScope {
    /// Public addresses alone.
    Public,
    /// Also those of this machine and of private networks: the operator wrote host and port down.
    Private,
}

/// A host, and the port that it is allowed with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPort {
    host: String,
    /// `None`: the usual port of the scheme.
    port: Option<u16>,
}

/// Why a connection was refused, in words that show no address: they are read by a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedAddress(String);

/// What finds the addresses of a name.
#[async_trait]
pub(crate) trait NameSource: Send + Sync {
    /// All addresses of a name.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's own way to find addresses.
#[derive(Debug)]
pub(crate) struct SystemNames;

/// A resolver that returns all addresses of a name, or none where one of them is out of reach.
#[derive(Clone)]
pub(crate) struct GuardedResolver {
    pub(crate) reach: AddressScope,
    pub(crate) names: Arc<dyn NameSource>,
    /// The hosts of the proxies of the environment: the operator named them, and they may be anywhere.
    pub(crate) proxies: Vec<String>,
}

/// The proxy of the environment by which a URL is reached. `None`: it is reached directly.
///
/// # Errors
/// The environment names one that cannot be used.
pub(crate) fn proxy_of(url: &Url, reach: AddressScope) -> Result<Option<Proxy>, String> {
    match reach {
        AddressScope::Public => Proxy::of(url.scheme(), &host_of(url), |name| std::env::var(name).ok()),
        // It is named by its address or by its own name here, which a proxy elsewhere does not know.
        AddressScope::Private => Ok(None),
    }
}

/// The hosts of the proxies of the environment.
pub(crate) fn proxies(reach: AddressScope) -> Vec<String> {
    let urls = ["http://_", "https://_"].into_iter().filter_map(|url| Url::parse(url).ok());
    urls.filter_map(|url| proxy_of(&url, reach).ok().flatten()).map(|proxy| proxy.host).collect()
}

impl Guard {
    /// The guard of a tool whose own URL is `own`.
    ///
    /// # Errors
    /// The key that is wrong, and what is wrong with it.
    pub(crate) fn new(
        own: &Url,
        allow: Option<&[String]>,
        private: &[String],
        plain_http: bool,
    ) -> Result<Self, (&'static str, String)> {
        let private = private.iter().map(|text| with_port(text)).collect::<Result<Vec<_>, _>>();
        let private = private.map_err(|message| ("private", message))?;
        let own_place = HostPort { host: host_of(own), port: own.port() };
        let allow = match allow {
            None => vec![own_place],
            Some(given) => {
                let places = given.iter().map(|text| place(text)).collect::<Result<Vec<_>, _>>();
                let mut places = places.map_err(|message| ("allow", message))?;
                if !places.iter().any(|place| place.host == own_place.host) {
                    let message = format!("the URL's own host `{}` is not in it; add it", own_place.host);
                    return Err(("allow", message));
                }
                places.push(own_place);
                places
            }
        };
        let guard = Self { allow, private, plain_http };
        match guard.check(own) {
            Ok(_) => Ok(guard),
            Err(RefusedAddress(message)) => Err(("url", format!("{message}; correct it"))),
        }
    }

    /// Where a connection to this URL may lead.
    ///
    /// # Errors
    /// It may not be made.
    pub(crate) fn check(&self, url: &Url) -> Result<AddressScope, RefusedAddress> {
        let host = host_of(url);
        let refused = |message: String| Err(RefusedAddress(message));
        match url.scheme() {
            "https" => {}
            "http" if self.plain_http => {}
            "http" => {
                return refused(format!(
                    "`{host}` is asked without encryption: the URL must begin with https://"
                ));
            }
            _ => return refused("the URL must begin with https://".to_owned()),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused(format!("the URL of `{host}` holds a user or a password, which is not allowed"));
        }
        let Some(port) = url.port_or_known_default().filter(|port| *port != 0) else {
            return refused(format!("the URL of `{host}` has no port"));
        };
        let is_usual = url.port().is_none();
        let fits =
            |place: &&HostPort| place.host == host && place.port.map_or(is_usual, |allowed| allowed == port);
        if !self.allow.iter().any(|place| fits(&place)) {
            let place = if is_usual { host } else { format!("{host}:{port}") };
            return refused(format!("`{place}` is not among the hosts that this tool may connect to"));
        }
        let is_private = self.private.iter().any(|place| place.host == host && place.port == Some(port));
        let reach = if is_private { AddressScope::Private } else { AddressScope::Public };
        let address = match url.host() {
            None => return refused("the URL has no host".to_owned()),
            Some(Host::Domain(_)) => return Ok(reach),
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
        };
        judge(&host, address, reach).map(|()| reach)
    }

    /// Judges a name that is asked for: no resolver sees one that goes to a proxy.
    ///
    /// # Errors
    /// It is this machine's, and the place may not be private.
    pub(crate) fn check_name(url: &Url, reach: AddressScope) -> Result<(), RefusedAddress> {
        let host = host_of(url);
        let is_here = host == "localhost" || host.ends_with(".localhost");
        if is_here { judge(&host, IpAddr::V4(Ipv4Addr::LOCALHOST), reach) } else { Ok(()) }
    }

    /// The places on this machine and in private networks that it lets through.
    pub(crate) fn private_places(&self) -> impl Iterator<Item = String> {
        self.private.iter().map(|place| format!("{}:{}", place.host, place.port.unwrap_or_default()))
    }
}

impl RefusedAddress {
    /// The refusal that made a connection fail, where one did.
    pub(crate) fn behind(error: &reqwest::Error) -> Option<Self> {
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            if let Some(refused) = cause.downcast_ref::<Self>() {
                return Some(refused.clone());
            }
            source = cause.source();
        }
        None
    }
}

impl fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedAddress {}

#[async_trait]
impl NameSource for SystemNames {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let host = host.to_owned();
        let found = tokio::task::spawn_blocking(move || (host.as_str(), 0_u16).to_socket_addrs());
        let found = found.await.map_err(io::Error::other)??;
        Ok(found.map(|address| address.ip()).collect())
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { reach, names, proxies } = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            let addresses = names.addresses(host).await?;
            // One that is out of reach condemns the name: its owner decides which of them comes first.
            if !proxies.contains(&host.to_ascii_lowercase()) {
                for address in &addresses {
                    judge(host, *address, reach)?;
                }
            }
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// The host of a URL as it is compared: without the full stop that a name may end with.
pub(crate) fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_end_matches('.').to_owned()
}

/// Whether what is sent to a URL can be read on its way: it is unencrypted and leaves this machine.
pub(crate) fn is_exposed(url: &Url) -> bool {
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name.trim_end_matches('.') == "localhost",
        None => false,
    };
    url.scheme() == "http" && !is_here
}

fn judge(host: &str, address: IpAddr, reach: AddressScope) -> Result<(), RefusedAddress> {
    match kind(address) {
        Kind::Public => Ok(()),
        Kind::Inside(_) if reach == AddressScope::Private => Ok(()),
        Kind::Inside(what) | Kind::Never(what) => {
            Err(RefusedAddress(format!("`{host}` leads to {what}, which this tool may not connect to")))
        }
    }
}

/// What an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Public,
    /// This machine or a private network: only where the operator wrote host and port down.
    Inside(&'static str),
    /// Nothing that a tool has to do with.
    Never(&'static str),
}

fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> Kind {
    let bits = address.to_bits();
    let found = V4.iter().find(|(base, prefix, _)| {
        let shift = 32 - u32::from(*prefix);
        bits >> shift == u32::from_be_bytes(*base) >> shift
    });
    found.map_or(Kind::Public, |(_, _, kind)| *kind)
}

fn kind_v6(address: Ipv6Addr) -> Kind {
    let bits = address.to_bits();
    let found = V6.iter().find(|(base, prefix, _)| bits >> (128 - prefix) == base >> (128 - prefix));
    found.map_or(Kind::Never("an address that is not for hosts"), |(_, _, kind)| *kind)
}

/// `HOST` or `HOST:PORT`.
fn place(text: &str) -> Result<HostPort, String> {
    let wrong = || format!("`{text}` is not a host; write HOST or HOST:PORT, for example `api.example.com`");
    // A URL's parser reads a host and port in the form in which it reads those of a request.
    if text.contains(['/', '?', '#', '@', '\\', '*'])
        || text.chars().any(|c| c.is_whitespace() || c.is_control())
    {
        return Err(wrong());
    }
    // No scheme of which a port is the usual one, so that none is lost. Its hosts are read less strictly than those of http.
    let read = |scheme: &str| Url::parse(&format!("{scheme}://{text}/")).map_err(|_| wrong());
    let (url, written) = (read("https")?, read("loopgate")?);
    let host = host_of(&url);
    let same =
        written.host_str().is_some_and(|written| written.trim_end_matches('.').eq_ignore_ascii_case(&host));
    if host.is_empty() || !same && host.parse::<Ipv4Addr>().is_ok() {
        return Err(format!("`{text}` is another way to write `{host}`; write that"));
    }
    Ok(HostPort { host, port: written.port() })
}

/// `HOST:PORT`.
fn with_port(text: &str) -> Result<HostPort, String> {
    let place = place(text)?;
    match place.port {
        Some(_) => Ok(place),
        None => Err(format!("`{text}` has no port; write HOST:PORT, for example `{}:8080`", place.host)),
    }
}

const LOOPBACK: Kind = Kind::Inside("this machine");
const PRIVATE: Kind = Kind::Inside("a private network");
const DOCUMENTATION: Kind = Kind::Never("an address of documentation");

/// The special addresses of the registry of IPv4, narrower ranges first.
const V4: [([u8; 4], u8, Kind); 16] = [
    ([0, 0, 0, 0], 8, Kind::Never("an address of no host")),
    ([10, 0, 0, 0], 8, PRIVATE),
    ([100, 64, 0, 0], 10, Kind::Inside("a shared address of a provider's network")),
    ([127, 0, 0, 0], 8, LOOPBACK),
    ([169, 254, 0, 0], 16, Kind::Never("a link-local address")),
    ([172, 16, 0, 0], 12, PRIVATE),
    ([192, 0, 0, 0], 24, Kind::Never("an address of protocols")),
    ([192, 0, 2, 0], 24, DOCUMENTATION),
    ([192, 88, 99, 0], 24, Kind::Never("a relay of 6to4")),
    ([192, 168, 0, 0], 16, PRIVATE),
    ([198, 18, 0, 0], 15, Kind::Never("an address of benchmarks")),
    ([198, 51, 100, 0], 24, DOCUMENTATION),
    ([203, 0, 113, 0], 24, DOCUMENTATION),
    ([224, 0, 0, 0], 4, Kind::Never("a multicast address")),
    ([255, 255, 255, 255], 32, Kind::Never("the broadcast address")),
    ([240, 0, 0, 0], 4, Kind::Never("a reserved address")),
];

/// The same of IPv6, where all is refused but what is assigned to hosts. What holds an IPv4 address is refused whatever
/// that is: a router may unpack it.
const V6: [(u128, u8, Kind); 12] = [
    (1, 128, LOOPBACK),
    (0x0000_0000_0000_0000_0000_ffff_0000_0000, 96, Kind::Never("an IPv4 address in IPv6")),
    (0, 96, Kind::Never("an IPv4 address in IPv6")),
    (0x0064_ff9b << 96, 32, Kind::Never("an IPv4 address behind NAT64")),
    (0x2001_0000 << 96, 32, Kind::Never("an address of Teredo")),
    (0x2001_0000 << 96, 23, Kind::Never("an address of protocols")),
    (0x2001_0db8 << 96, 32, DOCUMENTATION),
    (0x2002 << 112, 16, Kind::Never("an address of 6to4")),
    (0x3fff << 112, 20, DOCUMENTATION),
    (0xfc00 << 112, 7, Kind::Inside("a private network")),
    (0xfe80 << 112, 10, Kind::Never("a link-local address")),
    (0x2000 << 112, 3, Kind::Public),
];

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;

//! Which proxy an environment names for a call, by the rules of curl.

use core::net::IpAddr;

/// The proxy that an environment names for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The variable that names it.
    pub variable: &'static str,
    /// Its URL, without a user and a password.
    pub url: String,
    /// Its host, in lower case.
    pub host: String,
}

impl Proxy {
    /// The proxy of calls to `host` by `scheme`, among the variables of an environment. `None`: none is used.
    ///
    /// # Errors
    /// A line for the operator: the variable's value is not the URL of a supported proxy.
    pub fn of(
        scheme: &str,
        host: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let first = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| variable(name).map(|value| (name, value)))
        };
        // Behind a web server this variable and that of the proxy are what the other side says.
        let is_cgi = variable("REQUEST_METHOD").is_some();
        let is_direct = first(["NO_PROXY", "no_proxy"]).is_some_and(|(_, list)| may_be_listed(&list, host));
        let own = match scheme {
            "https" => ["HTTPS_PROXY", "https_proxy"],
            _ => ["HTTP_PROXY", "http_proxy"],
        };
        let named = [own, ["ALL_PROXY", "all_proxy"]].into_iter().filter_map(first);
        let named = named.into_iter().find(|(_, value)| !value.is_empty());
        let Some((variable, value)) = named.filter(|_| !is_cgi && !is_direct) else { return Ok(None) };
        let (scheme, rest) = value.split_once("://").unwrap_or(("http", &value));
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        let (host, port) =
            place.rsplit_once(':').filter(|(_, it)| !it.ends_with(']')).unwrap_or((place, "1"));
        let url = format!("{scheme}://{place}");
        let is_host =
            !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._[]:".contains(c));
        let is_sound = is_host && port.parse::<u16>().is_ok() && value.chars().all(|c| c.is_ascii_graphic());
        if !is_sound || !["http", "https"].contains(&&*scheme.to_ascii_lowercase()) {
            return Err(format!(
                "the variable `{variable}` is not the URL of an HTTP proxy ({url:?}); write http://HOST:PORT, or remove it"
            ));
        }
        Ok(Some(Self { variable, url, host: host.to_ascii_lowercase() }))
    }

    /// The text that follows the error message of a call that failed on its way through this proxy.
    pub fn hint(&self) -> String {
        let Self { variable, url, .. } = self;
        format!(
            "by the proxy {url} of `{variable}`: see that it runs and that user and password in the variable are right, \
             or name the host in NO_PROXY"
        )
    }
}

/// Whether a list of hosts, domains and networks may have this host. Of networks nothing is read but that there are some.
fn may_be_listed(list: &str, host: &str) -> bool {
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let is_address = host.parse::<IpAddr>().is_ok();
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).any(|entry| {
        let domain = entry.strip_prefix('.').unwrap_or(&entry);
        let below = || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
        host == domain
            || if is_address { entry.contains('/') } else { entry == "*" || !domain.is_empty() && below() }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Proxy;

    fn of(url: (&str, &str), set: &[(&str, &str)]) -> Result<Option<Proxy>, String> {
        let value = |name: &str| set.iter().find(|(other, _)| *other == name).map(|(_, it)| (*it).to_owned());
        Proxy::of(url.0, url.1, value)
    }

    // Issue 43, P8
    #[test]
    fn a_variable_that_names_no_proxy_is_refused_in_one_line_without_its_password() {
        for wrong in [
            "not a url",
            "http://",
            "://",
            "/etc/proxy",
            "http://proxy corp:3128",
            "http://proxy:port",
            "http://proxy:99999",
            "ftp://proxy:21",
            "socks5://proxy:1080",
            "socks5h://ada:hunter2@proxy:1080",
            "ada:hunter2@",
            " http://proxy:3128",
            "http://proxy:3128\n",
        ] {
            for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
                let line = of(("https", "api.example"), &[(name, wrong)]).unwrap_err();
                assert!(line.contains(name) && line.contains("http://HOST:PORT"), "{line}");
                assert!(!line.contains("hunter2") && line.lines().count() == 1, "{line}");
                // That of another scheme, and one that is not asked.
                assert_eq!(of(("https", "api.example"), &[("HTTP_PROXY", wrong)]), Ok(None));
                assert_eq!(of(("https", "api.example"), &[(name, wrong), ("NO_PROXY", "*")]), Ok(None));
            }
        }
    }

    #[test]
    fn a_proxy_is_named_by_its_variable_without_its_password() {
        for (value, url, host) in [
            ("localhost:3128", "http://localhost:3128", "localhost"),
            ("Proxy.corp", "http://Proxy.corp", "proxy.corp"),
            ("https://ada:hunter2@Proxy.corp:3128/", "https://Proxy.corp:3128", "proxy.corp"),
            ("http://[::1]:3128", "http://[::1]:3128", "[::1]"),
            ("http://[::1]", "http://[::1]", "[::1]"),
        ] {
            let proxy = of(("https", "api.example"), &[("HTTPS_PROXY", value), ("ALL_PROXY", "x y")]);
            let proxy = proxy.unwrap().unwrap();
            assert_eq!((proxy.variable, &*proxy.url, &*proxy.host), ("HTTPS_PROXY", url, host));
            assert!(!proxy.hint().contains("hunter2"));
        }
        let empty = of(("https", "api.example"), &[("HTTPS_PROXY", ""), ("all_proxy", "http://p")]);
        assert_eq!(empty.unwrap().unwrap().variable, "all_proxy");
        let cgi = [("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "http://p")];
        assert_eq!(of(("http", "api.example"), &cgi), Ok(None));
    }

    #[test]
    fn hosts_that_are_listed_have_no_proxy() {
        let is_direct = |host: &str, list: &str| {
            of(("http", host), &[("http_proxy", "p:1"), ("no_proxy", list)]).unwrap().is_none()
        };
        for (host, list) in [
            ("api.example", "a.b, EXAMPLE"),
            ("api.example", ".example"),
            ("api.example", "api.example"),
            ("10.1.2.3", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3"),
            ("[fd00::1]", "fd00::/8"),
            ("10.1.2.3", "0.0.0.0/0"),
        ] {
            assert!(is_direct(host, list), "{host} {list}");
        }
        for (host, list) in [
            ("api.example", "pi.example"),
            ("api.example", ""),
            ("api.example", ",."),
            ("10.1.2.3", "10.1.2.4"),
            ("10.1.2.3", "*"),
        ] {
            assert!(!is_direct(host, list), "{host} {list}");
        }
    }
}

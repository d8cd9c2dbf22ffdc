//! Tests of the guard: what it lets through, and that nothing else is ever connected to.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::str::FromStr;

use loop_core::types::Effect;
use serde_json::json;

use super::*;
use crate::connectors::http::test_server::{
    FakeNames, TestServer, answer, call, declaration, json_answer, reader, redirect,
};
use crate::connectors::http::{HttpDefinition, HttpTool};

/// Ways to write an address of this machine, of no host or of a private network. Each is a host of a URL.
const HOSTS: &str = "
127.0.0.1 127.0.0.1. 127.1 127.0.1 127.000.000.001 127.255.255.254 2130706433 017700000001 0x7f000001
0X7F000001 0x7f.0x0.0x0.0x1 0x7f.1 0177.0.0.1 0177.1 127.0x1 %31%32%37.0.0.1 127%2e0%2e0%2e1 １２７.０.０.１
①②⑦.⓪.⓪.① 127。0。0。1 127．0．0．1 0 0.0.0.0 0x0 00 0.1 localhost LOCALHOST localhost. ｌｏｃａｌｈｏｓｔ ⓛocalhost
local\u{ad}host [::1] [::1.] [0:0:0:0:0:0:0:1] [0000::0001] [::] [::ffff:127.0.0.1] [::ffff:7f00:1]
[0:0:0:0:0:ffff:127.0.0.1] [::127.0.0.1] [::7f00:1] [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1]
[64:ff9b::7f00:1] [64:ff9b:1::127.0.0.1] [2002:7f00:1::] [2001:0:7f00:1::] [fe80::1] [fe80::1%25lo]
[fc00::1] [fd12:3456:789a::1] [ff02::1] [::ffff:169.254.169.254] [fd00:ec2::254] 169.254.169.254
0xa9fea9fe 2852039166 0251.0376.0251.0376 10.0.0.1 0x0a.1 192.168.1.1
";

/// Addresses that no public name may lead to.
const SPECIAL: &str = "
0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.0
127.255.255.255 169.254.0.0 169.254.169.254 169.254.170.2 172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.192
192.0.2.1 192.88.99.1 192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.7 203.0.113.7
224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.254 255.255.255.255 :: ::1 ::2 ::127.0.0.1 ::8.8.8.8
::ffff:0.0.0.0 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::ffff:0:10.0.0.1
64:ff9b::10.0.0.1 64:ff9b::8.8.8.8 64:ff9b:1::a00:1 100::1 2001::1 2001:0:a00:1:: 2001:2::1 2001:10::1
2001:20::1 2001:1ff:ffff:: 2001:db8::1 2002::1 2002:a00:1:: 2002:7f00:1::1 2002:808:808::1 3fff::1
3fff:fff::1 4000::1 5f00::1 fc00::1 fdff::1 fe80::1 febf::1 fec0::1 ff0e::1
";

/// Addresses of hosts.
const PUBLIC: &str = "
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 192.0.1.0
192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255 2001:200::1 2001:4860:4860::8888
2606:4700:4700::1111
";

fn allowing(hosts: &[&str], redirects: u32, server: &TestServer) -> HttpDefinition {
    HttpDefinition {
        allow: Some(hosts.iter().map(|host| (*host).to_owned()).collect()),
        redirects: Some(redirects),
        ..server.definition("/start")
    }
}

fn resolved(reach: AddressScope, names: &Arc<FakeNames>, name: &str) -> Result<Vec<IpAddr>, String> {
    let names: Arc<dyn NameSource> = Arc::<FakeNames>::clone(names);
    let resolver = GuardedResolver { reach, names, proxies: Vec::new() };
    let found = futures_now(resolver.resolve(Name::from_str(name).unwrap()));
    found.map(|all| all.map(|it| it.ip()).collect()).map_err(|error| error.to_string())
}

/// The result of a future that never waits.
fn futures_now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn every_special_address_is_refused_and_its_neighbours_are_not() {
    // K10
    for text in SPECIAL.split_whitespace() {
        let address: IpAddr = text.parse().unwrap();
        assert_ne!(kind(address), Kind::Public, "{text}");
        let refused = judge("x.example", address, AddressScope::Public).unwrap_err().to_string();
        assert!(refused.starts_with("`x.example` leads to "), "{refused}");
        assert!(!refused.contains(text), "an address is shown: {refused}");
    }
    for text in PUBLIC.split_whitespace() {
        assert_eq!(kind(text.parse().unwrap()), Kind::Public, "{text}");
    }
}

#[test]
fn a_place_that_the_operator_wrote_down_may_be_inside_and_nothing_else_that_is_special() {
    // K10
    for inside in ["127.0.0.1", "10.1.2.3", "172.20.0.1", "192.168.7.7", "100.64.0.1", "::1", "fd00::1"] {
        assert!(judge("h", inside.parse().unwrap(), AddressScope::Private).is_ok(), "{inside}");
    }
    let never = [
        "169.254.169.254",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "fe80::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
    ];
    for never in never {
        assert!(judge("h", never.parse().unwrap(), AddressScope::Private).is_err(), "{never}");
    }
}

#[tokio::test]
async fn no_way_to_write_an_address_leads_to_this_machine() {
    // K10: 0 connections to a listener that every one of these would reach without the guard.
    let canary = TestServer::always(json_answer(&json!([1]))).await;
    let mut urls: Vec<String> =
        HOSTS.split_whitespace().map(|host| format!("http://{host}:{}/", canary.port)).collect();
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        for before in ["user@", "user:pass@", "api.example.com@", "api.example.com:443@", ":@", "@"] {
            urls.push(format!("http://{before}{host}:{}/", canary.port));
        }
    }
    let port = canary.port;
    urls.extend([
        format!("http:\\\\127.0.0.1:{port}\\"),
        format!("http:/127.0.0.1:{port}/"),
        format!("http:127.0.0.1:{port}/"),
        format!("//127.0.0.1:{port}/"),
        format!("http://127.0.0.1\t:{port}/"),
        format!("ht\ntp://127.0.0.1:{port}/"),
        format!(" http://127.0.0.1:{port}/"),
        format!("http://api.example.com\\@127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}#@api.example.com/"),
        format!("http://127.0.0.1:{port}?@api.example.com/"),
        format!("ftp://127.0.0.1:{port}/"),
        format!("file://127.0.0.1:{port}/etc/passwd"),
        format!("gopher://127.0.0.1:{port}/_x"),
        format!("ws://127.0.0.1:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("https://localhost:{port}/"),
        format!("HTTP://127.0.0.1:{port}/"),
        format!("http://127.0.0.1:000{port}/"),
        "http://127.0.0.1:0/".to_owned(),
        "http://127.0.0.1:65536/".to_owned(),
        "http://127.0.0.1/".to_owned(),
        "data:application/json,[1]".to_owned(),
        "file:///etc/passwd".to_owned(),
        "javascript:1".to_owned(),
        "http:///".to_owned(),
        "http://".to_owned(),
        String::new(),
    ]);
    let (mut at_load, mut at_call) = (0, 0);
    for url in &urls {
        let definition = HttpDefinition { url: url.clone(), plain_http: true, ..HttpDefinition::default() };
        match HttpTool::new(declaration(Effect::Read, &[]), &definition) {
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "{error}");
                at_load += 1;
            }
            Ok(tool) => {
                let result = call(&tool, json!({})).await;
                assert!(!result.success, "{url:?} was connected to");
                at_call += 1;
            }
        }
    }
    assert!(at_load > 80 && at_call > 3, "{at_load} {at_call}");
    assert!(urls.len() + SPECIAL.split_whitespace().count() > 120);
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn no_redirect_leads_to_this_machine_even_where_its_host_is_allowed() {
    // K10
    let canary = TestServer::always(json_answer(&json!([1]))).await;
    let mut targets: Vec<String> =
        HOSTS.split_whitespace().map(|host| format!("http://{host}:{}/", canary.port)).collect();
    targets.extend([
        format!("//127.0.0.1:{}/", canary.port),
        format!("\\\\127.0.0.1:{}\\", canary.port),
        format!("http:\\\\127.0.0.1:{}", canary.port),
        format!("http://api.example.com@127.0.0.1:{}/", canary.port),
        format!("file://127.0.0.1:{}/", canary.port),
        "http://[::1".to_owned(),
    ]);
    let shared = targets.clone();
    let server = TestServer::start(move |asked, _| {
        let at: usize = asked.target.rsplit('/').next().unwrap().parse().unwrap();
        redirect(&shared[at])
    })
    .await;
    let port = canary.port;
    let hosts = [
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
        format!("0.0.0.0:{port}"),
    ];
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let mut definition = allowing(&hosts, 5, &server);
    definition.url = server.url("/{at}");
    let tool = reader(&definition, &["at"]);
    for (at, target) in targets.iter().enumerate() {
        let result = call(&tool, json!({ "at": at })).await;
        let error = result.error.unwrap_or_default();
        assert!(!result.success, "{target:?} was connected to");
        // A name is judged by the resolver, at the connection, where it is known at all.
        let whys = ["`127.0.0.1` redirects", "leads to this machine", "no connection could be made: "];
        assert!(whys.iter().any(|why| error.contains(why)), "{target:?}: {error}");
    }
    assert!(server.asked().len() >= targets.len());
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn a_redirect_is_followed_only_to_an_allowed_host_and_only_so_often() {
    // K10
    let target = TestServer::always(json_answer(&json!([{ "id": 1 }]))).await;
    let place = target.place();
    let to = target.url("/end?x=1#part");
    let server = TestServer::start(move |asked, _| match &*asked.target {
        "/start" => redirect("/second"),
        "/second" => redirect("third?n=1"),
        "/third?n=1" => redirect(&to),
        _ => redirect("/start/round"),
    })
    .await;
    let outcome = async |allow: &[&str], redirects: u32, path: &str| {
        let mut definition = allowing(allow, redirects, &server);
        definition.url = server.url(path);
        definition.private.push(place.clone());
        call(&reader(&definition, &[]), json!({})).await
    };
    let both = ["127.0.0.1", &*place];
    assert!(outcome(&both, 3, "/start").await.success);
    let says =
        async |allow: &[&str], redirects, path: &str| outcome(allow, redirects, path).await.error.unwrap();
    assert_eq!(says(&both, 2, "/start").await, "`127.0.0.1` redirects further than 2 times");
    assert_eq!(
        says(&both, 0, "/start").await,
        "`127.0.0.1` redirects to another address, and this tool follows no redirects"
    );
    assert_eq!(says(&both, 5, "/circle").await, "`127.0.0.1` redirects further than 5 times");
    let error = says(&["127.0.0.1"], 5, "/start").await;
    assert_eq!(
        error,
        format!(
            "`127.0.0.1` redirects where it may not: `{place}` is not among the hosts that this tool may connect to"
        )
    );
    assert_eq!(target.connections(), 1);
    assert_eq!(target.asked()[0].target, "/end?x=1");
}

#[test]
fn all_addresses_of_a_name_are_judged_by_the_one_answer_that_is_connected_to() {
    // K10: the first answer is good and the next is not, as a name that rebinds has it.
    let names = FakeNames::new([
        ("rebinds.example", &[&["93.184.216.34"], &["127.0.0.1"]]),
        ("mixed.example", &[&["93.184.216.34", "10.0.0.1"]]),
        ("mapped.example", &[&["::ffff:10.0.0.1"]]),
        ("meta.example", &[&["169.254.169.254"]]),
        ("inside.example", &[&["10.0.0.1", "fd00::1"]]),
    ]);
    let public = |name: &str| resolved(AddressScope::Public, &names, name);
    assert_eq!(public("rebinds.example").unwrap(), ["93.184.216.34".parse::<IpAddr>().unwrap()]);
    assert_eq!(names.1.load(std::sync::atomic::Ordering::SeqCst), 1);
    let refused = public("rebinds.example").unwrap_err();
    assert_eq!(refused, "`rebinds.example` leads to this machine, which this tool may not connect to");
    for name in ["mixed.example", "mapped.example", "meta.example", "inside.example"] {
        assert!(public(name).unwrap_err().contains("leads to"), "{name}");
    }
    assert_eq!(resolved(AddressScope::Private, &names, "inside.example").unwrap().len(), 2);
    assert!(resolved(AddressScope::Private, &names, "meta.example").is_err());
}

#[tokio::test]
async fn a_name_that_rebinds_between_calls_is_judged_each_time() {
    // K10
    let server = TestServer::always(json_answer(&json!([{ "id": 1 }]))).await;
    let names = FakeNames::new([
        ("shop.example", &[&["127.0.0.1"], &["169.254.169.254"]]),
        ("other.example", &[&["127.0.0.1"]]),
    ]);
    let tool = |host: &str, private: &str| {
        let definition = HttpDefinition {
            url: format!("http://{host}:{}/orders", server.port),
            private: vec![format!("{private}:{}", server.port)],
            plain_http: true,
            ..HttpDefinition::default()
        };
        reader(&definition, &[]).with_names(Arc::<FakeNames>::clone(&names))
    };
    let shop = tool("shop.example", "shop.example");
    assert!(call(&shop, json!({})).await.success);
    let error = call(&shop, json!({})).await.error.unwrap();
    assert_eq!(error, "`shop.example` leads to a link-local address, which this tool may not connect to");
    // What one place may do says nothing of another, also at the same address.
    let other = tool("other.example", "shop.example");
    let error = call(&other, json!({})).await.error.unwrap();
    assert_eq!(error, "`other.example` leads to this machine, which this tool may not connect to");
    assert_eq!(server.connections(), 1);
    assert_eq!(server.asked()[0].header("host").unwrap(), format!("shop.example:{}", server.port));
}

#[tokio::test]
async fn a_place_is_a_host_with_its_port_and_no_other_port() {
    // K10
    let server = TestServer::always(answer(200, &[("content-type", "text/plain")], "hello")).await;
    let canary = TestServer::always(answer(200, &[], "")).await;
    let mut definition = canary.definition("/");
    definition.private = vec![server.place()];
    let error = HttpTool::new(declaration(Effect::Read, &[]), &definition).unwrap_err().to_string();
    assert_eq!(
        error,
        "tool `find_order`: `http.url`: `127.0.0.1` leads to this machine, which this tool may not connect to; correct it"
    );
    assert!(call(&reader(&server.definition("/"), &[]), json!({})).await.success);
    assert_eq!(canary.connections(), 0);
}

#[test]
fn places_are_read_as_urls_read_them() {
    let own = Url::parse("https://api.example.com/").unwrap();
    let allow =
        |text: &str| Guard::new(&own, Some(&["api.example.com".to_owned(), text.to_owned()]), &[], false);
    let check = |text: &str, url: &str| allow(text).unwrap().check(&Url::parse(url).unwrap()).is_ok();
    assert!(check("CDN.example.com.", "https://cdn.example.com/x"));
    assert!(check("bücher.example", "https://xn--bcher-kva.example/"));
    assert!(check("cdn.example.com:8443", "https://cdn.example.com:8443/"));
    assert!(check("cdn.example.com:443", "https://cdn.example.com/"));
    assert!(!check("cdn.example.com", "https://cdn.example.com:8443/"), "a host alone is its usual port");
    assert!(!check("cdn.example.com", "http://cdn.example.com/"), "without encryption");
    assert!(!check("example.com", "https://cdn.example.com/"), "a part of a name");
    for wrong in ["", "https://x", "x/y", "a b", "u@x", "*.example.com", "x:y", "[::1", "x?y"] {
        let (key, message) = allow(wrong).unwrap_err();
        assert!(key == "allow" && message.contains("is not a host"), "{wrong}: {message}");
    }
    let private = |text: &str| Guard::new(&own, None, &[text.to_owned()], false).unwrap_err();
    assert_eq!(
        private("10.0.0.1"),
        ("private", "`10.0.0.1` has no port; write HOST:PORT, for example `10.0.0.1:8080`".to_owned())
    );
    assert_eq!(private("0x7f.1:80").1, "`0x7f.1:80` is another way to write `127.0.0.1`; write that");
    let error = Guard::new(&own, Some(&["cdn.example.com".to_owned()]), &[], false).unwrap_err();
    assert_eq!(error, ("allow", "the URL's own host `api.example.com` is not in it; add it".to_owned()));
}

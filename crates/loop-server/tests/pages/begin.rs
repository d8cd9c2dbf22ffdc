//! The form that begins a run, and the pages of domains: what is typed, what is refused, what it costs, for whom it is.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use loop_core::EventKind;
use loop_core::types::{PicoUsd, RunId};
use loop_runtime::budget::{SharedBudget, Span};
use loop_runtime::journal::Journal as _;
use loop_runtime::journal::audit::AuditFilter;
use loop_server::caller::{Caller, Role};
use loop_server::doors::{Audit, Identity};
use loop_server::engine::{Engine, RunFilter};
use loop_server::pages::{PageSource, router};
use tower::ServiceExt as _;

use super::inert;
use super::served::caller;
use crate::bench::{ASKS, Bench, Gate, LONG, asks, limits};

/// Items of a desk, and models that cost something.
const DESK: &str = r#"
[item.schema]
type = "object"
required = ["title", "seats"]
additionalProperties = false

[item.schema.properties.title]
type = "string"
title = "Subject"
description = "What it is about & why"
maxLength = 60

[item.schema.properties.text]
type = "string"
contentMediaType = "text/markdown"

[item.schema.properties.seats]
type = "integer"
minimum = 1
default = 2

[item.schema.properties.priority]
enum = ["low", "high"]

[item.schema.properties.urgent]
type = "boolean"

[item.schema.properties.contact]
type = "object"
properties.email.type = "string"
required = ["email"]

[models.base.price]
input_usd_per_million = 1
output_usd_per_million = 5

[limits]
cost_usd = 0.5
"#;

struct Site {
    _bench: Bench,
    engine: Engine,
    router: Router,
}

/// What was answered: the status, where it leads, the page.
type Answered = (u16, String, String);

async fn site() -> Site {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("desk", DESK);
    let engine = bench.engine_of(&["crm", "desk"], &gate, limits()).await;
    let source = PageSource {
        journal: Arc::clone(engine.journal()),
        engine: Some(engine.clone()),
        prompts: Arc::new(|_, _| None),
        audit: Audit::of(Arc::clone(engine.journal())),
    };
    Site { _bench: bench, engine, router: router(source) }
}

fn identity(caller: &Caller, day: Option<u64>) -> Identity {
    let budget = day.map(|day| SharedBudget { span: Span::TokenDay, of: "ann".into(), limit: PicoUsd(day) });
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Identity { caller: caller.clone(), has_token: true, from, budget, csrf: Some("c5".into()) }
}

impl Site {
    async fn send(&self, caller: &Caller, day: Option<u64>, mut request: Request<Body>) -> Answered {
        request.extensions_mut().insert(caller.clone());
        request.extensions_mut().insert(identity(caller, day));
        let answered = self.router.clone().oneshot(request).await.unwrap();
        let status = answered.status().as_u16();
        let to = answered.headers().get(header::LOCATION).map_or("", |to| to.to_str().unwrap()).to_owned();
        let body = to_bytes(answered.into_body(), 64 << 20).await.unwrap();
        (status, to, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self, caller: &Caller, path: &str) -> Answered {
        self.send(caller, None, Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Sends the form with these fields; a name with `@` is a file's.
    async fn post(&self, caller: &Caller, fields: &[(&str, &[u8])]) -> Answered {
        self.send(caller, None, form(fields)).await
    }

    async fn runs(&self) -> usize {
        self.engine.list(&RunFilter::default(), 200).await.unwrap().runs.len()
    }

    /// The item of the run that a form began.
    async fn item(&self, to: &str) -> loop_core::WorkItem {
        let run = RunId::new(to.rsplit(['/', '=']).next().unwrap());
        self.engine.wait(&run, LONG).await;
        let recorded = self.engine.journal().read(&run).await.unwrap();
        let EventKind::Started(started) = &recorded.entries[0].event.kind else { panic!("{recorded:?}") };
        started.item.clone()
    }
}

fn form(fields: &[(&str, &[u8])]) -> Request<Body> {
    let mut body = Vec::new();
    for (name, value) in fields {
        let (name, file) = name.split_once('@').map_or((*name, None), |(name, file)| (name, Some(file)));
        let file = file
            .map_or_else(String::new, |file| format!("; filename=\"{file}\"\r\nContent-Type: text/plain"));
        body.extend(format!("--b1\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").bytes());
        body.extend(*value);
        body.extend(b"\r\n");
    }
    body.extend(b"--b1--\r\n");
    let kind = "multipart/form-data; boundary=b1";
    Request::post("/new").header(header::CONTENT_TYPE, kind).body(Body::from(body)).unwrap()
}

/// The form of the desk with these values.
fn desk<'v>(
    key: &'v str,
    title: &'v str,
    seats: &'v str,
    contact: &'v str,
) -> [(&'static str, &'v [u8]); 10] {
    [
        ("csrf", b"c5"),
        ("domain", b"desk"),
        ("key", key.as_bytes()),
        ("item.title", title.as_bytes()),
        ("item.text", b"One\r\ntwo.\r\n\r\nnote: three"),
        ("item.seats", seats.as_bytes()),
        ("item.priority", b"high"),
        ("item.urgent", b"false"),
        ("item.contact", contact.as_bytes()),
        ("file@", b""),
    ]
}

/// Names on the page that are not of the form, and the file, which is none.
const OF_NO_FORM: [&str; 3] = ["file", "viewport", "referrer"];

fn submitter() -> Caller {
    caller(&[Role::Submit, Role::Read], None)
}

/// The value of the hidden field of this name.
fn hidden(page: &str, name: &str) -> String {
    let (_, after) =
        page.split_once(&format!("name=\"{name}\" value=\"")).unwrap_or_else(|| panic!("{name}: {page}"));
    after.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_form_is_made_of_the_schema_and_begins_one_run() {
    let site = site().await;
    let (status, _, page) = site.get(&submitter(), "/new?domain=desk").await;
    let text = inert(&page).seen();
    assert_eq!(status, 200, "{page}");
    for shown in [
        "Subject (required)",
        "What it is about & why",
        "seats (required)",
        "low",
        "In JSON.",
        "at most $0.500000",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    for made in [
        "<label for=\"field-0\">",
        "aria-describedby=\"field-0-hint\"",
        "name=\"item.seats\" value=\"2\" inputmode=\"numeric\"",
        "<textarea id=\"field-1\" name=\"item.text\"",
        "name=\"csrf\" value=\"c5\"",
    ] {
        assert!(page.contains(made), "{made}: {page}");
    }
    let key = hidden(&page, "key");
    let sent = desk(&key, "Printer <b>", "3", r#"{"email": "a@x.example"}"#);
    let first = site.post(&submitter(), &sent).await;
    assert!(first.0 == 303 && first.1.starts_with("/runs/"), "{first:?}");
    let item = site.item(&first.1).await;
    assert_eq!((&*item.title, item.caller.as_deref()), ("Printer <b>", Some("ann")));
    let expected = "title: Printer <b>\n\ntext:\n\nOne\ntwo.\n\nnote: three\n\nseats: 3\npriority: high\nurgent: false\n\
                    contact:\n- email: a@x.example";
    assert_eq!(&*item.full, expected);
    // A double click, and a form that is sent again.
    let who = submitter();
    let (again, twice) = tokio::join!(site.post(&who, &sent), site.post(&who, &sent));
    assert_eq!((&again.1, &twice.1, site.runs().await), (&first.1, &first.1, 1));
    // The same form with something else in it is another request, which is sent on purpose.
    let other = desk(&key, "Scanner", "3", "");
    let (status, _, page) = site.post(&submitter(), &other).await;
    let text = inert(&page).seen();
    assert_eq!((status, site.runs().await), (422, 1));
    assert!(text.contains("This form was sent before") && page.contains("value=\"Scanner\""), "{text}");
    let next = hidden(&page, "key");
    assert_ne!(next, key);
    let (status, to, _) = site.post(&submitter(), &desk(&next, "Scanner", "3", "")).await;
    assert!(status == 303 && to != first.1);
    let log =
        site.engine.journal().audit_lines(&AuditFilter { limit: 9, ..AuditFilter::default() }).await.unwrap();
    let log = log.iter().rev().map(|line| line.entry.as_ref().unwrap());
    let log: Vec<_> =
        log.map(|it| format!("{} {} {}", it.action.name(), it.result.name(), it.run.is_some())).collect();
    assert_eq!(
        log,
        [
            "submit done true",
            "submit again true",
            "submit again true",
            "submit refused false",
            "submit done true"
        ]
    );
}

#[tokio::test]
async fn what_is_wrong_is_said_at_its_field_and_what_was_typed_stays() {
    let site = site().await;
    let long = "x".repeat(61);
    for (title, seats, contact, at, says) in [
        ("", "3", "", "field-0-error", "it is required"),
        (&*long, "3", "", "field-0-error", "has 61 characters, the maximum is 60"),
        ("A", "", "", "field-2-error", "it is required"),
        ("A", "many <i>", "", "field-2-error", "it is not a whole number"),
        ("A", "2.5", "", "field-2-error", "it is not a whole number"),
        ("A", "99999999999999999999", "", "field-2-error", "it is not a whole number"),
        ("A", "0", "", "field-2-error", "less than the minimum of 1"),
        (
            "A",
            "3",
            "{\"email\": ",
            "field-5-error",
            "it is not JSON: EOF while parsing a value at line 1 column 9",
        ),
        ("A", "3", "{}", "field-5-error", "email: is required"),
        ("A", "3", "7", "field-5-error", "is not of type"),
    ] {
        let (status, _, page) = site.post(&submitter(), &desk("k", title, seats, contact)).await;
        let text = inert(&page).seen();
        assert_eq!(status, 422, "{says}");
        let error =
            page.split_once(&format!("id=\"{at}\">")).map(|(_, after)| after.split('<').next().unwrap());
        assert!(error.is_some_and(|error| error.contains(says)), "{says}: {error:?} {text}");
        assert!(page.contains("note: three") && page.contains("<option value=\"high\" selected>"), "{page}");
        assert!(page.contains(&format!("{at}\"")) && page.contains("aria-invalid=\"true\""), "{page}");
        assert_eq!(hidden(&page, "key"), "k");
    }
    let mut other = desk("k", "A", "3", "");
    other[6].1 = b"middle";
    let (status, _, page) = site.post(&submitter(), &other).await;
    assert!(status == 422 && page.contains("it is none of these"), "{page}");
    let blank: [(&str, &[u8]); 4] =
        [("csrf", b"c5"), ("domain", b"crm"), ("key", b"k"), ("item.text", b" \r\n ")];
    let (status, _, page) = site.post(&submitter(), &blank).await;
    assert!(status == 422 && page.contains("write what the run works on"), "{page}");
    assert_eq!(site.runs().await, 0);
}

#[tokio::test]
async fn a_file_takes_the_place_of_the_fields_within_the_bounds_of_the_command() {
    let site = site().await;
    let large = vec![b'x'; (1 << 20) + 1];
    let with = |name: &'static str, bytes: &'static [u8]| {
        [("csrf", &b"c5"[..]), ("domain", b"desk"), ("key", b"k"), (name, bytes)]
    };
    for (file, says) in [
        (with("file@a.json", b"[1]"), "a.json: it is not a JSON object"),
        (with("file@a.md", b"caf\xe9"), "a.md: it is not UTF-8 text"),
        (with("file@a.json", b"{\"title\": 1"), "a.json:1:11: the work item is not JSON"),
        (
            with("file@a.json", b"{\"title\": \"A\"}"),
            "a.json: the work item does not fit `item.schema`: /seats: is required",
        ),
        (with("file@a.md", b""), "a.md: the work item is empty"),
        (with("file@a.md", large.leak()), "the work item has more than 1048576 bytes"),
    ] {
        let (status, _, page) = site.post(&submitter(), &file).await;
        let text = inert(&page).seen();
        assert_eq!(status, 422, "{says}");
        let error =
            page.split_once("id=\"file-error\">").map(|(_, after)| after.split("</p>").next().unwrap());
        assert!(error.is_some_and(|error| error.contains(says)), "{says}: {error:?} {text}");
    }
    assert_eq!(site.runs().await, 0);
    let json = with("file@dir/T-9.json", "\u{feff}{\"title\": \"Größe\", \"seats\": 1}".as_bytes());
    let (status, to, page) = site.post(&submitter(), &json).await;
    assert_eq!(status, 303, "{page}");
    let item = site.item(&to).await;
    assert_eq!((&*item.id, &*item.title), ("T-9", "Größe"));
}

#[tokio::test]
async fn a_run_is_begun_again_with_its_item() {
    let site = site().await;
    for (domain, file, bytes) in [
        (
            "desk",
            "file@T-1.json",
            &br#"{"title": "A: b", "text": "One\n\nnote: two", "seats": 4, "contact": {"email": "a@x"}}"#[..],
        ),
        ("crm", "file@Q 1.md", b"# Who is Bob?\n\nTell me <b>.\n\nid: 7"),
        ("crm", "file@q.json", br#"{"id": "Q-2", "title": "Who is Bob?", "text": "one\ntwo"}"#),
    ] {
        let sent =
            [("csrf", &b"c5"[..]), ("domain", domain.as_bytes()), ("key", file.as_bytes()), (file, bytes)];
        let (status, to, page) = site.post(&submitter(), &sent).await;
        assert_eq!(status, 303, "{page}");
        let item = site.item(&to).await;
        let (_, _, page) = site.get(&submitter(), &to).await;
        let again = format!("/new?from={}", to.rsplit('/').next().unwrap());
        assert!(page.contains(&format!("href=\"{again}\"")), "{page}");
        let (status, _, page) = site.get(&submitter(), &again).await;
        let tree = inert(&page);
        assert_eq!(status, 200, "{page}");
        // Everything that a browser sends of the form as it is.
        let mut fields = Vec::new();
        for node in tree.all() {
            let Some(name) = node.attribute("name") else { continue };
            let value = node.attribute("value").map_or_else(|| node.chosen(), str::to_owned);
            fields.push((name.to_owned(), value.trim_start_matches('\n').replace('\n', "\r\n")));
        }
        let fields =
            fields.iter().filter(|(name, _)| !name.contains([' ', '-']) && !OF_NO_FORM.contains(&&**name));
        let fields: Vec<_> = fields.map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let (status, to, page) = site.post(&submitter(), &fields).await;
        assert_eq!(status, 303, "{page}");
        assert_eq!(site.item(&to).await, item);
    }
    // For those alone who may begin a run there, and read this one.
    let submitted = site
        .engine
        .submit(loop_server::engine::NewRun { domain: Some("crm".into()), ..asks(ASKS) })
        .await
        .unwrap();
    site.engine.wait(&submitted.run, LONG).await;
    let path = format!("/runs/{}", submitted.run);
    let (_, _, page) = site.get(&caller(&[Role::Read], None), &path).await;
    assert!(!page.contains("/new?from="), "{page}");
    for (who, status) in [
        (caller(&[Role::Read], None), 403),
        (caller(&[Role::Submit], None), 404),
        (caller(&[Role::Submit, Role::Read], Some(&["desk"])), 404),
    ] {
        let (got, _, page) = site.get(&who, &format!("/new?from={}", submitted.run)).await;
        assert!(got == status && !page.contains("Bob"), "{got}: {page}");
    }
}

#[tokio::test]
async fn a_domain_and_its_form_are_for_those_who_see_it() {
    let site = site().await;
    let form_of = |domain: &'static [u8]| {
        [("csrf", &b"c5"[..]), ("domain", domain), ("key", b"k"), ("item.text", b"Hi")]
    };
    for (who, get, post, domain) in [
        (caller(&[Role::Admin], None), 200, 303, 200),
        (caller(&[Role::Submit], Some(&["crm"])), 200, 303, 200),
        (caller(&[Role::Read], None), 403, 403, 200),
        (caller(&[Role::Approve], None), 403, 403, 200),
        (caller(&[Role::Submit, Role::Read], Some(&["desk"])), 404, 404, 404),
    ] {
        let got = site.get(&who, "/new?domain=crm").await;
        let posted = site.post(&who, &form_of(b"crm")).await;
        let page = site.get(&who, "/domains/crm").await;
        assert_eq!((got.0, posted.0, page.0), (get, post, domain), "{who:?}");
        if domain == 404 {
            for page in [
                got.2,
                posted.2,
                page.2.clone(),
                site.get(&who, "/domains").await.2,
                site.get(&who, "/new").await.2,
            ] {
                assert!(!page.contains("people register") && !page.contains("crm"), "{page}");
            }
        }
        assert_eq!(page.2.contains("/new?domain=crm"), get == 200, "{who:?}");
    }
    // Whoever may not read the run is led back, and no other run is named there.
    let (_, to, _) = site
        .post(
            &caller(&[Role::Submit], None),
            &[("csrf", b"c5"), ("domain", b"crm"), ("key", b"k2"), ("item.text", b"Hi")],
        )
        .await;
    let (_, _, page) = site.get(&caller(&[Role::Submit], None), &to).await;
    assert!(to.contains("begun=") && inert(&page).seen().contains("is accepted"), "{to} {page}");
    let (_, _, page) = site.get(&submitter(), "/new?domain=desk&begun=r1%20is%20yours").await;
    assert!(!page.contains("is accepted"), "{page}");
    let broken = Request::post("/new").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let broken = broken.body(Body::from("csrf=c5&domain=crm&key=k&item.text=Hi")).unwrap();
    assert_eq!(site.send(&submitter(), None, broken).await.0, 400);
    for domain in ["nope", "", "..", "crm%00"] {
        assert_eq!(site.get(&submitter(), &format!("/domains/{domain}")).await.0, 404, "{domain}");
    }
}

#[tokio::test]
async fn a_domain_says_what_it_may_do_and_what_it_costs() {
    let site = site().await;
    let (status, _, list) = site.get(&submitter(), "/domains").await;
    let text = inert(&list).seen();
    assert!(
        status == 200 && text.contains("crm Find people in the register") && text.contains("limits: "),
        "{text}"
    );
    let (status, _, page) = site.get(&submitter(), "/domains/desk").await;
    let text = inert(&page).seen();
    assert_eq!(status, 200);
    for shown in [
        "search_user",
        "write_idempotent",
        "a person can be asked",
        "limits: 10 passes, $0.500000 (estimated)",
        "If each pass uses the most that it may",
        "offline/offline-1",
        "price of a million tokens: input $1.000000, output $5.000000",
        "A run costs at most $0.500000",
        "Begin a run",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!page.contains("/tmp"), "{page}");
    // The day of the token binds before the limit of the domain.
    for (day, says) in [
        (
            200_000_000_000,
            "A run costs at most $0.200000 , all that is left of today's budget of the token ann",
        ),
        (0, "Nothing can be spent now"),
        (2_000_000_000_000, "A run costs at most $0.500000 , as the limits of the domain say"),
    ] {
        let path = Request::get("/new?domain=desk").body(Body::empty()).unwrap();
        let (_, _, page) = site.send(&submitter(), Some(day), path).await;
        let text = inert(&page).seen();
        assert!(text.contains(says), "{says}: {text}");
    }
    let (_, _, page) = site.get(&submitter(), "/new?domain=crm").await;
    assert!(inert(&page).seen().contains("A run costs nothing , as the limits"), "{page}");
}

//! Where a webhook may lead.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::Webhook;

#[test]
fn an_address_on_this_machine_or_without_encryption_has_to_be_allowed() {
    // K10: the guard of tools, for the address itself.
    let open = |url: &str, private: &[&str], plain: bool| {
        let private: Vec<String> = private.iter().map(|place| (*place).to_owned()).collect();
        Webhook::new(url, &private, plain).map(drop)
    };
    open("https://hooks.example/in", &[], false).unwrap();
    open("http://127.0.0.1:9000/in", &["127.0.0.1:9000"], true).unwrap();
    for (url, private, plain, key) in [
        ("hooks.example/in", &[][..], false, "url"),
        ("http://hooks.example/in", &[], false, "url"),
        ("https://127.0.0.1:9000/in", &[], true, "url"),
        ("https://169.254.169.254/latest", &[], false, "url"),
        ("https://[::1]:9000/", &[], false, "url"),
        ("https://user:word@hooks.example/", &[], false, "url"),
        ("https://127.0.0.1:9000/", &["127.0.0.1"], false, "private"),
    ] {
        let (at, message) = open(url, private, plain).unwrap_err();
        assert!(at == key && !message.contains('\n'), "{url}: {at}: {message}");
    }
}

#[tokio::test]
async fn a_name_that_leads_into_this_machine_is_refused_when_it_is_asked() {
    // K10: what the name resolves to is judged at each connection.
    let hook = Webhook::new("https://localhost/in", &[], false).unwrap();
    let error = hook.send(json!({}), &[("webhook-id", "msg_1".to_owned())]).await.unwrap_err();
    assert!(error.starts_with("localhost: ") && !error.contains("127.0.0.1"), "{error}");
}

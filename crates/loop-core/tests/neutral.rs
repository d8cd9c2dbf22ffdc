//! The loop knows no domain: what the work is about changes no decision.

use loop_core::types::{Observation, Scope, Status};
use loop_core::{Note, StopReason};
use loop_testkit::*;

fn decisions(kind: &str) -> Vec<Note> {
    let mut setup = run();
    setup.item.kind = kind.into();
    setup.item.id = format!("{kind}-1").into();
    setup.item.scope = Scope { account: Some("acme".into()), person: Some(kind.into()), ..Scope::default() };
    let requested = draft("low").asks("fetch_device", target("a"));
    let world = setup.start().replied(&requested).all_finished().replied(&draft("high"));
    let world = world.ends(StopReason::Confident);
    world.all_notes().cloned().collect()
}

#[test]
fn tickets_leads_and_pull_requests_are_decided_alike() {
    // S0-3, S0-140
    for kind in ["lead", "pull_request", "order", "intake", "transaction"] {
        assert_eq!(decisions(kind), decisions("ticket"));
    }
}

#[test]
fn whom_the_work_concerns_is_kept_as_data_with_the_first_event() {
    // S0-63, S0-64: without a credential, which has no place there.
    let scope = Scope {
        account: Some("acme".into()),
        account_name: Some("Acme Inc.".into()),
        asset: Some("web-1".into()),
        item: Some("T-1".into()),
        person: Some("ann@acme.example".into()),
    };
    let mut setup = run();
    setup.item.scope = scope.clone();
    let world = setup.start();
    assert_eq!(reread(&world.journal[0].0), world.journal[0].0);
    assert_eq!(world.run.started().item.scope, scope);
    assert!(serde_json::from_str::<Scope>(r#"{"token": "x"}"#).is_err());
}

#[test]
fn a_failure_is_a_text_that_the_model_can_act_on() {
    // S0-67
    let failed = Observation::failed(Status::PermanentError, "Device", "no such device");
    assert_eq!(&*failed.summary, "no such device");
    let failure = failed.failure.as_ref().map(|failure| (&*failure.title, &*failure.message));
    assert_eq!((failure, &*failed.markdown), (Some(("Device", "no such device")), ""));
    assert_eq!((&*failed.data, failed.status.is_citable()), ("null", false));
}

#[test]
fn equal_data_has_an_equal_digest_whatever_its_spelling() {
    // C24
    let observation = |data: &str| Observation::new(Status::Ok, "s", "m", data);
    assert_eq!(observation(r#"{"a": 1, "b": [2]}"#).digest, observation(r#"{"b":[2],"a":1}"#).digest);
    assert_ne!(observation(r#"{"a": 1}"#).digest, observation(r#"{"a": 2}"#).digest);
    assert_ne!(observation("no json").digest, observation("No json").digest);
}

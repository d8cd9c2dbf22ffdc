//! Tests of templates: what they may name, and what they become.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use loop_core::types::Scope;
use serde_json::json;

use super::*;

fn known(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn rendered(template: &Value, parameters: &Value) -> Result<Option<Value>, Trouble> {
    let names = known(&["a", "b", "list"]);
    let template = JsonTemplate::parse(template, &mut Names::new(&names)).unwrap();
    let scope = Scope { account: Some("A-7".into()), person: Some(" ".into()), ..Scope::default() };
    template.render(&Values { parameters, scope: &scope, key: "r/1/action-0" })
}

#[test]
fn a_text_that_is_only_a_place_is_the_argument_as_it_is() {
    let template = json!({
        "number": "{a}", "text": "n{a}", "none": "{b}", "empty": "x{b}", "list": ["{list}", "{b}", 1],
        "account": "{scope.account}", "key": "{call_key}", "brace": "{{a}} }}{{", "{a}": true, "nothing": null,
    });
    let value =
        rendered(&template, &json!({ "a": 7, "b": null, "list": [true, { "x": 1 }] })).unwrap().unwrap();
    let expected = json!({
        "number": 7, "text": "n7", "empty": "x", "list": [[true, { "x": 1 }], 1],
        "account": "A-7", "key": "r/1/action-0", "brace": "{a} }{", "{a}": true, "nothing": null,
    });
    assert_eq!(value, expected);
    assert_eq!(rendered(&json!("{b}"), &json!({})).unwrap(), None);
    // What a template makes of an argument is not a template again.
    let value = rendered(&json!("x{a}"), &json!({ "a": "{b} {{ {call_key}" })).unwrap();
    assert_eq!(value, Some(json!("x{b} {{ {call_key}")));
}

#[test]
fn what_the_work_item_does_not_name_ends_the_call_instead_of_widening_it() {
    for part in ["account_name", "asset", "item", "person"] {
        let error = rendered(&json!([format!("{{scope.{part}}}")]), &json!({})).unwrap_err();
        let what = part.replace('_', " ");
        assert_eq!(
            error,
            Trouble::Permanent(format!(
                "the work item names no {what}, and this tool is only for one that does"
            ))
        );
    }
}

#[test]
fn a_name_that_nobody_gives_is_refused_with_those_that_there_are() {
    let names = known(&["order"]);
    let refused = |text: &str| Template::parse(text, &mut Names::new(&names)).unwrap_err();
    assert_eq!(
        refused("/{ordr}"),
        "it names `{ordr}`, which is unknown here; use one of {order}, {scope.account}, {scope.account_name}, \
         {scope.asset}, {scope.item}, {scope.person}, {call_key}"
    );
    for unknown in ["{}", "{scope.x}", "{scope}", "{ order}", "{order }", "{ORDER}", "{env.HOME}", "{a\nb}"] {
        assert!(refused(unknown).starts_with("it names `{"), "{unknown}");
    }
    for broken in ["{order", "order}", "{{order}", "{order}}", "}", "{", "{or{der}"] {
        assert_eq!(
            refused(broken),
            "a brace in it has no partner; write `{{` or `}}` for a brace",
            "{broken}"
        );
    }
}

#[test]
fn a_parameter_that_is_not_sent_is_known() {
    let parameters = known(&["a", "b", "call_key"]);
    let mut names = Names::new(&parameters);
    Template::parse("{a} {call_key}", &mut names).unwrap();
    assert_eq!((names.unused(), names.use_key()), (Some("b"), true));
    names.note("b");
    assert_eq!(names.unused(), Some("call_key"), "the key of the call has this name");
}

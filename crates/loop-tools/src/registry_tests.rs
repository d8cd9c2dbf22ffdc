//! What a registry refuses, and what it says about the tools that it has.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::result::ToolResult;
use loop_core::types::Effect;
use serde_json::json;

fn declare(name: &str) -> ToolDeclaration {
    ToolDeclaration::new(name).description(format!("About {name}")).effect(Effect::Read)
}

fn build(declarations: impl IntoIterator<Item = ToolDeclaration>) -> Result<Registry, RegistryError> {
    let builder = Registry::builder();
    let add = |builder: RegistryBuilder, declaration: ToolDeclaration| {
        let name = declaration.name.to_string();
        builder.tool_fn(declaration, move |_, _, _| {
            std::future::ready(ToolResult::ok(name.clone(), "s", "m", 1))
        })
    };
    declarations.into_iter().fold(builder, add).build()
}

#[track_caller]
fn refused(declarations: impl IntoIterator<Item = ToolDeclaration>, expected: &str) {
    let message = build(declarations).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
    assert!(!message.contains('\n'), "{message}");
}

#[test]
fn a_tool_without_an_effect_is_refused() {
    // K1: fail closed, with a message that names the tool.
    refused([ToolDeclaration::new("fetch_x")], "tool `fetch_x`: it declares no effect");
}

#[test]
fn names_that_a_model_cannot_be_sent_are_refused() {
    // S0-78
    for bad in ["", "1st", "-x", "fetch x", "fetch.x", "fétch", "x\ny", &"x".repeat(65)] {
        refused([declare(bad)], "its name must be 1 to 64 of");
        refused([declare("fetch_x").alias(bad)], "tool `fetch_x`: its alias");
    }
    for good in ["x", "_x", "X-1", &"x".repeat(64)] {
        assert!(build([declare(good)]).is_ok(), "{good}");
    }
}

#[test]
fn no_name_means_two_tools() {
    // S0-84, S0-d2: whichever comes first, nothing is decided by order.
    refused([declare("fetch_x"), declare("fetch_x")], "tool `fetch_x`: another tool has this name");
    let alias_of_later = [declare("fetch_x").alias("fetch_y"), declare("fetch_y")];
    refused(alias_of_later, "tool `fetch_x`: its alias `fetch_y` is already a name of `fetch_y`");
    let alias_of_earlier = [declare("fetch_y"), declare("fetch_x").alias("fetch_y")];
    refused(alias_of_earlier, "tool `fetch_x`: its alias `fetch_y` is already a name of `fetch_y`");
    let shared_alias = [declare("fetch_x").alias("z"), declare("fetch_y").alias("z")];
    refused(shared_alias, "tool `fetch_y`: its alias `z` is already a name of `fetch_x`");
    refused([declare("x").alias("x")], "tool `x`: its alias `x` is already a name of `x`");
    refused([declare("x").alias("y").alias("y")], "tool `x`: its alias `y` is already a name of `x`");
}

#[test]
fn limits_of_zero_are_refused() {
    // S0-94
    refused([declare("x").timeout_ms(0)], "tool `x`: its `timeout_ms` must be at least 1");
    refused([declare("x").attempts(0)], "tool `x`: its `attempts` must be at least 1");
}

#[test]
fn only_object_schemas_that_compile_are_taken() {
    for bad in [
        json!({}),
        json!(true),
        json!(null),
        json!([]),
        json!({ "type": "array" }),
        json!({ "type": ["object"] }),
    ] {
        refused([declare("x").schema(bad)], "tool `x`: its schema must be");
    }
    let does_not_compile = [
        json!({ "type": "object", "required": "target" }),
        json!({ "type": "object", "properties": { "a": { "type": "strng" } } }),
        json!({ "type": "object", "properties": { "a": { "pattern": "(" } } }),
    ];
    for bad in does_not_compile {
        refused([declare("x").schema(bad)], "tool `x`: its schema does not compile");
    }
}

#[test]
fn a_schema_cannot_make_us_read_a_file_or_a_network() {
    for outside in ["file:///etc/passwd", "http://169.254.169.254/latest"] {
        let schema = json!({ "type": "object", "properties": { "a": { "$ref": outside } } });
        refused([declare("x").schema(schema.clone())], "tool `x`: its schema does not compile");
        refused([declare("x").schema(schema)], outside);
    }
}

#[test]
fn tools_are_listed_in_the_order_of_registration() {
    // S0-83, S0-84, S0-85
    let registry =
        build([declare("fetch_z"), declare("fetch_device_info").alias("fetch_devices").smart(true)]).unwrap();
    let specs = registry.specs();
    assert_eq!(specs.iter().map(|spec| &*spec.name).collect::<Vec<_>>(), ["fetch_z", "fetch_device_info"]);
    assert_eq!(specs.last(), declare("fetch_device_info").alias("fetch_devices").smart(true).spec().as_ref());
    let listed: Vec<(Arc<str>, Arc<str>, Arc<str>)> =
        registry.names().into_iter().map(|listed| (listed.name, listed.tool, listed.description)).collect();
    let expected = [
        ("fetch_z", "fetch_z", "About fetch_z"),
        ("fetch_device_info", "fetch_device_info", "About fetch_device_info"),
        ("fetch_devices", "fetch_device_info", "Alias for fetch_device_info"),
    ];
    assert_eq!(listed, expected.map(|(name, tool, about)| (name.into(), tool.into(), about.into())));
    assert_eq!(format!("{registry:?}"), r#"["fetch_z", "fetch_device_info"]"#);
}

#[test]
fn names_resolve_to_the_letter_or_by_alias() {
    // S0-84, S0-87, S0-d1, S0-d2, S0-d3: an alias and its tool are the same action.
    let registry =
        build([declare("fetch_device_info").alias("fetch_devices"), declare("fetch_user_info")]).unwrap();
    let canonical = Some(Arc::from("fetch_device_info"));
    assert_eq!(registry.resolve("fetch_device_info"), canonical);
    assert_eq!(registry.resolve("fetch_devices"), canonical);
    for name in ["", "fetch_", "fetch_device", "Fetch_devices", " fetch_devices"] {
        assert_eq!(registry.resolve(name), None, "{name:?}");
    }
    assert_eq!(registry.similar(""), []);
    assert_eq!(registry.similar("fetch_device"), [Arc::from("fetch_device_info")]);
    assert_eq!(registry.similar("fetch_").len(), 2);
}

#[test]
fn the_manifest_hash_changes_with_everything_that_is_declared() {
    let hash = |declaration: ToolDeclaration| build([declaration]).unwrap().manifest_hash();
    let base = hash(declare("x"));
    assert_eq!(base, hash(declare("x")));
    let changed = [
        declare("y"),
        declare("x").title("Other"),
        declare("x").alias("z"),
        declare("x").description("Other"),
        declare("x").when("Other"),
        declare("x").schema(json!({ "type": "object", "maxProperties": 3 })),
        declare("x").effect(Effect::Exec),
        declare("x").timeout_ms(1),
        declare("x").attempts(1),
        declare("x").smart(true),
        ToolDeclaration { connects_to: Some("https://x.example/".into()), ..declare("x") },
    ];
    for declaration in changed {
        assert_ne!(base, hash(declaration.clone()), "{declaration:?}");
    }
    let [ab, ba] = [["a", "b"], ["b", "a"]].map(|names| build(names.map(declare)).unwrap().manifest_hash());
    assert_ne!(ab, ba, "the order is the order in which prompts list the tools");
}

#[derive(serde::Deserialize, JsonSchema)]
struct Args {
    /// Which device.
    target: String,
    #[serde(default)]
    depth: Option<u32>,
}

#[test]
fn a_typed_tool_takes_its_schema_from_the_type() {
    // S0-59
    let registry = Registry::builder()
        .typed::<Args, _, _>(declare("fetch_x"), |args: Args, _: ToolContext| async move {
            ToolResult::ok("fetch_x", format!("{}{:?}", args.target, args.depth), "m", 1)
        })
        .build()
        .unwrap();
    let schema = &registry.declarations().next().unwrap().schema;
    let expected = json!({
        "type": "object",
        "properties": {
            "target": { "type": "string", "description": "Which device." },
            "depth": { "type": ["integer", "null"], "format": "uint32", "minimum": 0, "default": null },
        },
        "required": ["target"],
    });
    assert_eq!(schema, &expected);
}

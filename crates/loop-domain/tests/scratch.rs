//! Scratch.
#![allow(clippy::all, missing_docs)]
use loop_domain::*;
#[tokio::test]
async fn scratch() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let domain = Domain::load(root.join("helpdesk"), &LoadOptions::default()).unwrap();
    println!("{}", domain.report().lines.join("\n"));
    for n in std::env::var("T").unwrap_or("1042".into()).split(',') {
        let text = std::fs::read_to_string(root.join(format!("helpdesk/tickets/T-{n}.json"))).unwrap();
        let item = domain.item(&text, "t.json").unwrap();
        let out = domain.to_loop().run(item).await.unwrap();
        println!("=== {n}: {} {:?}", out.stop.reason(), out.totals);
        for e in &out.evidence { println!("  {:?}", e).as_str_len(); }
        println!("{}", out.document.to_markdown());
    }
}
trait L { fn as_str_len(&self); }
impl L for () { fn as_str_len(&self) {} }

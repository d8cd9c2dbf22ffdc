//! The README of the crate shows the program that the example holds.

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_readme_shows_the_example_as_it_is_and_it_has_fifteen_lines() {
    // S1-33
    let example = read("examples/fifteen.rs");
    let program =
        example.split_once("use loop_domain").map(|(_, rest)| format!("use loop_domain{rest}")).unwrap();
    assert!(read("README.md").contains(program.trim_end()), "README.md shows another program");
    assert!(program.lines().filter(|line| !line.trim().is_empty()).count() <= 15, "{program}");
}

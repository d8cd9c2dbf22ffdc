//! Tools of kind `http`: what a program without the feature says, in `tool` what one with it does, in `openapi` what an
//! OpenAPI document becomes, and in `documents` what those of public services become.

#[cfg(feature = "http")]
mod documents;
#[cfg(feature = "http")]
mod openapi;
#[cfg(feature = "http")]
mod tool;

#[cfg(not(feature = "http"))]
#[test]
fn a_program_without_the_feature_says_how_to_build_one_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = "version = 1\nname = \"shop\"\n[[section]]\nid = \"a\"\nheading = \"A\"\n[tools.find_order]\nkind = \"http\"\n\
                effect = \"read\"\nhttp = { url = \"https://api.example.com/\" }\n";
    std::fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let options = loop_domain::LoadOptions::default();
    let error = loop_domain::Domain::load(folder.path(), &options).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "loopgate.toml:7:1: this program was built without tools of kind `http`; build it with `--features http`"
        ),
        "{error}"
    );
    let off = text.replace("kind = \"http\"\n", "kind = \"http\"\nenabled = false\n");
    std::fs::write(folder.path().join("loopgate.toml"), off).unwrap();
    loop_domain::Domain::load(folder.path(), &options).unwrap();
}

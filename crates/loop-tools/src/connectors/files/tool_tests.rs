//! K11: what a path, a link and a race can reach, which is nothing outside of the folder; and what each work returns.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Registry;
use loop_core::types::{Effect, Observation, Status};

use super::*;

/// What no result may ever hold.
const SECRET: &str = "SECRET-OF-THE-OUTSIDE";

/// A folder with an outside beside it, in one that is removed at the end.
struct World {
    all: tempfile::TempDir,
}

impl World {
    fn with(files: &[(&str, &str)]) -> Self {
        let all = tempfile::tempdir().unwrap();
        fs::create_dir(all.path().join("in")).unwrap();
        fs::create_dir(all.path().join("out")).unwrap();
        for (path, text) in files {
            let path = all.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { all }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.all.path().join(path)
    }

    fn tool(&self, work: FilesWork) -> FilesTool {
        self.tool_with(work, |_| {})
    }

    fn tool_with(&self, work: FilesWork, change: impl Fn(&mut FilesSettings)) -> FilesTool {
        let mut settings = FilesSettings::new(self.at("in"), work);
        change(&mut settings);
        FilesTool::new(declared(work), &settings).unwrap()
    }
}

fn declared(work: FilesWork) -> ToolDeclaration {
    let effect = if work.writes() { Effect::WriteIdempotent } else { Effect::Read };
    ToolDeclaration::new("use_files").title("Files").schema(work.schema()).effect(effect)
}

async fn call(tool: FilesTool, parameters: Value) -> Observation {
    let registry = Registry::builder().tool(tool).build().unwrap();
    let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
    registry.dispatch("use_files", &parameters, context, &Credentials::none(), 10_000, 100_000).await
}

#[track_caller]
fn check(seen: &Observation, status: Status, text: &str) {
    assert_eq!(seen.status, status, "{seen:?}");
    assert!(seen.text().contains(text), "{}\nhas no: {text}", seen.text());
}

/// The text of a file, or why not.
fn text_of(tool: &FilesTool, path: &str) -> Result<String, String> {
    match tool.work(&json!({ "path": path }), &CancellationToken::new()) {
        Ok(FileResult::Lines(lines)) => Ok(lines.lines.join("\n")),
        Ok(_) => panic!("it is a tool that reads"),
        Err(Refusal::Input(message) | Refusal::Failed(message)) => Err(message),
        Err(Refusal::Cancelled) => panic!("nobody cancelled it"),
    }
}

/// A world with every trap that a folder can have.
#[cfg(unix)]
fn traps() -> World {
    use std::os::unix::fs::symlink;
    let world = World::with(&[
        ("in/a.md", "inside a"),
        ("in/sub/b.md", "inside b"),
        ("in/sub/deep/c.md", "inside c"),
        ("in/\u{fc}n\u{ef}/\u{65e5}\u{672c}.md", "inside unicode"),
        ("in/a\u{301}.md", "inside combined"),
        ("in/with blank.md", "inside blank"),
        ("in/~", "inside tilde"),
        ("in/%2e%2e", "inside percent"),
        ("in/a\\b.md", "inside backslash"),
        ("in/....md", "dots"),
        ("in/.hidden.md", SECRET),
        ("in/.git/config", SECRET),
        ("in/sub/.env", SECRET),
        ("out/secret.md", SECRET),
        ("out/a.md", SECRET),
        ("out/sub/b.md", SECRET),
    ]);
    let outside = world.at("out");
    let links: [(&Path, &str); 17] = [
        (Path::new("a.md"), "link_in.md"),
        (Path::new("sub"), "link_sub"),
        (Path::new("../a.md"), "sub/link_up.md"),
        (&outside.join("secret.md"), "link_out.md"),
        (Path::new("../out/secret.md"), "link_relative.md"),
        (Path::new("../../out/secret.md"), "sub/link_relative.md"),
        (&outside, "link_folder"),
        (Path::new("../out"), "link_beside"),
        (Path::new("loop2"), "loop1"),
        (Path::new("loop1"), "loop2"),
        (Path::new("link_self"), "link_self"),
        (Path::new("/"), "link_root"),
        (Path::new("/proc/self/root"), "link_proc"),
        (Path::new("/dev/zero"), "link_zero"),
        (Path::new("/dev/stdin"), "link_stdin"),
        (Path::new("nowhere"), "dangling"),
        (Path::new(".hidden.md"), "link_hidden.md"),
    ];
    for (to, name) in links {
        symlink(to, world.at("in").join(name)).unwrap();
    }
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, world.at("in/pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::os::unix::net::UnixListener::bind(world.at("in/socket")).unwrap();
    // Only root may make a device. Whether there is one does not change what is expected.
    let zero = rustix::fs::makedev(1, 5);
    let _ = rustix::fs::mknodat(
        rustix::fs::CWD,
        world.at("in/device"),
        rustix::fs::FileType::CharacterDevice,
        mode,
        zero,
    );
    world
}

#[cfg(unix)]
#[test]
fn a_path_reaches_a_file_of_the_folder_or_nothing() {
    let start = Instant::now();
    let world = traps();
    let read = world.tool(FilesWork::Read);
    let inside = [
        ("a.md", "inside a"),
        ("./a.md", "inside a"),
        ("././a.md", "inside a"),
        ("sub/b.md", "inside b"),
        ("sub//b.md", "inside b"),
        ("sub/./b.md", "inside b"),
        ("sub/deep/c.md", "inside c"),
        ("sub/../a.md", "inside a"),
        ("sub/deep/../../a.md", "inside a"),
        ("\u{fc}n\u{ef}/\u{65e5}\u{672c}.md", "inside unicode"),
        ("a\u{301}.md", "inside combined"),
        ("with blank.md", "inside blank"),
        ("~", "inside tilde"),
        ("%2e%2e", "inside percent"),
        ("a\\b.md", "inside backslash"),
        ("link_in.md", "inside a"),
        ("link_sub/b.md", "inside b"),
        ("link_sub/deep/c.md", "inside c"),
        ("sub/link_up.md", "inside a"),
        (".git/../a.md", "inside a"),
    ];
    for (path, text) in inside {
        assert_eq!(text_of(&read, path).as_deref(), Ok(text), "{path}");
    }
    let outside = world.at("out/secret.md");
    let long = "x".repeat(300);
    let longest = "sub/../".repeat(2_000) + "a.md";
    let deep = "../".repeat(500) + "etc/passwd";
    let absolute_in = world.at("in/a.md");
    let refused = [
        "",
        ".",
        "./",
        "/",
        "..",
        "../",
        "../..",
        "sub",
        "sub/",
        "sub/..",
        "sub/.",
        "//",
        "...",
        "../out/secret.md",
        "../in/../out/secret.md",
        "sub/../../out/secret.md",
        "./../out/secret.md",
        "sub/deep/../../../out/secret.md",
        "..//out/secret.md",
        "../out/../out/secret.md",
        "a.md/../../out/secret.md",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "/proc/self/cwd/Cargo.toml",
        "/dev/zero",
        "/dev/stdin",
        "/dev/fd/0",
        outside.to_str().unwrap(),
        absolute_in.to_str().unwrap(),
        &deep,
        "proc/self/root/etc/passwd",
        "file:///etc/passwd",
        "~/secret.md",
        "~root",
        "$HOME",
        "%2e%2e/out/secret.md",
        "..\\out\\secret.md",
        "C:\\secret.md",
        "\\\\server\\share",
        "\u{2025}/out/secret.md",
        "\u{ff0e}\u{ff0e}/out/secret.md",
        "link_out.md",
        "link_relative.md",
        "sub/link_relative.md",
        "link_folder/secret.md",
        "link_folder/a.md",
        "link_beside/secret.md",
        "link_folder/../out/secret.md",
        "link_root/etc/passwd",
        "link_proc/etc/passwd",
        "link_zero",
        "link_stdin",
        "link_sub/../../out/secret.md",
        "sub/../link_folder/sub/b.md",
        "loop1",
        "loop2",
        "link_self",
        "loop1/a.md",
        "dangling",
        "link_hidden.md",
        ".hidden.md",
        "./.hidden.md",
        "sub/.env",
        ".git/config",
        "sub/../.git/config",
        "link_sub/.env",
        "....md",
        "pipe",
        "socket",
        "pipe/",
        "sub/../pipe",
        "none.md",
        "a.md/b",
        "a.md/..",
        "a.md/x/..",
        "none/../../out/secret.md",
        "a.md\0",
        "\0",
        "a.md\0.txt",
        "../out/secret.md\0.md",
        &long,
        &longest,
        " a.md",
        "A.md",
        "a.md ",
        "\u{e1}.md",
        "a.md\n",
        "-",
        "--",
        "*",
        "*.md",
    ];
    for path in refused {
        let error = text_of(&read, path).map_err(|error| error.to_lowercase());
        let error = error.expect_err(path);
        assert!(
            !error.contains(&SECRET.to_lowercase()) && !error.contains('\n') && error.len() < 400,
            "{path}: {error}"
        );
    }
    assert!(inside.len() + refused.len() >= 100);
    // A device is refused whether it was made or not, and nothing waited for the writer of a pipe.
    text_of(&read, "device").unwrap_err();
    // With a slash behind it a file may be named or not; it is nothing else in any case.
    for path in ["a.md/", "a.md/.", "link_in.md/", "a.md//"] {
        assert!(matches!(text_of(&read, path).as_deref(), Ok("inside a") | Err(_)), "{path}");
    }
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[cfg(unix)]
#[test]
fn a_walk_follows_no_link_and_a_search_finds_nothing_outside() {
    let world = traps();
    let cancel = CancellationToken::new();
    let Ok(FileResult::Listed(listed)) = world.tool(FilesWork::List).work(&json!({}), &cancel) else {
        panic!()
    };
    let paths: Vec<&str> = listed.rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
    let expected = [
        "%2e%2e",
        "a.md",
        "a\u{301}.md",
        "a\\b.md",
        "sub/b.md",
        "sub/deep/c.md",
        "with blank.md",
        "~",
        "\u{fc}n\u{ef}/\u{65e5}\u{672c}.md",
    ];
    let mut sorted = expected.to_vec();
    sorted.sort_unstable();
    let mut found = paths.clone();
    found.sort_unstable();
    assert_eq!(found, sorted, "{:?}", listed.left_out);
    let search = world.tool(FilesWork::Search);
    for path in [
        None,
        Some("link_folder"),
        Some("link_root/etc"),
        Some(".git"),
        Some("../out"),
        Some("link_sub"),
        Some("pipe"),
    ] {
        let mut parameters = json!({ "pattern": "SECRET|inside b$", "regex": true });
        if let Some(path) = path {
            parameters["path"] = path.into();
        }
        let found = match search.work(&parameters, &cancel) {
            Ok(FileResult::Matches(matches)) => matches.found,
            _ => Vec::new(),
        };
        assert!(found.iter().all(|one| one.path == "sub/b.md"), "{path:?}");
        assert_eq!(found.len(), usize::from(matches!(path, None | Some("link_sub"))), "{path:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_write_changes_only_files_of_the_folder() {
    let world = traps();
    let write = world.tool(FilesWork::Write);
    let cancel = CancellationToken::new();
    let put = |path: &str| {
        let outcome = write.work(&json!({ "path": path, "content": "new" }), &cancel);
        matches!(outcome, Ok(FileResult::Written(_)))
    };
    let outside = world.at("out/new.md");
    for path in [
        "",
        ".",
        "..",
        "/",
        "sub",
        "sub/",
        "sub/.",
        "../new.md",
        "../out/new.md",
        "sub/../../out/new.md",
        "/etc/new.md",
        outside.to_str().unwrap(),
        "link_folder/new.md",
        "link_beside/new.md",
        "link_out.md",
        "link_relative.md",
        "link_root/new",
        "link_in.md",
        "link_zero",
        "loop1",
        "dangling",
        ".env",
        ".git/config",
        "sub/.env",
        "x/.git/y",
        "none/new.md",
        "a.md/new.md",
        "pipe",
        "socket",
        "new\0.md",
        "\0",
        &"x".repeat(300),
        "new.md/",
        "new.md/.",
    ] {
        assert!(!put(path), "{path} was written");
    }
    for path in ["new.md", "sub/new.md", "link_sub/other.md", "sub/../third.md", "a.md"] {
        assert!(put(path), "{path}");
    }
    assert_eq!(fs::read_to_string(world.at("in/sub/other.md")).unwrap(), "new");
    assert_eq!(fs::read_to_string(world.at("in/third.md")).unwrap(), "new");
    let outside: Vec<String> = fs::read_dir(world.at("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(outside.len(), 3, "{outside:?}");
    for (path, text) in [("out/secret.md", SECRET), ("out/a.md", SECRET), ("in/.hidden.md", SECRET)] {
        assert_eq!(fs::read_to_string(world.at(path)).unwrap(), text);
    }
    let left: Vec<_> = fs::read_dir(world.at("in")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains(".tmp")), "{left:?}");
}

// W5
#[test]
fn a_write_clears_away_what_a_killed_program_left_and_nothing_of_a_living_one() {
    let world = World::with(&[
        ("in/a.md", "old"),
        ("in/.loopgate-1-0.tmp", "ha"),
        ("in/.loopgate-2-0.tmp", "half"),
        ("in/.loopgate-3.md", "of a person"),
        ("out/killed.tmp", "of another"),
    ]);
    std::os::unix::fs::symlink(world.at("out/killed.tmp"), world.at("in/.loopgate-4-0.tmp")).unwrap();
    let living = fs::File::open(world.at("in/.loopgate-2-0.tmp")).unwrap();
    living.lock().unwrap();
    let tool = world.tool(FilesWork::Write);
    tool.work(&json!({ "path": "a.md", "content": "new" }), &CancellationToken::new()).unwrap();
    let mut left: Vec<_> = fs::read_dir(world.at("in")).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".loopgate-2-0.tmp", ".loopgate-3.md", ".loopgate-4-0.tmp", "a.md"]);
    assert_eq!(fs::read_to_string(world.at("out/killed.tmp")).unwrap(), "of another");
    assert_eq!(fs::read_to_string(world.at("in/a.md")).unwrap(), "new");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_is_swapped_with_a_link_all_the_time_lets_nothing_out() {
    // K11. A larger number of swaps: LOOPGATE_FLIPS=1000000.
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let flips: u32 =
        std::env::var("LOOPGATE_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let world = World::with(&[
        ("in/d/a.md", "inside"),
        ("in/sub/x.md", "x"),
        ("in/.hidden", SECRET),
        ("out/a.md", SECRET),
    ]);
    symlink(world.at("out"), world.at("in/link")).unwrap();
    // One that stays inside, and leads to what is not there for the tool.
    symlink(".hidden", world.at("in/other.md")).unwrap();
    let (file, other) = (world.at("in/sub/x.md"), world.at("in/other.md"));
    let (folder, link) = (world.at("in/d"), world.at("in/link"));
    let [read, search, list, write, patch] =
        [FilesWork::Read, FilesWork::Search, FilesWork::List, FilesWork::Write, FilesWork::Patch]
            .map(|work| world.tool(work));
    let done = AtomicBool::new(false);
    let (mut inside, mut rounds) = (0_u32, 0_u32);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..flips {
                // Both at once: at each moment one of them is the folder and the other the link.
                renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                renameat_with(CWD, &file, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        let cancel = CancellationToken::new();
        while !done.load(Ordering::SeqCst) {
            rounds += 1;
            for path in ["d/a.md", "link/a.md", "sub/../d/a.md", "sub/x.md", "other.md"] {
                match text_of(&read, path) {
                    Ok(text) => {
                        assert!(text == "inside" || text == "x", "{path}: {text}");
                        inside += 1;
                    }
                    Err(message) => assert!(!message.contains(SECRET)),
                }
            }
            if let Ok(FileResult::Matches(matches)) = search.work(&json!({ "pattern": "SECRET" }), &cancel) {
                assert!(matches.found.is_empty());
            }
            if let Ok(FileResult::Matches(matches)) =
                search.work(&json!({ "pattern": "i", "path": "d" }), &cancel)
            {
                assert!(matches.found.iter().all(|one| one.text == "inside"));
            }
            if let Ok(FileResult::Listed(listed)) = list.work(&json!({ "path": "d" }), &cancel) {
                assert!(listed.rows.iter().all(|row| row["bytes"] != SECRET.len()));
            }
            let _ = write.work(&json!({ "path": "d/b.md", "content": "ours" }), &cancel);
            let _ = patch.work(&json!({ "path": "d/a.md", "old": SECRET, "new": "gone" }), &cancel);
        }
    });
    assert_eq!(fs::read_to_string(world.at("out/a.md")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(world.at("out")).unwrap().count(), 1, "something was written outside");
    assert!(inside > 0 && rounds > 0);
}

#[tokio::test]
async fn files_are_listed_by_folder_and_glob_with_sizes_and_times() {
    let world =
        World::with(&[("in/b.md", "12345"), ("in/a.rs", ""), ("in/s/c.md", "1"), ("in/s/t/d.md", "")]);
    let list = |parameters: Value| call(world.tool(FilesWork::List), parameters);
    let all = list(json!({})).await;
    check(&all, Status::Ok, "## Files\n\n| path | bytes | modified |\n| --- | --- | --- |\n| a.rs | 0 | 20");
    let paths = |seen: &Observation| -> Vec<String> {
        let rows: Vec<Value> = serde_json::from_str(&seen.data).unwrap();
        rows.iter().map(|row| row["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(&all), ["a.rs", "b.md", "s/c.md", "s/t/d.md"]);
    assert_eq!(paths(&list(json!({ "path": "s" })).await), ["s/c.md", "s/t/d.md"]);
    assert_eq!(paths(&list(json!({ "path": "s/c.md" })).await), ["s/c.md"]);
    assert_eq!(paths(&list(json!({ "glob": "*.md" })).await), ["b.md", "s/c.md", "s/t/d.md"]);
    assert_eq!(paths(&list(json!({ "glob": "s/*.md" })).await), ["s/c.md"]);
    check(&list(json!({ "glob": "*.py" })).await, Status::Empty, "No data found");
    check(&list(json!({ "glob": "[" })).await, Status::InvalidInput, "`[` is not a glob: ");
    check(&list(json!({ "path": "none" })).await, Status::InvalidInput, "there is no file `none`");
    let cut = call(world.tool_with(FilesWork::List, |it| it.max_results = 2), json!({})).await;
    check(&cut, Status::Ok, "_Only the first 2 files are shown; there are more. Give `path` or `glob`._");
    assert_eq!(paths(&cut), ["a.rs", "b.md"]);
    let few = call(world.tool_with(FilesWork::List, |it| it.include = vec!["*.rs".into()]), json!({})).await;
    assert_eq!(paths(&few), ["a.rs"]);
}

#[tokio::test]
async fn lines_are_read_with_their_numbers_and_no_further_than_the_cap() {
    let text: String = (1..=20).map(|number| format!("line {number}\n")).collect();
    let world = World::with(&[
        ("in/a.md", &text),
        ("in/empty.md", ""),
        ("in/crlf.md", "a\r\nb"),
        ("in/b.bin", "x\0y"),
    ]);
    fs::write(world.at("in/latin.md"), b"gr\xfcn\n").unwrap();
    fs::write(world.at("in/wide.md"), "y".repeat(5_000)).unwrap();
    let read = |parameters: Value| call(world.tool(FilesWork::Read), parameters);
    check(
        &read(json!({ "path": "a.md" })).await,
        Status::Ok,
        "_lines 1 to 20 of `a.md`, its end._\n\n```\n     1\tline 1\n",
    );
    let some = read(json!({ "path": "a.md", "from": 3, "to": 4 })).await;
    check(
        &some,
        Status::Ok,
        "_lines 3 to 4 of `a.md`; there is more._\n\n```\n     3\tline 3\n     4\tline 4\n```",
    );
    let data: Value = serde_json::from_str(&some.data).unwrap();
    assert_eq!(
        data,
        json!({ "path": "a.md", "from": 3, "to": 4, "has_more": true, "text": "line 3\nline 4" })
    );
    check(
        &read(json!({ "path": "a.md", "from": 20, "to": 99 })).await,
        Status::Ok,
        "lines 20 to 20 of `a.md`, its end",
    );
    check(&read(json!({ "path": "a.md", "from": 21 })).await, Status::Empty, "No data found");
    check(
        &read(json!({ "path": "a.md", "from": 5, "to": 4 })).await,
        Status::InvalidInput,
        "`to` is before `from`",
    );
    check(&read(json!({ "path": "empty.md" })).await, Status::Empty, "No data found");
    check(&read(json!({ "path": "crlf.md" })).await, Status::Ok, "     1\ta\n     2\tb\n```");
    check(
        &read(json!({ "path": "b.bin" })).await,
        Status::InvalidInput,
        "`b.bin` is binary: it has a NUL byte in it",
    );
    let latin = read(json!({ "path": "latin.md" })).await;
    check(&latin, Status::Ok, "gr\u{fffd}n");
    assert!(latin.warnings[0].contains("bytes that are not UTF-8 were replaced"));
    let capped = |path: &str, max_bytes| {
        call(world.tool_with(FilesWork::Read, |it| it.max_bytes = max_bytes), json!({ "path": path }))
    };
    let cut = capped("a.md", 15).await;
    check(
        &cut,
        Status::Ok,
        "_lines 1 to 2 of `a.md`; there is more, which is beyond the 15 bytes of one call._",
    );
    check(&capped("wide.md", 10).await, Status::Ok, "     1\tyyyyyyyyyy\n```");
    let behind = call(
        world.tool_with(FilesWork::Read, |it| it.max_bytes = 10),
        json!({ "path": "wide.md", "from": 2 }),
    );
    check(&behind.await, Status::Empty, "No data found");
    let not_there = call(
        world.tool_with(FilesWork::Read, |it| it.include = vec!["*.rs".into()]),
        json!({ "path": "a.md" }),
    );
    check(&not_there.await, Status::InvalidInput, "there is no file `a.md`");
}

#[cfg(unix)]
#[test]
fn what_is_not_included_is_not_read_through_a_link_either() {
    let world = World::with(&[("in/a.md", "a"), ("in/key.pem", SECRET)]);
    std::os::unix::fs::symlink("key.pem", world.at("in/key.md")).unwrap();
    let read = world.tool_with(FilesWork::Read, |it| it.include = vec!["*.md".into()]);
    assert_eq!(text_of(&read, "a.md").as_deref(), Ok("a"));
    assert_eq!(text_of(&read, "key.md"), Err("there is no file `key.md`".to_owned()));
}

#[tokio::test]
async fn lines_are_found_by_a_text_or_a_pattern() {
    let world = World::with(&[
        ("in/a.md", "one (1)\nTwo\nthree\n"),
        ("in/s/b.md", "one\n"),
        ("in/b.bin", "one\0"),
        ("in/c.rs", "fn one() {}\n"),
    ]);
    let search = |parameters: Value| call(world.tool(FilesWork::Search), parameters);
    let lines = "a.md:1: one (1)\nc.rs:1: fn one() {}\ns/b.md:1: one\n```";
    check(&search(json!({ "pattern": "one" })).await, Status::Ok, lines);
    check(&search(json!({ "pattern": "(1)" })).await, Status::Ok, "```\na.md:1: one (1)\n```");
    check(
        &search(json!({ "pattern": "^t", "regex": true, "ignore_case": true })).await,
        Status::Ok,
        "a.md:2: Two\na.md:3: three",
    );
    check(&search(json!({ "pattern": "TWO" })).await, Status::Empty, "No data found");
    check(&search(json!({ "pattern": "one", "path": "s" })).await, Status::Ok, "```\ns/b.md:1: one\n```");
    check(
        &search(json!({ "pattern": "one", "path": "c.rs" })).await,
        Status::Ok,
        "```\nc.rs:1: fn one() {}\n```",
    );
    check(
        &search(json!({ "pattern": "one", "glob": "*.rs" })).await,
        Status::Ok,
        "```\nc.rs:1: fn one() {}\n```",
    );
    check(
        &search(json!({ "pattern": "(", "regex": true })).await,
        Status::InvalidInput,
        "the pattern is not valid: ",
    );
    check(
        &search(json!({ "pattern": "a\\nb", "regex": true })).await,
        Status::InvalidInput,
        "the pattern is not valid: ",
    );
    let huge = json!({ "pattern": "(a{1000}){1000}", "regex": true });
    check(&search(huge).await, Status::InvalidInput, "the pattern is not valid: ");
    // One that takes a backtracking engine for ever.
    fs::write(world.at("in/slow.md"), "a".repeat(30_000)).unwrap();
    check(&search(json!({ "pattern": "^(a+)+$b", "regex": true })).await, Status::Empty, "No data found");
    let cut =
        call(world.tool_with(FilesWork::Search, |it| it.max_results = 1), json!({ "pattern": "one" })).await;
    check(
        &cut,
        Status::Ok,
        "_Only the first 1 lines are shown; there are more. Give `path` or `glob`._\n\n```\na.md:1:",
    );
    let bytes =
        call(world.tool_with(FilesWork::Search, |it| it.max_bytes = 20), json!({ "pattern": "one" })).await;
    assert_eq!(bytes.summary.as_ref(), "Found more than 1 lines");
    fs::write(world.at("in/large.md"), vec![b'x'; 17 << 20]).unwrap();
    let seen = search(json!({ "pattern": "nothing has this" })).await;
    check(
        &seen,
        Status::Ok,
        "Nothing found in what was looked at\n\n_Not looked at: large.md: larger than 16777216 bytes_",
    );
}

// Issue 43, K3 and R53
#[tokio::test]
async fn a_file_is_read_and_searched_by_its_charset_and_what_is_in_none_is_named() {
    let world = World::with(&[("in/a.md", "Toner\n")]);
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (path, bytes) in [
        ("latin.txt", b"Zo\xeb: Toner\n".to_vec()),
        ("marked.txt", wide("\u{feff}Zoë: Toner\r\n")),
        ("wide.txt", wide("Zoë: Toner\n")),
        ("page.xml", b"<?xml version='1.0' encoding='ISO-8859-1'?>\n<a>Zo\xeb: Toner</a>\n".to_vec()),
        ("half.txt", [&wide("\u{feff}Zoë")[..], b"\x00\xd8"].concat()),
        ("u32.txt", b"\xff\xfe\0\0T\0\0\0".to_vec()),
        ("picture.bin", b"\x89PNG\0\0\0\rToner".to_vec()),
    ] {
        fs::write(world.at("in").join(path), bytes).unwrap();
    }
    let search = |pattern: &str| call(world.tool(FilesWork::Search), json!({ "pattern": pattern }));
    let left_out = "_Not looked at: half.txt: in part: it is not UTF-16LE, as its mark says; \
        latin.txt: in part: it is not UTF-8, and names no charset; \
        u32.txt: in part: it is in UTF-32, which is not read_";
    let seen = search("Zoë").await;
    check(
        &seen,
        Status::Ok,
        "marked.txt:1: Zoë: Toner\npage.xml:2: <a>Zoë: Toner</a>\nwide.txt:1: Zoë: Toner\n```",
    );
    check(&seen, Status::Ok, left_out);
    check(&search("Toner").await, Status::Ok, "a.md:1: Toner\nlatin.txt:1: Zo\u{fffd}: Toner\nmarked.txt:1:");
    check(&search("Århus").await, Status::Ok, &format!("Nothing found in what was looked at\n\n{left_out}"));
    let read = |path: &str| call(world.tool(FilesWork::Read), json!({ "path": path }));
    check(&read("marked.txt").await, Status::Ok, "     1\tZoë: Toner\n```");
    check(&read("wide.txt").await, Status::Ok, "     1\tZoë: Toner\n```");
    check(&read("page.xml").await, Status::Ok, "     2\t<a>Zoë: Toner</a>\n```");
    let replaced = "its end._ _(bytes that are not UTF-8 were replaced)_";
    check(&read("latin.txt").await, Status::Ok, replaced);
    check(&read("half.txt").await, Status::Ok, replaced);
    check(&read("u32.txt").await, Status::InvalidInput, "`u32.txt` is in UTF-32, which is not read");
    // What is whole proves that nothing is there.
    let whole = json!({ "pattern": "Århus", "glob": "{a.md,*.xml,picture.bin}" });
    check(&call(world.tool(FilesWork::Search), whole).await, Status::Empty, "No data found");
}

#[test]
fn work_that_is_not_wanted_any_more_ends() {
    let world = World::with(&[("in/a.md", "one"), ("in/b.md", "one")]);
    let cancel = CancellationToken::new();
    cancel.cancel();
    for (work, parameters) in [
        (FilesWork::List, json!({})),
        (FilesWork::Read, json!({ "path": "a.md" })),
        (FilesWork::Search, json!({ "pattern": "one" })),
        (FilesWork::Write, json!({ "path": "new.md", "content": "x" })),
        (FilesWork::Patch, json!({ "path": "a.md", "old": "one", "new": "two" })),
    ] {
        assert!(matches!(world.tool(work).work(&parameters, &cancel), Err(Refusal::Cancelled)), "{work:?}");
    }
    assert_eq!(fs::read_to_string(world.at("in/a.md")).unwrap(), "one");
    assert_eq!(fs::read_dir(world.at("in")).unwrap().count(), 2, "nothing was made");
}

#[tokio::test]
async fn a_file_is_written_as_a_whole_and_keeps_who_may_read_it() {
    let world = World::with(&[("in/s/a.md", "old")]);
    let write = |path: &str, content: &str| {
        call(world.tool(FilesWork::Write), json!({ "path": path, "content": content }))
    };
    #[cfg(unix)]
    fs::set_permissions(world.at("in/s/a.md"), std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let new = write("b.md", "x\ny\n").await;
    check(&new, Status::Ok, "## Files\n\nCreated `b.md`: 2 lines, 4 bytes");
    check(&write("s/a.md", "\u{fc}").await, Status::Ok, "Replaced `s/a.md`: 1 lines, 2 bytes");
    assert_eq!(fs::read_to_string(world.at("in/s/a.md")).unwrap(), "\u{fc}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(world.at("in/s/a.md")).unwrap().permissions().mode() & 0o777, 0o640);
    }
    check(&write("s/a.md", "").await, Status::Ok, "Replaced `s/a.md`: 0 lines, 0 bytes");
    check(&write("t/a.md", "x").await, Status::InvalidInput, "there is no file `t`");
    let small = world.tool_with(FilesWork::Write, |it| it.max_bytes = 3);
    check(
        &call(small, json!({ "path": "b.md", "content": "four" })).await,
        Status::InvalidInput,
        "more than 3 bytes",
    );
    let few = world.tool_with(FilesWork::Write, |it| it.include = vec!["*.md".into()]);
    check(
        &call(few, json!({ "path": "b.sh", "content": "x" })).await,
        Status::InvalidInput,
        "is not among the files",
    );
    assert_eq!(fs::read_to_string(world.at("in/b.md")).unwrap(), "x\ny\n");
}

#[tokio::test]
async fn a_patch_replaces_a_text_that_is_there_exactly_once() {
    let world = World::with(&[("in/a.md", "one\ntwo\none\nthree\n"), ("in/aaa.md", "aaa")]);
    fs::write(world.at("in/latin.md"), b"gr\xfcn\n").unwrap();
    let patch = |path: &str, old: &str, new: &str| {
        call(world.tool(FilesWork::Patch), json!({ "path": path, "old": old, "new": new }))
    };
    check(
        &patch("a.md", "one", "x").await,
        Status::InvalidInput,
        "`old` is 2 times in `a.md`, in the lines 1, 3; give more",
    );
    check(
        &patch("aaa.md", "aa", "x").await,
        Status::InvalidInput,
        "`old` is 2 times in `aaa.md`, in the lines 1, 1",
    );
    check(&patch("a.md", "four", "x").await, Status::InvalidInput, "`old` is nowhere in `a.md`");
    check(&patch("a.md", "two", "two").await, Status::InvalidInput, "`old` and `new` are the same");
    check(
        &patch("latin.md", "gr", "x").await,
        Status::InvalidInput,
        "is not UTF-8 text, so it is not changed",
    );
    check(&patch("none.md", "x", "y").await, Status::InvalidInput, "there is no file `none.md`");
    let seen = patch("a.md", "two\none", "2\n1\n0").await;
    check(&seen, Status::Ok, "Patched `a.md` at line 2: 2 lines out, 3 in; it has 16 bytes");
    assert_eq!(fs::read_to_string(world.at("in/a.md")).unwrap(), "one\n2\n1\n0\nthree\n");
    let small = world.tool_with(FilesWork::Patch, |it| it.max_bytes = 16);
    let grown = call(small, json!({ "path": "a.md", "old": "2", "new": "22222" })).await;
    check(&grown, Status::InvalidInput, "more than 16 bytes");
    assert_eq!(fs::read_to_string(world.at("in/a.md")).unwrap(), "one\n2\n1\n0\nthree\n");
}

#[test]
fn a_setting_that_is_wrong_is_said_when_the_tool_is_made() {
    let world = World::with(&[("in/a.md", "x")]);
    let with = |work: FilesWork, change: &dyn Fn(&mut FilesSettings)| {
        let mut settings = FilesSettings::new(world.at("in"), work);
        change(&mut settings);
        let error = FilesTool::new(declared(work), &settings).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    assert!(
        with(FilesWork::List, &|it| it.folder = "/nowhere".into())
            .contains("/nowhere: there is no such folder")
    );
    assert!(with(FilesWork::List, &|it| it.folder = world.at("in/a.md")).contains("there is no such folder"));
    assert!(with(FilesWork::List, &|it| it.include = vec!["[".into()]).contains("`[` is not a glob: "));
    assert!(with(FilesWork::List, &|it| it.max_results = 0).contains("nothing could be returned"));
    assert!(with(FilesWork::List, &|it| it.max_bytes = 0).contains("nothing could be returned"));
    let made = |work: FilesWork, declaration: ToolDeclaration| {
        FilesTool::new(declaration, &FilesSettings::new(world.at("in"), work))
            .map_err(|error| error.to_string())
    };
    for work in [FilesWork::List, FilesWork::Read, FilesWork::Search] {
        for effect in [Effect::WriteIdempotent, Effect::Egress, Effect::Exec] {
            let error = made(work, declared(work).effect(effect)).unwrap_err();
            assert!(error.ends_with("; write `effect = \"read\"`"), "{error}");
        }
    }
    for work in [FilesWork::Write, FilesWork::Patch] {
        for effect in [Effect::Read, Effect::Egress, Effect::Exec] {
            let error = made(work, declared(work).effect(effect)).unwrap_err();
            assert!(error.ends_with("; write `effect = \"write_idempotent\"`"), "{error}");
        }
        made(work, declared(work).effect(Effect::WriteIrreversible)).unwrap();
    }
    let schema = |properties: Value, required: Value| {
        declared(FilesWork::Read)
            .schema(json!({ "type": "object", "properties": properties, "required": required }))
    };
    let text = json!({ "type": "string" });
    made(FilesWork::Read, schema(json!({ "path": text }), json!(["path"]))).unwrap();
    // S0-76: what a smart tool looks for is not a parameter of the work.
    let targeted = schema(json!({ "path": text, "about": text }), json!(["path"])).target("about");
    made(FilesWork::Read, targeted).unwrap();
    for (declaration, expected) in [
        (
            schema(json!({ "paht": text }), json!([])),
            "`read` has no parameter `paht`; it has `path`, `from`, `to`",
        ),
        (
            schema(json!({ "path": { "type": "array" } }), json!(["path"])),
            "`path` of `read` is of the type `string`",
        ),
        (schema(json!({ "path": text }), json!([])), "`read` needs the parameter `path`"),
        (schema(json!({}), json!([])), "`read` needs the parameter `path`"),
    ] {
        let error = made(FilesWork::Read, declaration).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

// Issue 43, K2 and K3: what `read` shows is what `search` finds and `patch` takes, whatever ends a line and whatever the mark.
#[tokio::test]
async fn ends_of_lines_and_marks_are_none_of_a_text() {
    let world = World::with(&[
        ("in/crlf.txt", "one\r\ntwo\r\nthree\r\n"),
        ("in/mixed.txt", "a\nb\r\nc\n"),
        ("in/mark.txt", "\u{feff}Zoë\nend\n"),
    ]);
    let wide = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        "\u{feff}Zoë\r\nend\r\n".encode_utf16().flat_map(order).collect()
    };
    fs::write(world.at("in/le.txt"), wide(u16::to_le_bytes)).unwrap();
    fs::write(world.at("in/be.txt"), wide(u16::to_be_bytes)).unwrap();
    for path in ["mark.txt", "le.txt", "be.txt"] {
        assert_eq!(text_of(&world.tool(FilesWork::Read), path).unwrap(), "Zoë\nend", "{path}");
    }
    for (pattern, regex, places) in [
        ("^a$", true, vec!["mixed.txt:1"]),
        ("Zo.$", true, vec!["be.txt:1", "le.txt:1", "mark.txt:1"]),
        ("two$", true, vec!["crlf.txt:2"]),
        ("^(b|three)$", true, vec!["crlf.txt:3", "mixed.txt:2"]),
        ("^Zo.$", true, vec!["be.txt:1", "le.txt:1", "mark.txt:1"]),
        ("e\r", false, vec![]),
    ] {
        let seen = call(world.tool(FilesWork::Search), json!({ "pattern": pattern, "regex": regex })).await;
        let found: Vec<Value> = serde_json::from_str(&seen.data).unwrap_or_default();
        let found: Vec<String> =
            found.iter().map(|one| format!("{}:{}", one["path"].as_str().unwrap(), one["line"])).collect();
        assert_eq!(found, places, "{pattern}: {seen:?}");
    }
    let patch = |path: &'static str, old: &'static str, new: &'static str| {
        call(world.tool(FilesWork::Patch), json!({ "path": path, "old": old, "new": new }))
    };
    let file = |path: &str| fs::read_to_string(world.at(path)).unwrap();
    check(&patch("crlf.txt", "one\ntwo\n", "1\n2\n2b\n").await, Status::Ok, "");
    assert_eq!(file("in/crlf.txt"), "1\r\n2\r\n2b\r\nthree\r\n");
    check(&patch("crlf.txt", "\nthree", "").await, Status::Ok, "");
    assert_eq!(file("in/crlf.txt"), "1\r\n2\r\n2b\r\n");
    check(&patch("crlf.txt", "2\r\n2b", "x\r\ny").await, Status::Ok, "");
    assert_eq!(file("in/crlf.txt"), "1\r\nx\r\ny\r\n");
    check(&patch("mixed.txt", "b\nc", "b\nd").await, Status::Ok, "");
    assert_eq!(file("in/mixed.txt"), "a\nb\nd\n");
    check(&patch("mark.txt", "Zoë\n", "Zoe\n").await, Status::Ok, "");
    assert_eq!(file("in/mark.txt"), "\u{feff}Zoe\nend\n");
}

//! Tests in which each step of a put fails once, and in which the process ends before each step once.
#![expect(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Barrier, Mutex};

use super::*;

const STEPS: [Step; 5] = [Step::Create, Step::Write, Step::Sync, Step::Rename, Step::SyncFolder];
const HOUR: Duration = Duration::from_secs(3600);

fn open(root: &Path) -> Folder {
    Folder::open(root.to_owned(), 1 << 20).unwrap()
}

fn hooked(root: &Path, before: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static) -> Folder {
    Folder { before: Some(Box::new(before)), ..open(root) }
}

/// All files of a store but its lock, by name, with their content.
fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for folder in open(root).folders().unwrap() {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let entry = entry.unwrap();
            files.push((entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
        }
    }
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn make_old(path: &Path) {
    OpenOptions::new().write(true).open(path).unwrap().set_modified(SystemTime::now() - 48 * HOUR).unwrap();
}

fn sweep(folder: &Folder, referenced: &[BlobId], older_than: Duration) -> Sweep {
    let (referenced, before) = (referenced.iter().copied().collect(), SystemTime::now() - older_than);
    let mut sweep = Sweep::default();
    for name in folder.folders().unwrap() {
        sweep.add(folder.sweep(&name, &referenced, before).unwrap());
    }
    sweep
}

#[test]
fn a_step_that_fails_leaves_no_file_and_the_next_put_succeeds() {
    let id = BlobId::of(b"content");
    for failing in STEPS {
        for (error, kind) in [
            (ErrorKind::StorageFull, BlobErrorKind::Full),
            (ErrorKind::QuotaExceeded, BlobErrorKind::Full),
            (
                ErrorKind::ReadOnlyFilesystem,
                BlobErrorKind::Denied("read-only filesystem or storage medium".into()),
            ),
            (ErrorKind::TimedOut, BlobErrorKind::Unavailable("timed out".into())),
        ] {
            let root = tempfile::tempdir().unwrap();
            let folder =
                hooked(root.path(), move |step| if step == failing { Err(error.into()) } else { Ok(()) });
            assert_eq!(folder.put(id, b"content"), Err(kind), "{failing:?}");
            let left = files(root.path());
            // After the rename the blob is there and may not be durable, so the put has failed.
            let expected = usize::from(failing == Step::SyncFolder);
            assert_eq!(left.len(), expected, "{failing:?}: {left:?}");
            assert!(matches!(open(root.path()).get(id), Ok(_) | Err(BlobErrorKind::Missing)));
            open(root.path()).put(id, b"content").unwrap();
            assert_eq!(open(root.path()).get(id).unwrap(), "content");
        }
    }
}

#[test]
fn a_program_that_ends_before_a_step_leaves_the_blob_whole_or_missing() {
    let id = BlobId::of(b"content");
    for last in STEPS {
        let (root, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (from, to) = (root.path().to_owned(), left.path().to_owned());
        let folder = hooked(root.path(), move |step| {
            if step == last {
                copy(&from, &to);
            }
            Ok(())
        });
        folder.put(id, b"content").unwrap();

        let folder = open(left.path());
        match folder.get(id) {
            Ok(content) => assert_eq!((content.as_ref(), last), (&b"content"[..], Step::SyncFolder)),
            Err(kind) => assert_eq!(kind, BlobErrorKind::Missing, "{last:?}"),
        }
        let unfinished =
            |root: &Path| files(root).iter().filter(|(name, _)| name.ends_with(TEMPORARY)).count();
        let is_begun = !matches!(last, Step::Create | Step::SyncFolder);
        assert_eq!(unfinished(left.path()), usize::from(is_begun), "{last:?}");

        // The file may be one that another process writes now, so it must be old, whatever the age is.
        sweep(&folder, &[id], Duration::ZERO);
        assert_eq!(unfinished(left.path()), usize::from(is_begun), "{last:?}");
        folder.put(id, b"content").unwrap();
        for (name, _) in files(left.path()) {
            make_old(&left.path().join(id.place().0).join(name));
        }
        sweep(&folder, &[id], HOUR);
        assert_eq!(unfinished(left.path()), 0, "{last:?}");
        assert_eq!(folder.get(id).unwrap(), "content");
    }
}

#[test]
fn what_a_crash_left_of_a_blob_is_deleted_with_it() {
    let root = tempfile::tempdir().unwrap();
    let folder = open(root.path());
    let id = BlobId::of(b"of a person");
    folder.put(id, b"of a person").unwrap();
    let unfinished = folder.path(id).with_extension("7-0.tmp");
    fs::write(&unfinished, b"of a per").unwrap();
    folder.delete(id).unwrap();
    folder.delete(id).unwrap();
    folder.delete(BlobId::of(b"never put")).unwrap();
    assert_eq!(files(root.path()), []);
}

#[test]
fn a_file_that_is_torn_or_changed_is_damaged_and_a_put_replaces_it() {
    let root = tempfile::tempdir().unwrap();
    let folder = open(root.path());
    let id = BlobId::of(b"content");
    for damaged in [&b""[..], b"cont", b"Content", b"content and more"] {
        folder.put(id, b"content").unwrap();
        fs::write(folder.path(id), damaged).unwrap();
        let bytes = u64::try_from(damaged.len()).unwrap();
        assert_eq!(folder.get(id), Err(BlobErrorKind::Damaged { found: BlobId::of(damaged), bytes }));
        folder.put(id, b"content").unwrap();
        assert_eq!(folder.get(id).unwrap(), "content");
    }
    // Larger than any blob: it is not read.
    File::create(folder.path(id)).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(folder.get(id), Err(BlobErrorKind::TooLarge { bytes: 1 << 40, max: 1 << 20 }));
    folder.put(id, b"content").unwrap();
    assert_eq!(folder.get(id).unwrap(), "content");
}

#[test]
fn a_put_makes_an_old_blob_young() {
    let root = tempfile::tempdir().unwrap();
    let folder = open(root.path());
    let (old, again, kept) = (BlobId::of(b"old"), BlobId::of(b"again"), BlobId::of(b"kept"));
    for (id, content) in [(old, &b"old"[..]), (again, b"again"), (kept, b"kept")] {
        folder.put(id, content).unwrap();
        make_old(&folder.path(id));
    }
    // A file of another program.
    fs::write(root.path().join(old.place().0).join("notes.txt"), b"mine").unwrap();
    make_old(&root.path().join(old.place().0).join("notes.txt"));
    folder.put(again, b"again").unwrap();
    let swept = sweep(&folder, &[kept], HOUR);
    assert_eq!(swept, Sweep { deleted: 1, deleted_bytes: 3, referenced: 1, young: 1 });
    assert_eq!(folder.get(old), Err(BlobErrorKind::Missing));
    assert_eq!((folder.get(again).unwrap(), folder.get(kept).unwrap()), ("again".into(), "kept".into()));
    assert!(files(root.path()).iter().any(|(name, _)| name == "notes.txt"));
}

/// A blob that a put returned is never deleted by a sweep that began before.
#[test]
fn a_sweep_does_not_delete_what_is_put_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    let folder = Arc::new(open(root.path()));
    let id = BlobId::of(b"content");
    for round in 0..100 {
        folder.put(id, b"content").unwrap();
        make_old(&folder.path(id));
        let start = Arc::new(Barrier::new(2));
        let sweeper = std::thread::spawn({
            let (folder, start) = (Arc::clone(&folder), Arc::clone(&start));
            move || {
                start.wait();
                sweep(&folder, &[], HOUR)
            }
        });
        start.wait();
        folder.put(id, b"content").unwrap();
        sweeper.join().unwrap();
        assert_eq!(folder.get(id).unwrap(), "content", "round {round}");
    }
}

/// The same, with the sweep at the worst moment: between its look at the file and the deletion it holds the lock.
#[test]
fn a_put_waits_while_a_sweep_decides() {
    let root = tempfile::tempdir().unwrap();
    let folder = Arc::new(open(root.path()));
    let id = BlobId::of(b"content");
    folder.put(id, b"content").unwrap();
    make_old(&folder.path(id));
    let locked = folder.lock(File::try_lock).unwrap();
    let done = Arc::new(Mutex::new(false));
    let putter = std::thread::spawn({
        let (folder, done) = (Arc::clone(&folder), Arc::clone(&done));
        move || {
            folder.put(id, b"content").unwrap();
            *done.lock().unwrap() = true;
        }
    });
    // What the sweep does next, whenever the other thread runs.
    assert_eq!(is_older(&folder.path(id), SystemTime::now() - HOUR).unwrap(), Some(7));
    remove(&folder.path(id)).unwrap();
    assert!(!*done.lock().unwrap());
    drop(locked);
    putter.join().unwrap();
    assert_eq!(folder.get(id).unwrap(), "content");
}

/// The lock is taken for the rename as well, and a process that keeps it does not hold up another for ever.
#[test]
fn a_put_whose_lock_is_taken_ends_and_leaves_no_file() {
    let root = tempfile::tempdir().unwrap();
    let id = BlobId::of(b"content");
    let path = root.path().join(LOCK);
    let taken = Mutex::new(None);
    let mut folder = hooked(root.path(), move |step| {
        if step == Step::Rename {
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            file.try_lock().unwrap();
            *taken.lock().unwrap() = Some(file);
        }
        Ok(())
    });
    folder.lock_wait = Duration::from_millis(20);
    let message = "another process holds .lock for 0.02 s".to_owned();
    assert_eq!(folder.put(id, b"content"), Err(BlobErrorKind::Unavailable(message)));
    assert_eq!(files(root.path()), []);
    drop(folder);
    open(root.path()).put(id, b"content").unwrap();
}

#[test]
fn only_the_owner_can_read_blobs() {
    let root = tempfile::tempdir().unwrap();
    let folder = open(&root.path().join("made/here"));
    let id = BlobId::of(b"content");
    folder.put(id, b"content").unwrap();
    let path = folder.path(id);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&path), mode(path.parent().unwrap()), mode(&root.path().join("made"))),
        (0o600, 0o700, 0o700)
    );
}

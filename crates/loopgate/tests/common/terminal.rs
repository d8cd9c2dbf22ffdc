//! A pseudo-terminal in which the command runs: what a person would see, and keys that they would press.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A command that runs in a terminal.
pub struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<(Mutex<Screen>, Condvar)>,
    /// How much of the screen was waited for.
    seen: usize,
}

#[derive(Default)]
struct Screen {
    text: Vec<u8>,
    is_over: bool,
}

/// How long a test waits for what must come: a bound for a test that fails, not for one that passes.
const PATIENCE: Duration = Duration::from_secs(120);

impl Terminal {
    pub fn run(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let open = || {
            let flags = OpenptFlags::NOCTTY.bits() as i32;
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(&name).unwrap()
        };
        let child = command
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        // The command's ends are gone with it, and the screen ends then.
        drop(command);
        let keys = File::from(master);
        let mut output = keys.try_clone().unwrap();
        let screen = Arc::<(Mutex<Screen>, Condvar)>::default();
        let shared = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            loop {
                let read = output.read(&mut bytes).unwrap_or(0);
                let mut screen = shared.0.lock().unwrap();
                screen.text.extend_from_slice(&bytes[..read]);
                screen.is_over = read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Self { child, keys, screen, seen: 0 }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows this, behind what was waited for before.
    #[track_caller]
    pub fn wait_for(&mut self, words: &str) {
        let (screen, changed) = &*self.screen;
        let mut screen = screen.lock().unwrap();
        loop {
            let text = String::from_utf8_lossy(&screen.text[self.seen..]).into_owned();
            if let Some(at) = text.find(words) {
                self.seen += at + words.len();
                return;
            }
            assert!(!screen.is_over, "`{words}` does not come:\n{text}");
            let (next, waited) = changed.wait_timeout(screen, PATIENCE).unwrap();
            assert!(!waited.timed_out(), "`{words}` does not come:\n{text}");
            screen = next;
        }
    }

    /// Waits for the end: the exit code, and all that was shown.
    #[track_caller]
    pub fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let (screen, changed) = &*self.screen;
        let screen = screen.lock().unwrap();
        let (screen, waited) =
            changed.wait_timeout_while(screen, PATIENCE, |screen| !screen.is_over).unwrap();
        assert!(!waited.timed_out(), "the screen does not end");
        (code, String::from_utf8_lossy(&screen.text).replace("\r\n", "\n"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Where a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A pseudo-terminal in which the command runs: what a person would see, and keys that they would press.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

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
    pub fn run(command: Command) -> Self {
        Self::of_width(command, 80)
    }

    /// The same in a terminal with so many columns.
    pub fn of_width(mut command: Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let open = || {
            let flags = OpenptFlags::NOCTTY.bits() as i32;
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(&name).unwrap()
        };
        let is_given = |name: &str| command.get_envs().any(|(key, _)| key == name);
        let (term, ci) = (is_given("TERM"), is_given("CI"));
        if !term {
            command.env("TERM", "xterm");
        }
        if !ci {
            command.env_remove("CI");
        }
        let child = command.env("NO_COLOR", "1").stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
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

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until the program is stopped, as Ctrl-Z stops it.
    pub fn is_stopped(&self) -> bool {
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        status.stopped()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed()).unwrap()
    }

    /// All that was written so far.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.screen.0.lock().unwrap().text).into_owned()
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

    /// Waits until all that was written so far is like this.
    #[track_caller]
    pub fn wait_until(&self, is: impl Fn(&str) -> bool) {
        let (screen, changed) = &*self.screen;
        let is_not = |screen: &mut Screen| !is(&String::from_utf8_lossy(&screen.text));
        let screen = screen.lock().unwrap();
        let (screen, waited) = changed.wait_timeout_while(screen, PATIENCE, is_not).unwrap();
        assert!(!waited.timed_out(), "{}", String::from_utf8_lossy(&screen.text));
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

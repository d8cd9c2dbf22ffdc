//! What a process takes, as Linux counts it.

use std::path::Path;

/// Memory and processor time of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Memory in use, in MiB.
    pub memory: f64,
    /// Processor time since its start, in seconds.
    pub seconds: f64,
}

impl Usage {
    /// Of the process of this id.
    pub fn of(pid: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        // The name of the program may have spaces, and ends with the last `)`.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        Self { memory: kib.unwrap_or(0.0) / 1_024.0, seconds: (ticks(11) + ticks(12)) / TICKS }
    }
}

/// Clock ticks a second, in which Linux reports processor time.
const TICKS: f64 = 100.0;

/// Bytes of all files below a folder, as they are on the disk.
pub fn disk(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => disk(&entry.path()),
            Ok(data) => data.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

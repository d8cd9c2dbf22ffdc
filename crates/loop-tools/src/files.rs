//! Reads regular files without blocking, up to a maximum size. Other files are refused: a pipe may block, and a device
//! may have no end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::string::FromUtf8Error;

/// The default maximum size of a file of settings or of work, in bytes: 256 MiB.
pub const MAX_BYTES: u64 = 256 << 20;

/// Opens a regular file for reading, also through a link. A folder is opened as the system opens it.
///
/// # Errors
/// The system's error, and `InvalidInput` for a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // A device may do something when it is opened.
    check(&fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // It may have become a pipe meanwhile, and opening that must not wait for its writer.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = options.open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// The bytes of a regular file.
///
/// # Errors
/// As [`open`], and `FileTooLarge` for a file of more than `max` bytes.
pub fn bytes(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {max} bytes")));
    }
    Ok(bytes)
}

/// The text of a regular file.
///
/// # Errors
/// As [`bytes()`], and `InvalidData` where it is not UTF-8.
pub fn text(path: &Path, max: u64) -> io::Result<String> {
    let not_text = |error| io::Error::new(ErrorKind::InvalidData, no_text(&error));
    String::from_utf8(bytes(path, max)?).map_err(not_text)
}

/// The position at which bytes are not UTF-8, for a message.
pub fn no_text(error: &FromUtf8Error) -> String {
    let at = error.utf8_error().valid_up_to();
    let line = error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    format!("not UTF-8 text: see line {line}, byte {} of the file", at + 1)
}

fn check(found: &fs::Metadata) -> io::Result<()> {
    if found.is_file() || found.is_dir() {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is a pipe or a device; name a regular file"))
}

#[cfg(test)]
#[cfg(unix)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_a_socket_and_a_device_are_refused_at_once_and_a_file_has_a_bound() {
        // Issue 40, H5.
        let folder = std::env::temp_dir().join(format!("loop-tools-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        for name in ["pipe", "socket", "zero"] {
            let error = text(&at(name), 9).unwrap_err();
            assert!(error.to_string().contains("name a regular file"), "{name}: {error}");
        }
        fs::write(at("file"), "123456789").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        assert_eq!(text(&at("link"), 9).unwrap(), "123456789");
        assert_eq!(bytes(&at("file"), 8).unwrap_err().kind(), ErrorKind::FileTooLarge);
        fs::write(at("file"), [0xff]).unwrap();
        assert_eq!(text(&at("file"), 9).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(text(&at("none"), 9).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(text(&folder, 9).unwrap_err().to_string().contains("directory"));
        fs::remove_dir_all(folder).unwrap();
    }
}

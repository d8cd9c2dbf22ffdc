//! Bodies that a server packed: `content-encoding`, with a bound on what comes out.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

/// The most codings of one body, one within another.
const CODINGS_MAX: usize = 3;
/// How many bytes are unpacked at once.
const BUFFER: usize = 4096;

/// Why a body is not unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnpackError {
    /// It has more bytes than it may.
    TooLong,
    /// What is wrong with it.
    Broken(String),
}

/// The body without its codings, as `content-encoding` lists them in the order in which they were applied. No step has more than
/// `limit` bytes.
pub(crate) fn unpacked(body: Vec<u8>, codings: &str, limit: usize) -> Result<Vec<u8>, UnpackError> {
    let names = || codings.split(',').map(str::trim).filter(|name| !name.is_empty());
    if names().count() > CODINGS_MAX {
        return Err(UnpackError::Broken(format!("the answer is compressed more than {CODINGS_MAX} times")));
    }
    names().rev().try_fold(body, |body, name| {
        // What has no body has nothing to unpack.
        if body.is_empty() {
            return Ok(body);
        }
        let bytes = body.as_slice();
        match name.to_ascii_lowercase().as_str() {
            "identity" => Ok(body),
            "gzip" | "x-gzip" => all_of(MultiGzDecoder::new(bytes), name, limit),
            // Some servers leave the wrapping out.
            "deflate" => inflated(bytes, matches!(bytes, [first, ..] if first & 0x0f == 8), limit),
            "br" => all_of(brotli_decompressor::Decompressor::new(bytes, BUFFER), name, limit),
            "zstd" => zstd(bytes, limit),
            other => {
                let other: String = other.chars().filter(char::is_ascii_graphic).take(40).collect();
                Err(UnpackError::Broken(format!("the answer is compressed by `{other}`, which is not read")))
            }
        }
    })
}

/// Whole, which a reader does not see.
fn inflated(bytes: &[u8], is_wrapped: bool, limit: usize) -> Result<Vec<u8>, UnpackError> {
    let mut stream = Decompress::new(is_wrapped);
    let mut all = Vec::new();
    loop {
        let before = (stream.total_in(), all.len());
        all.reserve(BUFFER);
        let rest = usize::try_from(before.0).ok().and_then(|read| bytes.get(read..)).unwrap_or_default();
        let status = stream.decompress_vec(rest, &mut all, FlushDecompress::None);
        match status.map_err(|_| broken("deflate"))? {
            _ if all.len() > limit => return Err(UnpackError::TooLong),
            // Text that is not packed may look like the beginning of a stream.
            Status::StreamEnd if stream.total_in() == bytes.len() as u64 => return Ok(all),
            Status::StreamEnd => return Err(broken("deflate")),
            Status::Ok | Status::BufError if before == (stream.total_in(), all.len()) => {
                return Err(broken("deflate"));
            }
            Status::Ok | Status::BufError => {}
        }
    }
}

/// Every frame of it.
fn zstd(mut bytes: &[u8], limit: usize) -> Result<Vec<u8>, UnpackError> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut bytes);
        let frame = frame.map_err(|_| broken("zstd"))?;
        let mut part = all_of(frame, "zstd", limit.saturating_sub(all.len()))?;
        all.append(&mut part);
    }
    Ok(all)
}

fn all_of(reader: impl Read, name: &str, limit: usize) -> Result<Vec<u8>, UnpackError> {
    let mut all = Vec::new();
    reader.take((limit as u64).saturating_add(1)).read_to_end(&mut all).map_err(|_| broken(name))?;
    if all.len() > limit { Err(UnpackError::TooLong) } else { Ok(all) }
}

fn broken(name: &str) -> UnpackError {
    UnpackError::Broken(format!("the answer says that it is compressed by `{name}`, and cannot be unpacked"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::{DeflateEncoder, GzEncoder, ZlibEncoder};

    const TEXT: &[u8] = b"{\"a\": 1}";
    /// `TEXT`, and ten million times the letter a.
    const BROTLI: [&[u8]; 2] = [
        b"\x8b\x03\x80\x7b\x22\x61\x22\x3a\x20\x31\x7d\x03",
        b"\xcb\xff\xff\x3f\xf8\x25\xc2\xe2\xb1\x40\x20\xf7\xfe\x2f\xff\x2c\x31\xf0\x4b\x00\xc4\x61\x11\x80\x8e\x23\x06",
    ];

    fn all(mut reader: impl Read) -> Vec<u8> {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        all
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        all(GzEncoder::new(bytes, Compression::best()))
    }

    fn zstd_of(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    // Issue 43, K3
    #[test]
    fn a_body_is_unpacked_as_far_as_it_may_go() {
        let packed = [
            ("gzip", gzip(TEXT)),
            ("X-GZIP", [gzip(b"{\"a\""), gzip(b": 1}")].concat()),
            ("deflate", all(ZlibEncoder::new(TEXT, Compression::fast()))),
            ("deflate", all(DeflateEncoder::new(TEXT, Compression::fast()))),
            ("br", BROTLI[0].to_vec()),
            ("zstd", zstd_of(TEXT)),
            ("zstd", [zstd_of(b"{\"a\""), zstd_of(b": 1}")].concat()),
            ("", TEXT.to_vec()),
            ("identity", TEXT.to_vec()),
            ("zstd, gzip", gzip(&zstd_of(TEXT))),
        ];
        for (codings, body) in packed {
            assert_eq!(unpacked(body.clone(), codings, 100).unwrap(), TEXT, "{codings}");
            assert_eq!(unpacked(Vec::new(), codings, 100).unwrap(), b"", "{codings}");
            if !codings.is_empty() && codings != "identity" {
                assert_eq!(unpacked(body, codings, 7), Err(UnpackError::TooLong), "{codings}");
                for broken in [&b"x"[..], b"{\"a\": 1}"] {
                    let read = unpacked(broken.to_vec(), codings, 100);
                    assert!(read.is_err(), "{codings} of {broken:?}: {read:?}");
                }
            }
        }
        let zeros = vec![0; 10_000_000];
        for (codings, bomb) in [
            ("gzip", gzip(&zeros)),
            ("gzip, gzip", gzip(&gzip(&zeros))),
            ("br", BROTLI[1].to_vec()),
            ("zstd", zstd_of(&zeros)),
        ] {
            assert_eq!(unpacked(bomb, codings, 1 << 16), Err(UnpackError::TooLong), "{codings}");
        }
        let cut = gzip(TEXT).into_iter().take(15).collect();
        assert!(matches!(unpacked(cut, "gzip", 100), Err(UnpackError::Broken(_))));
        let refused = |codings| unpacked(TEXT.to_vec(), codings, 100).unwrap_err();
        assert_eq!(
            refused("compress"),
            UnpackError::Broken("the answer is compressed by `compress`, which is not read".into())
        );
        assert_eq!(
            refused("br,br,br,br"),
            UnpackError::Broken("the answer is compressed more than 3 times".into())
        );
    }
}

//! The URL of a store.

use std::path::PathBuf;

use url::Url;

use crate::blobs::error::{BlobError, BlobErrorKind};

/// The address of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Folder(PathBuf),
    Bucket { bucket: String, prefix: String },
}

/// Parses the URL. Errors do not contain its text, since it may contain a key in the wrong place.
pub(crate) fn parse(url: &str) -> Result<Address, BlobError> {
    let wrong = |message: &str| {
        BlobError::of_store("the URL of the blob store", BlobErrorKind::Settings(message.to_owned()))
    };
    let forms = "it is not a URL; write file:///absolute/folder or s3://bucket/prefix";
    let url = Url::parse(url).map_err(|_| wrong(forms))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "it holds a user or a key; take it out, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() || url.port().is_some() {
        return Err(wrong(
            "it has a port, a `?` or a `#`; write file:///absolute/folder or s3://bucket/prefix",
        ));
    }
    match url.scheme() {
        "file" => {
            let path = url.to_file_path().ok().filter(|_| url.host_str().is_none());
            path.map(Address::Folder)
                .ok_or_else(|| wrong("it names no absolute folder; write file:///absolute/folder"))
        }
        "s3" => {
            let bucket = url.host_str().filter(|bucket| !bucket.is_empty());
            let bucket =
                bucket.ok_or_else(|| wrong("it names no bucket; write s3://bucket/prefix"))?.to_owned();
            Ok(Address::Bucket { bucket, prefix: url.path().trim_matches('/').to_owned() })
        }
        _ => Err(wrong(forms)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_folder_and_a_bucket_are_read() {
        assert_eq!(parse("file:///var/a%20b").unwrap(), Address::Folder("/var/a b".into()));
        let bucket = |prefix: &str| Address::Bucket { bucket: "runs".to_owned(), prefix: prefix.to_owned() };
        assert_eq!(parse("s3://runs").unwrap(), bucket(""));
        assert_eq!(parse("s3://runs/a/b/").unwrap(), bucket("a/b"));
    }

    #[test]
    fn a_wrong_url_says_what_to_write_and_repeats_nothing_of_it() {
        for url in [
            "",
            "blobs",
            "/var/blobs",
            "file://host/blobs",
            "file:///a?b",
            "s3:///x",
            "s3://b:1/x",
            "ftp://hidden/x",
            "s3://AKIA:hidden@b/x",
            "s3://hidden@b",
        ] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error.kind, BlobErrorKind::Settings(_)), "{url}");
            let text = error.to_string();
            let fixes =
                ["write file:///absolute/folder", "write s3://bucket/prefix", "set AWS_ACCESS_KEY_ID"];
            assert!(fixes.iter().any(|fix| text.contains(fix)), "{text}");
            assert!(!text.contains("hidden"), "{text}");
        }
    }
}

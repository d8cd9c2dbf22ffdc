//! Who runs this program: the user of the system, which the system has checked.

#[cfg(target_os = "linux")]
use std::path::Path;
use std::sync::Arc;

use loop_core::Approver;

/// The user of the system who runs this program, with the name that they claim. The account is empty where the system
/// does not vouch for the user id.
pub(crate) fn approver(claim: Option<Arc<str>>) -> Approver {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    named(uid().filter(|_| is_checked()), &users, claim)
}

fn named(uid: Option<u32>, users: &str, claim: Option<Arc<str>>) -> Approver {
    let account = uid.map_or_else(String::new, |uid| format!("uid {uid}"));
    let user = uid.and_then(|uid| name_of(users, uid)).unwrap_or_default();
    Approver { account: account.into(), user: user.into(), claim }
}

/// Whether the user id is the one that the system gave: in a user namespace, any user can have any id.
#[cfg(target_os = "linux")]
fn is_checked() -> bool {
    is_initial_namespace(Path::new("/proc/self/ns/user"))
}

#[cfg(not(target_os = "linux"))]
fn is_checked() -> bool {
    true
}

/// Whether the file of a user namespace is that of the initial one. False where it cannot be read.
#[cfg(target_os = "linux")]
fn is_initial_namespace(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // The file and not the text of the link, which a mounted folder can imitate.
    std::fs::metadata(file).is_ok_and(|file| file.ino() == INITIAL_USER_NAMESPACE)
}

/// The inode of the initial user namespace, which is fixed: `PROC_USER_INIT_INO` of the kernel.
#[cfg(target_os = "linux")]
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// The real user, also where a program of another user was made to run as its owner.
#[cfg(unix)]
fn uid() -> Option<u32> {
    Some(rustix::process::getuid().as_raw())
}

#[cfg(not(unix))]
fn uid() -> Option<u32> {
    None
}

/// The name of a user in a list of users. The environment is not asked: anyone can set it.
fn name_of(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_name_of_the_systems_list() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1001:100::/home/ada:/bin/sh\n";
        assert_eq!((name_of(users, 0), name_of(users, 1001)), (Some("root"), Some("ada")));
        assert_eq!((name_of(users, 100), name_of("", 0)), (None, None));
        let ada = named(Some(1001), users, Some("Ada".into()));
        assert_eq!(ada.to_string(), "ada (uid 1001) as `Ada` (unverified)");
    }

    #[test]
    fn a_user_id_of_a_user_namespace_is_not_an_account() {
        // U4, I-26: `unshare -U` gives one person as many user ids as they like.
        let there = named(None, "root:x:0:0:root:/root:/bin/sh\n", Some("Ada".into()));
        assert_eq!((&*there.account, &*there.user), ("", ""));
        assert_eq!(there.to_string(), "an unverified account as `Ada` (unverified)");
        assert_eq!(approver(None).account.is_empty(), !is_checked());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_link_that_names_the_initial_namespace_is_not_one() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("user");
        assert!(!is_initial_namespace(&link), "there is no such file");
        std::os::unix::fs::symlink("user:[4026531837]", &link).unwrap();
        assert!(!is_initial_namespace(&link));
        std::fs::write(folder.path().join("user:[4026531837]"), "").unwrap();
        assert!(!is_initial_namespace(&link));
        let real = Path::new("/proc/self/ns/user");
        let name = std::fs::read_link(real).unwrap();
        assert_eq!(is_initial_namespace(real), name == Path::new("user:[4026531837]"));
    }
}

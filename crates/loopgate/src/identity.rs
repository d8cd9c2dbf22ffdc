//! Who runs this program: the user of the system, which the system has checked.

use std::sync::Arc;

use loop_core::Approver;

/// The user of the system who runs this program, with the name that they claim.
pub(crate) fn approver(claim: Option<Arc<str>>) -> Approver {
    let uid = uid();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let account = uid.map_or_else(|| "user unknown".to_owned(), |uid| format!("uid {uid}"));
    let user = uid.and_then(|uid| name_of(&users, uid)).unwrap_or_default();
    Approver { account: account.into(), user: user.into(), claim }
}

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
        let here = approver(Some("Ada".into()));
        assert!(
            here.account.starts_with("uid ") && here.to_string().ends_with(" as `Ada` (unverified)"),
            "{here}"
        );
    }
}

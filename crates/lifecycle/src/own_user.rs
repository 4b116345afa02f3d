//! The one user that an engine works for: whoever runs it.

use std::path::PathBuf;

use sandbox::User;

/// The user of this process, as the password database knows them.
///
/// Where it does not (a container with a number for a user), the number is the name, and `HOME` is believed. The groups are those
/// that this process has: nobody here could give it others.
pub(crate) fn own_user() -> User {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let mut groups: Vec<u32> =
        rustix::process::getgroups().unwrap_or_default().iter().map(|group| group.as_raw()).collect();
    if !groups.contains(&gid) {
        groups.push(gid);
    }
    match User::by_uid(uid) {
        Ok(known) => User { gid, groups, ..known },
        Err(_) => User {
            uid,
            gid,
            groups,
            name: uid.to_string(),
            home: std::env::home_dir().unwrap_or_else(|| PathBuf::from("/")),
            shell: "/bin/sh".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_this_process() {
        let user = own_user();
        assert_eq!(user.uid, rustix::process::geteuid().as_raw());
        assert!(user.groups.contains(&user.gid) && !user.name.is_empty());
    }
}

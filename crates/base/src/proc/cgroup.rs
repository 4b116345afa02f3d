//! `/proc/PID/cgroup`: a line for each hierarchy, `number:controllers:path`. That of version 2 has the number 0 and names no controllers.

/// The place of a process in one hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership<'a> {
    /// Whether this is the hierarchy of version 2.
    pub is_unified: bool,
    /// The controllers of a hierarchy of version 1, with commas between them.
    controllers: &'a str,
    /// The path below the hierarchy's mount point. A cgroup outside our cgroup namespace begins with `/..`.
    pub path: &'a str,
}

impl<'a> Membership<'a> {
    /// The controllers of a hierarchy of version 1.
    pub fn controllers(&self) -> impl Iterator<Item = &'a str> {
        self.controllers.split(',').filter(|name| !name.is_empty())
    }

    /// Whether this is the hierarchy of version 1 that has this controller.
    pub fn has(&self, controller: &str) -> bool {
        !self.is_unified && self.controllers().any(|name| name == controller)
    }
}

/// The places of a process, in the order of the file. A line that does not look like one is passed over.
pub fn memberships(text: &str) -> impl Iterator<Item = Membership<'_>> {
    text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Membership { is_unified: number == "0" && controllers.is_empty(), controllers, path })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_versions_are_read() {
        let found: Vec<_> =
            memberships("3:cpu,cpuacct:/a:b\n1:name=systemd:/x\nnonsense\n0::/user.slice\n").collect();
        assert_eq!(found.iter().map(|one| one.path).collect::<Vec<_>>(), ["/a:b", "/x", "/user.slice"]);
        assert_eq!(found.iter().map(|one| one.is_unified).collect::<Vec<_>>(), [false, false, true]);
        assert!(found[0].has("cpuacct") && !found[0].has("cpua") && !found[2].has(""));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = memberships(&text).map(|one| one.controllers().count()).sum::<usize>();
        }
    }
}

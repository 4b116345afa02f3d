//! Who the processes in images are, held against the specification: users and groups, resource limits, what the kernel ends first when memory
//! is short, the profile of AppArmor or SELinux.
//!
//! A container's processes may change all of these within bounds: one with `CAP_SETUID` becomes whoever it likes, one without
//! `no_new_privs` whoever its set-user-id programs make of it, one with `CAP_SYS_RESOURCE` raises its limits. So what no process that the runtime has started there could
//! have become is refused, and no more.

use serde_json::Value;

use super::claimed::ClaimedThread;
use crate::specification::Specification;

const SETGID: u64 = 1 << 6;
const SETUID: u64 = 1 << 7;
const SYS_RESOURCE: u64 = 1 << 24;

/// Resource limits, by the kernel's numbers.
const LIMITS: &str =
    "CPU FSIZE DATA STACK CORE RSS NPROC NOFILE MEMLOCK AS LOCKS SIGPENDING MSGQUEUE NICE RTPRIO RTTIME";

/// What of it no process of this container could have become; `bounding` has the capabilities that it can ever have.
pub(super) fn wrong(specification: &Specification, bounding: u64, thread: &ClaimedThread) -> Option<String> {
    wrong_user(specification, bounding, thread)
        .or_else(|| wrong_limit(specification, bounding, thread))
        .or_else(|| wrong_score(specification, bounding, thread))
        .or_else(|| wrong_profile(specification, thread))
}

fn wrong_user(specification: &Specification, bounding: u64, thread: &ClaimedThread) -> Option<String> {
    let listed =
        |pointer: &str| specification.at(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    // Numbers are other ones inside of a user namespace.
    let is_mapped = !listed("/linux/uidMappings").is_empty()
        || specification.namespaces().iter().any(|namespace| namespace.kind == "user");
    let is_closed = specification.at("/process/noNewPrivileges").and_then(Value::as_bool) == Some(true);
    if is_mapped || !is_closed {
        return None;
    }
    let (uid, gid) = specification.user();
    let more = listed("/process/user/additionalGids").iter().filter_map(Value::as_u64);
    let groups: Vec<u64> = [gid].into_iter().chain(more).collect();
    let other = |has: &[u32], may: &[u64]| has.iter().copied().find(|one| !may.contains(&u64::from(*one)));
    let (user, group) = (other(&thread.users, &[uid]), other(&thread.groups, &groups));
    let user = user.filter(|_| bounding & SETUID == 0).map(|user| format!("user {user}"));
    let group = group.filter(|_| bounding & SETGID == 0).map(|group| format!("group {group}"));
    let who = user.or(group)?;
    Some(format!("{} has {who}, which nobody in a container of this specification can get", thread.who))
}

fn wrong_limit(specification: &Specification, bounding: u64, thread: &ClaimedThread) -> Option<String> {
    if bounding & SYS_RESOURCE != 0 {
        return None;
    }
    let asked = specification.at("/process/rlimits").and_then(Value::as_array)?;
    asked.iter().find_map(|limit| {
        let (name, most) =
            (limit.get("type")?.as_str()?.strip_prefix("RLIMIT_")?, limit.get("hard")?.as_u64()?);
        let number = LIMITS.split_whitespace().position(|known| known == name)?;
        let has = thread.limits.get(number)?;
        let who = &thread.who;
        (*has > most)
            .then(|| format!("{who} may have {name} up to {has}, and the specification allows {most}"))
    })
}

/// Whether it is spared when memory is short. Anybody may raise this number; one who has raised it gets back to where it was begun, and not below.
fn wrong_score(specification: &Specification, bounding: u64, thread: &ClaimedThread) -> Option<String> {
    let least = specification.at("/process/oomScoreAdj").and_then(Value::as_i64)?;
    let has = thread.oom_score_adj.filter(|has| *has < least && bounding & SYS_RESOURCE == 0)?;
    Some(format!(
        "{} is spared when memory is short (oom_score_adj {has}), and the specification says {least}",
        thread.who
    ))
}

fn wrong_profile(specification: &Specification, thread: &ClaimedThread) -> Option<String> {
    let asked = ["/process/apparmorProfile", "/process/selinuxLabel"];
    let mut asked = asked.into_iter().filter_map(|pointer| specification.at(pointer)?.as_str());
    let profile = asked.find(|profile| !profile.is_empty() && *profile != "unconfined")?;
    match &thread.profile {
        // A child profile, which is entered by running a program.
        Some(has) if has == profile || has.starts_with(&format!("{profile}//")) => None,
        // Where nothing confines anybody, nobody has a profile.
        None if !thread.could_be_confined => None,
        has => Some(format!(
            "{} is confined by {}, and the specification wants {profile}",
            thread.who,
            has.as_deref().unwrap_or("nothing")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: &str = r#"{
        "process": {
            "noNewPrivileges": true, "user": {"uid": 1000, "gid": 100, "additionalGids": [44]},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512}, {"type": "RLIMIT_STRANGE", "hard": 1}],
            "apparmorProfile": "the-default"
        }
    }"#;

    fn honest() -> ClaimedThread {
        let mut limits = vec![u64::MAX; 16];
        limits[7] = 1024;
        ClaimedThread {
            who: "thread 1".into(),
            users: vec![1000; 4],
            groups: vec![100, 100, 100, 100, 44],
            limits,
            profile: Some("the-default".into()),
            could_be_confined: true,
            ..ClaimedThread::default()
        }
    }

    fn told(live: &str, bounding: u64, thread: &ClaimedThread) -> Option<String> {
        wrong(&Specification::parse(live.as_bytes()).unwrap(), bounding, thread)
    }

    #[test]
    fn what_a_process_could_have_become_may_come_back() {
        assert_eq!(told(LIVE, 0, &honest()), None);
        assert_eq!(told(LIVE, SETUID, &ClaimedThread { users: vec![0; 4], ..honest() }), None);
        assert_eq!(told(LIVE, SETGID, &ClaimedThread { groups: vec![6], ..honest() }), None);
        assert_eq!(told(LIVE, SYS_RESOURCE, &ClaimedThread { limits: vec![u64::MAX; 16], ..honest() }), None);
        let child = Some("the-default//inner".to_owned());
        assert_eq!(told(LIVE, 0, &ClaimedThread { profile: child, ..honest() }), None);
        let elsewhere = ClaimedThread { profile: None, could_be_confined: false, ..honest() };
        assert_eq!(told(LIVE, 0, &elsewhere), None);
        let open = LIVE.replace("\"noNewPrivileges\": true", "\"noNewPrivileges\": false");
        assert_eq!(told(&open, 0, &ClaimedThread { users: vec![0; 4], ..honest() }), None);
        let mapped = LIVE.replacen(
            '{',
            r#"{"linux": {"uidMappings": [{"containerID": 0, "hostID": 1, "size": 9}]},"#,
            1,
        );
        assert_eq!(told(&mapped, 0, &ClaimedThread { users: vec![1], ..honest() }), None);
        assert_eq!(told("{}", 0, &ClaimedThread { users: vec![0], ..honest() }), None);
    }

    #[test]
    fn a_user_a_group_a_limit_or_a_profile_that_the_specification_does_not_have_is_refused() {
        let mut limits = honest().limits;
        limits[7] = 1025;
        for (crafted, words) in [
            (ClaimedThread { users: vec![1000, 0, 1000, 1000], ..honest() }, "user 0"),
            (ClaimedThread { users: vec![1001; 4], ..honest() }, "user 1001"),
            (ClaimedThread { groups: vec![100, 6], ..honest() }, "group 6"),
            (ClaimedThread { limits, ..honest() }, "NOFILE up to 1025"),
            (ClaimedThread { profile: Some("unconfined".into()), ..honest() }, "wants the-default"),
            (ClaimedThread { profile: Some("the-default-not".into()), ..honest() }, "wants the-default"),
            (ClaimedThread { profile: None, ..honest() }, "by nothing"),
        ] {
            let finding = told(LIVE, 0, &crafted).unwrap();
            assert!(finding.contains(words), "{finding}");
        }
        let labelled = LIVE.replace("apparmorProfile", "selinuxLabel");
        let other = ClaimedThread { profile: Some("system_u:system_r:spc_t:s0".into()), ..honest() };
        assert!(told(&labelled, 0, &other).is_some());
    }
}

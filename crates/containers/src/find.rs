//! The one container that was asked for.
//!
//! All runtimes are asked at a time. One may know a container that another looks after: podman starts its containers with runc or crun, whose
//! lists then have them, too. What is the same to the kernel (same id, same first process) is one container, and whoever was asked to make it
//! answers for it.

use std::thread;

use crate::container::{Container, Kind, Runtime};
use crate::error::{ContainerError, Result};
use crate::member::Member;
use crate::places::Places;
use crate::query::Query;
use crate::runtimes;

/// Finds the container. Several that fit are an error that names them, and so is a runtime that may know another and does not answer.
pub fn find(places: &Places, query: &Query) -> Result<Container> {
    let member = query.pid().and_then(Member::of);
    let ask = |runtime: &Runtime| runtimes::find(runtime, places, query, member.as_ref());
    let answers: Vec<Result<Vec<Container>>> = thread::scope(|scope| {
        let asked: Vec<_> = places.runtimes.iter().map(|runtime| scope.spawn(move || ask(runtime))).collect();
        let gone = || {
            Err(ContainerError::Silent {
                runtime: "a runtime".to_owned(),
                why: "the look at it failed".to_owned(),
            })
        };
        asked.into_iter().map(|answer| answer.join().unwrap_or_else(|_| gone())).collect()
    });
    choose(places, query, answers)
}

fn choose(places: &Places, query: &Query, answers: Vec<Result<Vec<Container>>>) -> Result<Container> {
    let (mut found, mut troubles) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(containers) => found.extend(containers),
            Err(trouble) => troubles.push(trouble),
        }
    }
    let mut found = without_repetitions(found);
    if found.len() > 1 {
        let candidates = found.iter().map(ToString::to_string).collect();
        return Err(ContainerError::Ambiguous { asked: query.as_str().to_owned(), candidates });
    }
    // Where one was asked, its trouble is the answer. A name may be known to somebody who is too slow to say so; an id is nobody else's.
    let is_certain = found.first().is_some_and(|one| one.id.as_str() == query.as_str());
    let matters = |trouble: &ContainerError| places.runtimes.len() == 1 || !is_unreachable(trouble);
    if !is_certain && let Some(at) = troubles.iter().position(matters) {
        return Err(troubles.swap_remove(at));
    }
    found.pop().ok_or_else(|| ContainerError::NotFound {
        asked: query.as_str().to_owned(),
        tried: places.runtimes.iter().map(ToString::to_string).collect(),
        silent: troubles.iter().map(ToString::to_string).collect(),
    })
}

/// A runtime that is not there has no containers.
const fn is_unreachable(trouble: &ContainerError) -> bool {
    matches!(trouble, ContainerError::Silent { .. })
}

fn without_repetitions(mut found: Vec<Container>) -> Vec<Container> {
    // Those who make containers for people before those who make them for others.
    let rank = |container: &Container| match container.runtime.kind() {
        Kind::Podman => 0,
        Kind::Containerd => 1,
        Kind::Runc | Kind::Crun => 2,
    };
    found.sort_by_key(rank);
    let mut kept: Vec<Container> = Vec::new();
    for one in found {
        let is_same = |other: &Container| other.id == one.id && other.pid == one.pid && one.pid.is_some();
        if !kept.iter().any(is_same) {
            kept.push(one);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sample::{container, podman, runc};

    fn chosen(asked: &str, answers: Vec<Result<Vec<Container>>>) -> Result<Container> {
        let runtimes = answers.iter().map(|_| podman()).collect();
        let places = Places { runtimes, namespaces: Vec::new(), patience: Duration::from_secs(1) };
        choose(&places, &Query::parse(asked).unwrap(), answers)
    }

    fn slow() -> Result<Vec<Container>> {
        Err(ContainerError::Slow { runtime: "containerd".to_owned(), limit: Duration::from_secs(1) })
    }

    fn silent() -> Result<Vec<Container>> {
        Err(ContainerError::Silent { runtime: "containerd".to_owned(), why: "nobody".to_owned() })
    }

    #[test]
    fn what_podman_and_runc_both_know_is_podmans() {
        let answers =
            vec![Ok(vec![container(runc("/run/runc"), "a", 7)]), Ok(vec![container(podman(), "a", 7)])];
        assert_eq!(chosen("a", answers).unwrap().runtime.kind(), Kind::Podman);
    }

    #[test]
    fn two_of_a_name_are_both_named() {
        let one = container(runc("/run/runc"), "a", 7);
        let other = container(podman(), "b", 8);
        let error = chosen("train", vec![Ok(vec![one]), Ok(vec![other])]).unwrap_err();
        assert_eq!(error.code(), "IJ-O003");
        let said = error.to_string();
        assert!(said.contains("a (runc in /run/runc") && said.contains("b (podman"), "{said}");
    }

    #[test]
    fn who_may_know_another_of_the_name_must_answer() {
        let one = || Ok(vec![container(podman(), "a", 7)]);
        assert_eq!(chosen("train", vec![one(), slow()]).unwrap_err().code(), "IJ-O011");
        assert_eq!(chosen("a", vec![one(), slow()]).unwrap().pid, Some(7));
        assert_eq!(chosen("train", vec![one(), silent()]).unwrap().pid, Some(7));
        assert_eq!(chosen("train", vec![silent()]).unwrap_err().code(), "IJ-O010");
    }

    #[test]
    fn nothing_found_says_who_was_asked_and_who_did_not_answer() {
        let error = chosen("x", vec![Ok(Vec::new()), silent()]).unwrap_err();
        assert_eq!(error.code(), "IJ-O002");
        assert!(error.hint().unwrap().contains("nobody"), "{error:?}");
        let nowhere =
            Places { runtimes: Vec::new(), namespaces: Vec::new(), patience: Duration::from_secs(1) };
        let error = find(&nowhere, &Query::parse("x").unwrap()).unwrap_err();
        assert!(error.to_string().contains("no runtime was found"), "{error}");
    }
}

//! What somebody typed to name a container, and what it fits.
//!
//! An id or the beginning of one, a name, a pod (`NAME`, or `NAMESPACE/NAME` in Kubernetes), or the number of any process in it. Nothing
//! says which of these is meant, and nothing has to: what fits several containers, whichever way, is refused.

use crate::container::Container;
use crate::error::{ContainerError, Result};

/// The longest that is looked for. Kubernetes' names have 253 characters at most, and there may be two of them.
const LONGEST: usize = 512;
/// So many digits of an id are no accident.
const SHORTEST_PREFIX: usize = 3;

/// What was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query(String);

impl Query {
    /// Checks what was typed. Only characters that names and ids of containers are made of: it becomes part of filters and command lines.
    pub fn parse(asked: &str) -> Result<Self> {
        let refuse = |why| Err(ContainerError::NotAQuery { asked: asked.chars().take(80).collect(), why });
        if asked.is_empty() || asked.len() > LONGEST {
            return refuse("it must have 1 to 512 characters");
        }
        if asked.starts_with(['-', '.', '/']) || asked.ends_with('/') {
            return refuse("it may not begin with `-`, `.` or `/`");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        if !asked.chars().all(plain) || asked.matches('/').count() > 1 {
            return refuse("it may hold letters, digits, `.`, `_`, `-` and one `/`");
        }
        Ok(Self(asked.to_owned()))
    }

    /// As it was typed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The process that it may mean.
    pub fn pid(&self) -> Option<i32> {
        self.0.parse().ok().filter(|pid| *pid > 0)
    }

    /// Whether it is this id, or the beginning of it. Ids that people chose are short and begin alike, so only those that nobody chose may be shortened.
    pub fn fits_id(&self, id: &str) -> bool {
        let is_random = id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        id == self.0 || (is_random && self.0.len() >= SHORTEST_PREFIX && id.starts_with(&self.0))
    }

    /// Whether it is this pod.
    pub fn fits_pod(&self, name: &str, namespace: Option<&str>) -> bool {
        match self.0.split_once('/') {
            Some((of, pod)) => namespace == Some(of) && pod == name,
            None => name == self.0,
        }
    }

    /// Whether a container is meant by its id, its name or its pod.
    pub fn fits(&self, container: &Container) -> bool {
        let pod = container.pod.as_ref();
        self.fits_id(container.id.as_str())
            || container.name.as_deref() == Some(self.as_str())
            || pod.is_some_and(|pod| self.fits_pod(&pod.name, pod.namespace.as_deref()))
            || pod.is_some_and(|pod| pod.id.as_deref().is_some_and(|id| self.fits_id(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_an_option_a_filter_or_a_way_out_is_refused() {
        for bad in
            ["", "-v", "../x", "a b", "a\"b", "a|b", "a,b", "a\n", "a/b/c", "é", "x/", &"a".repeat(600)]
        {
            let refused = Query::parse(bad).unwrap_err();
            assert_eq!(refused.code(), "IJ-O001", "{bad}");
        }
        for good in ["c1", "4711", "default/web-0", &"ab".repeat(32), "k8s_pod_x"] {
            assert_eq!(Query::parse(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn only_ids_that_nobody_chose_may_be_shortened() {
        let random = "0123456789abcdef".repeat(4);
        let query = |text: &str| Query::parse(text).unwrap();
        assert!(query("0123").fits_id(&random) && query(&random).fits_id(&random));
        assert!(!query("01").fits_id(&random) && !query("123").fits_id(&random));
        assert!(query("train").fits_id("train") && !query("tra").fits_id("train"));
    }

    #[test]
    fn a_pod_may_be_named_with_its_namespace() {
        let query = Query::parse("science/web-0").unwrap();
        assert!(query.fits_pod("web-0", Some("science")));
        assert!(!query.fits_pod("web-0", Some("default")) && !query.fits_pod("web-0", None));
        assert!(Query::parse("web-0").unwrap().fits_pod("web-0", Some("default")));
    }

    #[test]
    fn numbers_may_be_processes() {
        assert_eq!(Query::parse("4711").unwrap().pid(), Some(4711));
        for not in ["0", "c1", "99999999999"] {
            assert_eq!(Query::parse(not).unwrap().pid(), None);
        }
    }
}

//! Which files belong to what is taken of a session, and to the way back.

use workspace::{FilePolicy, Listing, Places};

use crate::error::{RecordError, Result};
use crate::habitat::HabitatKind;
use crate::record::Record;
use crate::words::{TREE_BYTES, file_policy};

/// The policy of a session that begins. Nothing is mounted in it yet that could be chosen.
pub fn policy_at_start(asked: api::FilePolicy) -> Result<FilePolicy> {
    checked(file_policy(asked), &Places::default())
}

fn checked(policy: FilePolicy, places: &Places) -> Result<FilePolicy> {
    policy.check().map_err(|detail| RecordError::BadRequest { detail })?;
    policy.check_volumes(places)?;
    Ok(policy)
}

impl Record {
    /// What belongs to a snapshot: what was asked for, otherwise what always does.
    pub fn files_wanted(&self, asked: Option<&api::FilePolicy>, places: &Places) -> Result<FilePolicy> {
        checked(asked.map_or_else(|| self.files.clone(), |asked| file_policy(asked.clone())), places)
    }

    /// What belongs to the way back to a snapshot. Nobody says of a container at its start which files belong to it: those that its snapshot has do.
    /// What is taken before it goes back must hold what has come since, or it stays.
    pub fn policy_back(&self, to: &Listing, places: &Places) -> FilePolicy {
        let has_all = to.whole_tree || !to.volumes.is_empty();
        if self.habitat != HabitatKind::Container || !has_all || to.is_shortened() {
            return self.files.clone();
        }
        let tree = match &self.files {
            FilePolicy::Tree { .. } => self.files.clone(),
            FilePolicy::Open | FilePolicy::Workspace | FilePolicy::None => FilePolicy::Tree {
                include: Vec::new(),
                exclude: Vec::new(),
                max_bytes: TREE_BYTES,
                volumes: Vec::new(),
            },
        };
        tree.with_volumes(&to.volumes, places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionId;
    use sandbox::User;

    #[test]
    fn a_container_goes_back_with_all_that_its_snapshot_has() {
        let here = tempfile::tempdir().unwrap();
        let mut record =
            Record::new(SessionId::random().unwrap(), "c".into(), "c".into(), User::current().unwrap());
        let places = Places { mapped: vec![("/data".into(), here.path().into())], ..Places::default() };
        let to =
            Listing { whole_tree: true, volumes: vec!["/data".into(), "/gone".into()], ..Listing::default() };
        assert_eq!(record.policy_back(&to, &places), record.files);
        record.habitat = HabitatKind::Container;
        assert_eq!(record.policy_back(&to, &places).volumes(), ["/data"].map(std::path::PathBuf::from));
        assert_eq!(record.policy_back(&Listing::default(), &places), record.files);
        // What was left out is not all named, and might go.
        let shortened = Listing { not_captured: vec!["/…".into()], ..to };
        assert_eq!(record.policy_back(&shortened, &places), record.files);
    }

    #[test]
    fn volumes_that_are_none_are_refused_by_name() {
        let tree = api::FilePolicy::Tree {
            include: Vec::new(),
            exclude: Vec::new(),
            max_bytes: None,
            volumes: vec!["/data".into()],
        };
        let error = policy_at_start(tree.clone()).unwrap_err().to_string();
        assert!(error.contains("`/data`"), "{error}");
        let record =
            Record::new(SessionId::random().unwrap(), "c".into(), "c".into(), User::current().unwrap());
        record.files_wanted(Some(&tree), &Places::default()).unwrap_err();
        assert_eq!(record.files_wanted(None, &Places::default()).unwrap(), record.files);
    }
}

//! A session, as it is seen from outside.

use api::{KernelView, Origin, SessionView};

use crate::record::Record;
use crate::words::{tell_file_policy, tell_session_policy};

/// What a record says. What its processes use and do now is not in it.
pub fn session_view(record: &Record) -> SessionView {
    SessionView {
        id: record.id.to_string(),
        name: record.name.clone(),
        state: record.state,
        command: record.command.iter().map(|word| word.as_str().into()).collect(),
        cwd: record.cwd.as_path().into(),
        workspace: Some(record.files_at.as_path().into()),
        pid: record.init.map(|init| init.pid),
        network: record.network,
        kernel: record.kernel.as_ref().map(|kernel| KernelView {
            connection_file: kernel.connection_file.as_path().into(),
            kernel_name: Some(kernel.spec.clone()),
            language: Some(kernel.language.clone()).filter(|language| !language.is_empty()),
            interrupt_mode: kernel.interrupt_mode,
        }),
        thread: record.thread.clone(),
        head: record.head.clone(),
        parent: record
            .origin
            .as_ref()
            .map(|origin| Origin { session: origin.session.to_string(), commit: origin.commit.clone() }),
        created: record.created.to_string(),
        exit: record.exit,
        files: tell_file_policy(record.files.clone()),
        memory_bytes: None,
        standby_bytes: None,
        attached: record.habitat.is_adopted(),
        gpus: record.gpus.clone(),
        vram_bytes: None,
        gpu_trouble: record.gpu_trouble.clone(),
        labels: record.notes.labels.clone(),
        notebook: record.notes.notebook.as_deref().map(Into::into),
        policy: tell_session_policy(&record.notes.policy),
        operation: None,
        activity: None,
        mark: record.notes.mark.clone(),
        kept_files: None,
    }
}

//! Well-known failures of CRIU, each as a sentence and a way out.

/// What a well-known failure means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Words that one line of CRIU's log has when it happens, all of them.
    pub words: &'static [&'static str],
    /// What it means, as the tail of a sentence.
    pub meaning: &'static str,
    /// What to do.
    pub way_out: &'static str,
}

/// Special ones first: the first entry that fits a line is taken, and CRIU's later lines only repeat what the first said.
const TABLE: &[Explanation] = &[
    Explanation {
        words: &["has bad size"],
        meaning: "a file that the processes had open has another size now than at the snapshot",
        way_out: "roll back with files, so that the file is put back too, or restore the file by hand",
    },
    Explanation {
        words: &["has bad mode"],
        meaning: "a file that the processes had open has other permissions now than at the snapshot",
        way_out: "give the file its old permissions back with chmod",
    },
    Explanation {
        words: &["Can't fork for", "File exists"],
        meaning: "a process with the same number runs already",
        way_out: "end the original first, or restore as a branch, which has a PID namespace of its own",
    },
    Explanation {
        words: &["do not match expected"],
        meaning: "a process number was taken by another process during the restore",
        way_out: "try again, or restore into a PID namespace of its own",
    },
    Explanation {
        words: &["half of stream unix connection"],
        meaning: "a unix socket of the processes is connected to a process outside",
        way_out: "close the connection (for kernels: use TCP, not the ipc transport), then try again",
    },
    Explanation {
        words: &["External socket is used"],
        meaning: "a unix socket of the processes is connected to a process outside",
        way_out: "close the connection (for kernels: use TCP, not the ipc transport), then try again",
    },
    Explanation {
        words: &["chr 195:"],
        meaning: "a process has an NVIDIA GPU open, and its state cannot be saved this way",
        way_out: "end the work on the GPU (close the process, or free its context), then try again",
    },
    Explanation {
        words: &["increase limit"],
        meaning: "a deleted file that is still open is too large for the image",
        way_out: "close the deleted file, or do not delete it while it is open",
    },
    Explanation {
        words: &["Address already in use"],
        meaning: "a port or socket that the processes listened on is taken",
        way_out: "end what uses it, or use a private network (`--network private`), where ports cannot collide",
    },
    Explanation {
        words: &["io_uring"],
        meaning: "a process uses io_uring, which CRIU cannot save",
        way_out: "make the program use another I/O backend (for libuv: UV_USE_IO_URING=0), then try again",
    },
    Explanation {
        words: &["send_fds", "-22"],
        meaning: "a process has a descriptor that cannot be handed over, most likely io_uring, which CRIU cannot save",
        way_out: "make the program use another I/O backend (for libuv: UV_USE_IO_URING=0), then try again",
    },
    Explanation {
        words: &["Can't get rlimit"],
        meaning: "CRIU may not look at the limits of another user's process without CAP_SYS_RESOURCE",
        way_out: "give the daemon CAP_SYS_RESOURCE, or let it run CRIU with the user's real ids",
    },
    Explanation {
        words: &["doesn't have a proper root mount"],
        meaning: "a mount inside the processes' namespace has its source outside of it",
        way_out: "unmount it inside the session; device nodes must be made there, not bound from the host",
    },
    Explanation {
        words: &["session leader", "outside of its pid namespace"],
        meaning: "a process belongs to a session that was started outside of its PID namespace",
        way_out: "start the first process of the namespace as a session leader (setsid)",
    },
    Explanation {
        words: &["A session leader"],
        meaning: "the processes belong to a session whose leader is not among them",
        way_out: "snapshot the whole session, or treat it as a shell job",
    },
    Explanation {
        words: &["shell-job"],
        meaning: "the processes are attached to a terminal outside",
        way_out: "treat them as a shell job, or start them without that terminal",
    },
    Explanation {
        words: &["Can't lookup mount"],
        meaning: "a process has a file open that is not reachable in its own mount namespace",
        way_out: "open standard input and output inside the session's namespace",
    },
    Explanation {
        words: &["No mapping for"],
        meaning: "a mount that has to be given anew at each restore was not given",
        way_out: "this is a fault of infinijup: please report it with CRIU's log",
    },
    Explanation {
        words: &["find an external netns"],
        meaning: "the network namespace that has to be given anew at each restore was not given",
        way_out: "this is a fault of infinijup: please report it with CRIU's log",
    },
    Explanation {
        words: &["Connected TCP socket"],
        meaning: "a process has an established TCP connection",
        way_out: "close it, or let it come back closed",
    },
    Explanation {
        words: &["In-flight connection"],
        meaning: "somebody was just connecting to a port of the processes",
        way_out: "try again",
    },
    Explanation {
        words: &["Some file locks are hold"],
        meaning: "a process holds a file lock",
        way_out: "let the lock go, then try again",
    },
    Explanation {
        words: &["ptrace", "Operation not permitted"],
        meaning: "a process cannot be traced: a debugger may hold it, or a right is missing",
        way_out: "detach the debugger, and see what `infinijup doctor` says about rights",
    },
    Explanation {
        words: &["already traced"],
        meaning: "a debugger holds one of the processes",
        way_out: "detach the debugger, then try again",
    },
    Explanation {
        words: &["No space left on device"],
        meaning: "there is no room for the images",
        way_out: "free some space where the daemon keeps its state, then try again",
    },
    Explanation {
        words: &["Cannot allocate memory"],
        meaning: "there is not enough memory",
        way_out: "free some memory, or raise the session's limit, then try again",
    },
    Explanation {
        words: &["xfeatures"],
        meaning: "the snapshot was taken on a processor with features that this one lacks",
        way_out: "restore it on a machine with the same or a newer processor",
    },
    Explanation {
        words: &["RPC client reported script error"],
        meaning: "a step of ours failed while CRIU waited for it",
        way_out: "see the cause; the processes were not changed",
    },
    Explanation {
        words: &["Can't open file", "No such file or directory"],
        meaning: "a file that the processes had open is gone",
        way_out: "roll back with files, so that the file is put back too, or restore the file by hand",
    },
    Explanation {
        words: &["No such file or directory"],
        meaning: "a file or directory that the restore needs is gone",
        way_out: "put it back (the log of CRIU names it), or roll back with files",
    },
];

/// What the first of `lines` that is known means.
pub fn explain(lines: &[String]) -> Option<&'static Explanation> {
    TABLE.iter().find(|entry| lines.iter().any(|line| entry.words.iter().all(|word| line.contains(word))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(line: &str) -> &'static str {
        explain(&[line.to_owned()]).map_or("", |entry| entry.meaning)
    }

    #[test]
    fn real_lines_of_criu_are_known() {
        // Lines as seen in logs.
        for (line, part) in [
            (
                "Error (criu/files-reg.c:2175): File home/u/h.sqlite has bad size 28672 (expect 24576)",
                "another size",
            ),
            ("Error (criu/cr-restore.c:1230): Can't fork for 14913: File exists", "same number"),
            (
                "Error (criu/sk-unix.c:833): unix: Can't dump half of stream unix connection.",
                "process outside",
            ),
            (
                "Error (criu/sk-unix.c:879): unix: External socket is used. Consider using --ext-unix-sk option.",
                "outside",
            ),
            (
                "Error (criu/files-ext.c:98): Can't dump file 5 of that type [20666] (chr 195:255 /dev/nvidiactl)",
                "GPU",
            ),
            (
                "Error (criu/files-reg.c:1031): Can't dump ghost file /x of 5242880 size, increase limit",
                "deleted",
            ),
            (
                "Error (criu/sk-inet.c:1012): inet: Can't bind inet socket (id 19): Address already in use",
                "taken",
            ),
            ("Error (criu/files.c:655): Can't send_fds: -22", "io_uring"),
            ("Error (criu/cr-dump.c:388): Can't get rlimit 7: Operation not permitted", "CAP_SYS_RESOURCE"),
            ("Error (criu/mount.c:1054): mnt: 24:./dev/null doesn't have a proper root mount", "outside"),
            (
                "Error (criu/cr-dump.c:1681): A session leader of 12(1) is outside of its pid namespace",
                "session",
            ),
            (
                "Error (criu/files-reg.c:2353): Can't open file tmp/x on restore: No such file or directory",
                "had open",
            ),
        ] {
            assert!(meaning(line).contains(part), "{line}: {}", meaning(line));
        }
        assert_eq!(meaning("Error (criu/new.c:1): something that nobody has seen"), "");
    }

    #[test]
    fn the_special_wins_over_the_general() {
        let lines = [
            "Error (criu/util.c:1): Can't open /x: No such file or directory".to_owned(),
            "Error (criu/files-reg.c:2175): File x has bad size 5 (expect 4)".to_owned(),
        ];
        assert!(explain(&lines).unwrap().meaning.contains("size"));
    }

    #[test]
    fn every_entry_is_a_part_of_a_sentence() {
        for entry in TABLE {
            assert!(!entry.words.is_empty());
            assert!(!entry.meaning.ends_with('.') && !entry.way_out.ends_with('.'), "{entry:?}");
        }
    }
}

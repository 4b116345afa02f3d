//! Which messages CRIU 4.2 writes, and which of their fields may be in an image that is restored for a user.
//!
//! The numbers are facts of CRIU's format; the tables are our own. A field that is not listed refuses the image, so some are
//! left out on purpose: what no session of ours has (SELinux labels, plugin data) need not be looked at.

use crate::wire::{Field, Kind, Schema};

const fn one(number: u32) -> Field {
    Field { number, many: false, kind: Kind::Small }
}
const fn many(number: u32) -> Field {
    Field { number, many: true, kind: Kind::Small }
}
const fn wide(number: u32) -> Field {
    Field { number, many: false, kind: Kind::Wide }
}
const fn wides(number: u32) -> Field {
    Field { number, many: true, kind: Kind::Wide }
}
const fn signed(number: u32) -> Field {
    Field { number, many: false, kind: Kind::Signed }
}
const fn zigzag(number: u32) -> Field {
    Field { number, many: false, kind: Kind::Zigzag }
}
const fn text(number: u32) -> Field {
    Field { number, many: false, kind: Kind::Text }
}
const fn texts(number: u32) -> Field {
    Field { number, many: true, kind: Kind::Text }
}
const fn blob(number: u32) -> Field {
    Field { number, many: false, kind: Kind::Blob }
}
const fn inner(number: u32, schema: &'static Schema) -> Field {
    Field { number, many: false, kind: Kind::Inner(schema) }
}
const fn inners(number: u32, schema: &'static Schema) -> Field {
    Field { number, many: true, kind: Kind::Inner(schema) }
}

macro_rules! schema {
    ($($name:ident $what:literal [$($field:expr),* $(,)?];)*) => {
        $(pub(crate) static $name: Schema = Schema { name: $what, fields: &[$($field),*] };)*
    };
}

schema! {
    // processes
    KOBJ_IDS "ids" [one(1), one(2), one(3), one(4), one(5), one(6), one(7), one(8), one(9), one(10), one(11), one(12)];
    PLUGINS "the list of plugins" [];
    INVENTORY "the inventory" [one(1), one(2), inner(3, &KOBJ_IDS), one(4), one(5), one(6), wide(8), one(9), one(10), one(11),
        inner(12, &PLUGINS), text(13)];
    PSTREE "pstree" [one(1), one(2), one(3), one(4), many(5)];
    ITIMER "itimer" [wide(1), wide(2), wide(3), wide(4)];
    POSIX_TIMER "posix timer" [one(1), one(2), one(3), one(4), wide(5), one(6), wide(7), wide(8), wide(9), wide(10), signed(11)];
    TIMERS "timers" [inner(1, &ITIMER), inner(2, &ITIMER), inner(3, &ITIMER), inners(4, &POSIX_TIMER)];
    RLIMIT "rlimit" [wide(1), wide(2)];
    RLIMITS "rlimits" [inners(1, &RLIMIT)];
    SIGINFO "siginfo" [blob(1)];
    SIGNALS "signal queue" [inners(1, &SIGINFO)];
    SIGACTION "sigaction" [wide(1), wide(2), wide(3), wide(4), one(5), wide(6)];
    TASK "task" [one(1), one(2), one(3), one(4), wide(5), text(6), inner(7, &TIMERS), inner(8, &RLIMITS), one(9),
        inner(10, &SIGNALS), one(11), one(12), one(13), signed(14), inners(15, &SIGACTION), one(18), wide(20), one(21), one(22)];
    CREDS "credentials" [one(1), one(2), one(3), one(4), one(5), one(6), one(7), one(8), many(9), many(10), many(11), many(12),
        one(13), many(14), text(15), one(18), many(19)];
    ALTSTACK "signal stack" [wide(1), wide(2), one(3)];
    RSEQ "rseq" [wide(1), one(2), one(3), wide(4)];
    THREAD "thread" [wide(1), one(2), zigzag(3), one(4), one(5), wide(6), inner(7, &ALTSTACK), one(8), inner(9, &SIGNALS),
        inner(10, &CREDS), one(11), one(12), text(13), wide(14), inner(15, &RSEQ), one(16)];
    REGS "registers" [wide(1), wide(2), wide(3), wide(4), wide(5), wide(6), wide(7), wide(8), wide(9), wide(10), wide(11), wide(12),
        wide(13), wide(14), wide(15), wide(16), wide(17), wide(18), wide(19), wide(20), wide(21), wide(22), wide(23), wide(24),
        wide(25), wide(26), wide(27), one(28)];
    CET "cet" [wide(1), wide(2)];
    XSAVE "xsave" [wide(1), many(2), wides(3), wides(4), wides(5), wides(6), wides(7), many(8), inner(9, &CET)];
    FPREGS "fpu" [one(1), one(2), one(3), one(4), wide(5), wide(6), one(7), one(8), many(9), many(10), many(11), inner(13, &XSAVE)];
    TLS "tls" [one(1), one(2), one(3), one(4), one(5), one(6), one(7), one(8), one(9), one(10)];
    THREAD_X86 "x86 state" [wide(1), inner(2, &REGS), inner(3, &FPREGS), inners(4, &TLS)];
    PAC_ADDRESS "pac keys" [wide(1), wide(2), wide(3), wide(4), wide(5), wide(6), wide(7), wide(8), wide(9)];
    PAC_GENERIC "pac keys" [wide(1), wide(2)];
    PAC "pac keys" [inner(6, &PAC_ADDRESS), inner(7, &PAC_GENERIC)];
    REGS_ARM "arm registers" [wides(1), wide(2), wide(3), wide(4)];
    FP_ARM "arm fpu" [wides(1), one(2), one(3)];
    THREAD_ARM "arm state" [wide(1), wide(2), inner(3, &REGS_ARM), inner(4, &FP_ARM), inner(5, &PAC)];
    CORE "core" [one(1), inner(2, &THREAD_X86), inner(3, &TASK), inner(4, &KOBJ_IDS), inner(5, &THREAD), inner(8, &THREAD_ARM)];
    FS "fs" [one(1), one(2), one(3)];
    VMA "mapping" [wide(1), wide(2), wide(3), wide(4), one(5), one(6), one(7), zigzag(8), wide(9), one(10)];
    AIO_RING "aio ring" [wide(1), one(2), one(3)];
    MM "mm" [wide(1), wide(2), wide(3), wide(4), wide(5), wide(6), wide(7), wide(8), wide(9), wide(10), wide(11), one(12),
        wides(13), inners(14, &VMA), signed(15), inners(16, &AIO_RING), one(17)];
    PAGEMAP "pagemap" [wide(1), one(2), one(3), one(4), wide(5)];
    SECCOMP_FILTER "seccomp filter" [blob(1), one(2), one(3)];
    SECCOMP "seccomp" [inners(1, &SECCOMP_FILTER)];
    FILE_LOCK "file lock" [one(1), one(2), signed(3), signed(4), wide(5), wide(6)];
    // CRIU is told to leave control groups alone, but reads what they were
    CGROUP_PERMS "cgroup mode" [one(1), one(2), one(3)];
    CGROUP_PROPERTY "cgroup property" [text(1), text(2), inner(3, &CGROUP_PERMS)];
    CGROUP_DIRECTORY "cgroup directory" [text(1), inners(2, &CGROUP_DIRECTORY), inners(3, &CGROUP_PROPERTY), inner(4, &CGROUP_PERMS)];
    CGROUP_CONTROLLER "cgroup controller" [texts(1), inners(2, &CGROUP_DIRECTORY), one(3)];
    CGROUP_MEMBER "cgroup membership" [text(1), text(2), one(3)];
    CGROUP_SET "cgroup set" [one(1), inners(2, &CGROUP_MEMBER)];
    CGROUP "cgroups" [inners(1, &CGROUP_SET), inners(2, &CGROUP_CONTROLLER)];
    // files
    FDINFO "fdinfo" [one(1), one(2), one(3), one(4)];
    FOWN "file owner" [one(1), one(2), one(3), one(4), one(5)];
    REG "file" [one(1), one(2), wide(3), inner(5, &FOWN), text(6), zigzag(7), wide(8), one(9), one(10), many(11), one(12), one(13),
        one(14)];
    SK_OPTS "socket options" [one(1), one(2), wide(3), wide(4), wide(5), wide(6), one(7), one(8), one(9), one(10), one(11), one(12),
        one(13), one(14), text(15), Field { number: 16, many: true, kind: Kind::Fixed }, one(17), one(18), one(19), one(20),
        one(21), one(22), one(23), one(24), one(25)];
    IP_OPTS "ip options" [one(1), one(5), one(6), one(7)];
    TCP_OPTS "tcp options" [one(1), one(2), one(3), one(4), one(5)];
    INET "inet socket" [one(1), one(2), one(3), one(4), one(5), one(6), one(7), one(8), one(9), one(10), many(11), many(12),
        inner(13, &FOWN), inner(14, &SK_OPTS), one(15), inner(16, &IP_OPTS), text(17), one(18), one(19), inner(20, &TCP_OPTS)];
    NETLINK "netlink socket" [one(1), one(2), one(3), one(4), one(6), one(7), many(8), one(9), one(10), inner(11, &FOWN),
        inner(12, &SK_OPTS), one(13)];
    FILE_PERMS "socket file" [one(1), one(2), one(3)];
    UNIX "unix socket" [one(1), one(2), one(3), one(4), one(5), one(6), one(7), one(8), inner(9, &FOWN), inner(10, &SK_OPTS),
        blob(11), one(12), inner(13, &FILE_PERMS), text(14), one(15), one(16), zigzag(17)];
    EVENTFD "eventfd" [one(1), one(2), inner(3, &FOWN), wide(4)];
    EPOLL_TARGET "epoll target" [one(1), one(2), one(3), wide(4), one(5), wide(6), wide(7)];
    EPOLL "epoll" [one(1), one(2), inner(3, &FOWN), inners(4, &EPOLL_TARGET)];
    SIGNALFD "signalfd" [one(1), one(2), inner(3, &FOWN), wide(4)];
    TIMERFD "timerfd" [one(1), one(2), inner(3, &FOWN), one(4), wide(5), one(6), wide(7), wide(8), wide(9), wide(10)];
    FILE_HANDLE "file handle" [one(1), one(2), wides(3), text(4), one(5)];
    INOTIFY_WATCH "inotify watch" [one(1), wide(2), one(3), one(4), one(5), one(6), inner(7, &FILE_HANDLE)];
    INOTIFY "inotify" [one(1), one(2), inner(4, &FOWN), inners(5, &INOTIFY_WATCH)];
    FIFO "fifo" [one(1), one(2), one(3)];
    PIPE "pipe" [one(1), one(2), one(3), inner(4, &FOWN)];
    TTY "terminal" [one(1), one(2), one(3), inner(4, &FOWN), one(6)];
    MEMFD "memfd" [one(1), one(2), wide(3), inner(4, &FOWN), one(5)];
    PIDFD "pidfd" [one(1), one(2), one(3), signed(4), inner(5, &FOWN)];
    // the kinds that are left out (packet and tun sockets, fanotify, namespaces, external files, bpf maps) are refused by it
    FILE "file entry" [one(1), one(2), inner(3, &REG), inner(4, &INET), inner(7, &NETLINK), inner(8, &EVENTFD), inner(9, &EPOLL),
        inner(10, &SIGNALFD), inner(12, &TIMERFD), inner(13, &INOTIFY), inner(16, &UNIX), inner(17, &FIFO), inner(18, &PIPE),
        inner(19, &TTY), inner(20, &MEMFD), inner(22, &PIDFD)];
    REMAP "remap" [one(1), one(2), one(3)];
    TIMEVAL "time" [wide(1), wide(2)];
    GHOST "ghost file" [one(1), one(2), one(3), one(4), wide(5), one(6), inner(7, &TIMEVAL), inner(8, &TIMEVAL), one(9), wide(10),
        text(11)];
    MEMFD_INODE "memfd inode" [text(1), one(2), one(3), wide(4), one(5), one(6), wide(7), one(8), one(9)];
    WINSIZE "window size" [one(1), one(2), one(3), one(4)];
    TERMIOS "termios" [one(1), one(2), one(3), one(4), one(5), one(6), one(7), many(8)];
    PTY "pty" [one(1)];
    TTY_INFO "terminal state" [one(1), one(2), one(3), one(4), one(5), one(6), one(7), one(8), inner(9, &TERMIOS),
        inner(10, &TERMIOS), inner(11, &WINSIZE), inner(12, &PTY), one(13), one(14), one(15)];
    TTY_DATA "terminal data" [one(1), blob(2)];
    // namespaces
    MOUNT "mount" [one(1), one(2), one(3), one(4), one(5), text(6), text(7), text(8), text(9), one(10), one(11), one(12), one(13),
        text(14), one(15), one(16), one(17), text(18)];
    NETNS "network namespace" [text(8)];
    PIDNS "pid namespace" [];
    UTSNS "uts namespace" [text(1), text(2)];
    TIMENS "time namespace" [inner(1, &TIMEVAL), inner(2, &TIMEVAL)];
    IPC_VAR "ipc limits" [many(1), one(2), one(3), one(4), one(5), wide(6), wide(7), one(8), one(9), one(10), one(11), one(12),
        one(13), one(14), one(15), one(16), one(17)];
    IPC_DESC "ipc object" [one(1), one(2), one(3), one(4), one(5), one(6), one(7)];
    IPC_SHM "shared memory" [inner(1, &IPC_DESC), wide(2), one(3), one(4)];
    IPC_SEM "semaphores" [inner(1, &IPC_DESC), one(2)];
    IPC_MSG "message queue" [inner(1, &IPC_DESC), one(2), one(3)];
    IPC_MESSAGE "message" [wide(1), one(2)];
    PIPE_DATA "pipe data" [one(1), one(2), one(3)];
    SCM "passed files" [one(1), many(2)];
    PACKET "queued packet" [one(1), one(2), inners(4, &SCM)];
    TCP_STREAM "tcp stream" [one(1), one(2), one(3), one(4), one(5), one(6), one(7), one(8), one(9), one(10), one(11), one(12),
        one(13), one(14), one(15), one(16), one(17)];
}

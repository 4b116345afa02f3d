"""REST and events for the user interface, below `<base_url>/infinijup/`."""

from infinijup.serverextension.handlers.events import EventsHandler
from infinijup.serverextension.handlers.files import FileTextHandler, SessionFilesHandler, SnapshotFilesHandler
from infinijup.serverextension.handlers.history import (
    DiffHandler,
    ForgetHandler,
    GcHandler,
    HistoryHandler,
    NotebookHandler,
    TagHandler,
    TagsHandler,
    VariablesHandler,
)
from infinijup.serverextension.handlers.kernels import (
    BranchHandler,
    KernelHandler,
    OfferHandler,
    RestoreHandler,
    ResumeHandler,
    SessionHandler,
    SessionsHandler,
    SnapshotHandler,
    SuspendHandler,
)
from infinijup.serverextension.handlers.server import DoctorHandler, PolicyHandler, StatusHandler, StoreHandler
from infinijup.serverextension.handlers.servers import ServersHandler

_KERNEL = r"(?P<kernel_id>\w+-\w+-\w+-\w+-\w+)"

ROUTES = [
    (rf"infinijup/kernels/{_KERNEL}", KernelHandler),
    (r"infinijup/sessions", SessionsHandler),
    (r"infinijup/sessions/(?P<session_id>[^/]+)", SessionHandler),
    (r"infinijup/sessions/(?P<session_id>[^/]+)/files", SessionFilesHandler),
    (r"infinijup/sessions/(?P<session_id>[^/]+)/servers", ServersHandler),
    (r"infinijup/file", FileTextHandler),
    (r"infinijup/files", SnapshotFilesHandler),
    (r"infinijup/history", HistoryHandler),
    (r"infinijup/snapshot", SnapshotHandler),
    (r"infinijup/restore", RestoreHandler),
    (r"infinijup/branch", BranchHandler),
    (r"infinijup/suspend", SuspendHandler),
    (r"infinijup/resume", ResumeHandler),
    (r"infinijup/tag", TagsHandler),
    (r"infinijup/tag/(?P<name>[^/]+)", TagHandler),
    (r"infinijup/forget", ForgetHandler),
    (r"infinijup/gc", GcHandler),
    (r"infinijup/diff", DiffHandler),
    (r"infinijup/notebook", NotebookHandler),
    (r"infinijup/variables", VariablesHandler),
    (r"infinijup/offer", OfferHandler),
    (r"infinijup/doctor", DoctorHandler),
    (r"infinijup/status", StatusHandler),
    (r"infinijup/store", StoreHandler),
    (r"infinijup/policy", PolicyHandler),
    (r"infinijup/events", EventsHandler),
]

"""A program that speaks the Model Context Protocol, by the official client: what a coding assistant is to `infinijup mcp`."""

from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal
from mcp import StdioServerParameters
from mcp.client.client import Client


class Refused(AssertionError):
    """A tool answered with an error."""


class Assistant:
    """Calls tools, one after the other."""

    def __init__(self, portal, client):
        self.portal, self.client = portal, client

    def tools(self):
        """What is offered, by name."""
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}

    def call(self, tool, seconds=None, **arguments):
        """The whole answer of a tool; after so many seconds it is called off."""
        return self.portal.call(self.client.call_tool, tool, arguments, seconds)

    def ask(self, tool, **arguments):
        """What a tool answered, as data."""
        answer = self.call(tool, **arguments)
        if answer.is_error:
            raise Refused(f"{tool} {arguments}: {answer.content[0].text}")
        return answer.structured_content

    def refused(self, tool, **arguments):
        """Why a tool refused: the error as data and as text."""
        answer = self.call(tool, **arguments)
        assert answer.is_error, f"{tool} {arguments} should have been refused: {answer.structured_content}"
        return answer.structured_content, answer.content[0].text

    def run(self, session, code, **options):
        """What came of a cell that ended well, as text."""
        ran = self.ask("run_cell", session=session, code=code, **options)
        assert ran["status"] == "ok", ran
        return ran["output"]


@contextmanager
def assistant(commands, cwd=None, mode="auto"):
    """One that works for a user. `mode` is how client and server agree on a version: by asking, or by the handshake of older clients."""
    user = commands.user
    first, *rest = user.words([str(commands.daemon.bin / "infinijup"), "mcp"])
    environment = {**user.environment(), "INFINIJUP_SOCKET": str(commands.daemon.socket)}
    server = StdioServerParameters(command=first, args=rest, env=environment, cwd=str(cwd or user.home))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server, mode=mode)) as client:
        yield Assistant(portal, client)

"""What this installation can run, and the running of one job.

In: the settings of the tools, as plain values. Out: `offers()`, one line a tool, with why it is off;
and, inside the context, `run`: a job and the response's secrets to an `Outcome` or a `Listing`.
Called by `workers.tools.role` and by `respool tools`.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from workers.tools import web_search
from workers.tools.addresses import AllowedHosts
from workers.tools.job import Failed, Job, Listing, Outcome, arguments_of
from workers.tools.mcp import Mcp
from workers.tools.providers import BASES, PROVIDERS, Provider
from workers.tools.servers import server_of
from workers.tools.web_search import WebSearch

SDK: Final = "mcp"
"""The package that `mcp` tools need; a test may say otherwise."""


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """How the tools of this installation are set up. The key is shown nowhere."""

    timeout_s: float
    provider: str | None = None
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    mcp_allowed_hosts: str | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool, whether it can be run here, and how or why not."""

    tool: str
    on: bool
    note: str


class Registry:
    """The tools of one process. Use as a context manager to run jobs."""

    def __init__(self, settings: ToolSettings) -> None:
        self._settings = settings
        self._allowed = AllowedHosts(settings.mcp_allowed_hosts)
        self._mcp = Mcp(self._allowed, timeout_s=settings.timeout_s)
        self._search: WebSearch | None = None  # inside the context, where a provider is set
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self._mcp.aclose)
        if not why_no_search(self._settings):
            session = await self._stack.enter_async_context(web_search.session())
            self._search = WebSearch(provider_of(self._settings), session)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def offers(self) -> list[Offer]:
        """What can be run."""
        settings = self._settings
        off = why_no_search(settings)
        search = Offer("web_search", not off, off or f"with {settings.provider}")
        if find_spec(SDK) is None:
            return [search, Offer("mcp", False, "the package mcp is not installed")]
        hosts = settings.mcp_allowed_hosts
        note = f"public https servers, and {hosts}" if hosts else "public https servers"
        return [search, Offer("mcp", True, note)]

    async def ready(self, job: Job) -> None:
        """Load what the first job of a kind needs; that takes a second or more, which is not the job's own."""
        if job.tool == "mcp" and find_spec(SDK) is not None:
            await self._mcp.ready()

    async def run(self, job: Job, secrets: bytes) -> Outcome | Listing:
        """Do one job that is `ready`. Raises Failed, with texts that hold no secret."""
        if job.tool == "web_search":
            return await self._web_search(job)
        if job.tool == "mcp":
            return await self._on_server(job, secrets)
        raise Failed("This tool cannot be run here.")

    async def _web_search(self, job: Job) -> Outcome:
        arguments = arguments_of(job.arguments)
        if self._search is None:
            raise Failed("The web search is not set up here.")
        return await self._search.search(arguments, job.options)

    async def _on_server(self, job: Job, secrets: bytes) -> Outcome | Listing:
        if find_spec(SDK) is None:
            raise Failed.http(501, "MCP servers cannot be used here.")
        server = server_of(secrets, job.server)
        if job.kind == "list":
            return await self._mcp.list_tools(server)
        return await self._mcp.call(server, job.name, arguments_of(job.arguments))


def why_no_search(settings: ToolSettings) -> str:
    """Why there is no web search, or nothing."""
    name = settings.provider
    if not name:
        return "RESPOOL_WEB_SEARCH_PROVIDER is not set"
    if name not in PROVIDERS:
        return f"RESPOOL_WEB_SEARCH_PROVIDER must be one of {', '.join(PROVIDERS)}"
    if name not in BASES and not settings.url:
        return f"{name} needs RESPOOL_WEB_SEARCH_URL"
    if settings.url and urlsplit(settings.url).scheme not in ("http", "https"):
        return "RESPOOL_WEB_SEARCH_URL is no http or https address"
    if name in BASES and not settings.api_key:
        return f"{name} needs RESPOOL_WEB_SEARCH_API_KEY"
    return ""


def provider_of(settings: ToolSettings) -> Provider:
    """The provider that is set; `why_no_search` has found nothing."""
    name = settings.provider or ""
    url = (settings.url or BASES[name]).rstrip("/")
    return PROVIDERS[name](url, settings.api_key or "")

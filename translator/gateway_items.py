"""The public side of what the gateway runs: searches, MCP calls, lists of tools, and questions about calls.

In: a call of the accumulator, the tool that it means, and later its result. Out: the item's own events (contract.md
section 7), never the function events under which the model calls it. Called by `translator.round`; lists by
`translator.machine`.

    web_search_call       added ─ in_progress ─ searching ───────────────── completed ─ done
    mcp_call              added ─ in_progress ─ arguments.delta ─ .done ─── completed | failed ─ done
    mcp_list_tools        added ─ in_progress ───────────────────────────── completed | failed ─ done
    mcp_approval_request  added ─ done

The first two events come once the name is known, the next ones once the arguments are whole, the last ones with the
result.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, Final

from translator.items import Item
from translator.lifecycle import Lifecycle
from translator.mcp_servers import McpServer
from translator.output import Output
from translator.protocol.json import loads
from translator.toolmap import Tool
from translator.upstream_item import is_json

SOURCES: Final = "web_search_call.action.sources"
RESULTS: Final = "web_search_call.results"
"""Values of `include`: what a search shows beside its query."""

Result = Mapping[str, Any]
"""The data of a `tool_result` or `tools_listed` entry."""


class GatewayLifecycle(Lifecycle):
    """A call that the gateway runs. `announce`, `advance` as it grows, `settle` at its round's end, then `complete`."""

    public_type: str
    has_failed_event: bool

    def __init__(self, item: Item, index: int, public_id: str, out: Output, *, tool: Tool) -> None:
        super().__init__(item, index, public_id, out)
        self.tool = tool
        self._result: Result = {}  # set by `complete`
        self._place = {"item_id": public_id, "output_index": index}
        self._told = False  # the client has the arguments

    @property
    def arguments(self) -> str:
        """The model's arguments; none at all are an empty object."""
        return whole_arguments(self.item)

    def announce(self) -> None:
        """See Lifecycle."""
        super().announce()
        self._event("in_progress")

    def advance(self, *, coalesce: bool = False) -> None:  # noqa: ARG002 (arguments are shown as a whole)
        """See Lifecycle."""
        if not self._told and self.item.text.done and is_json(self.item.text.joined()):
            self.settle()

    def settle(self) -> None:
        """The arguments are whole: nothing more comes."""
        if not self._told:
            self._told = True
            self._tell()

    def complete(self, result: Result) -> None:
        """The call has come to its end."""
        self.settle()
        self._result = result
        status = "completed" if result["ok"] else "failed"
        self._event(status if self.has_failed_event else "completed")
        self._done(status)

    def close(self, status: str) -> None:  # noqa: ARG002 (a call without a result is never completed)
        """See Lifecycle: the response ends before the call has."""
        self._done("incomplete")

    def _event(self, name: str) -> None:
        self._out.write(f"response.{self.public_type}.{name}", self._place)

    @abstractmethod
    def _tell(self) -> None:
        """Write what the arguments show."""


class WebSearchLifecycle(GatewayLifecycle):
    """A search. There is no event for a failed one: its item says so."""

    public_type = "web_search_call"
    has_failed_event = False

    def __init__(
        self,
        item: Item,
        index: int,
        public_id: str,
        out: Output,
        *,
        tool: Tool,
        include: Collection[str],
    ) -> None:
        super().__init__(item, index, public_id, out, tool=tool)
        self._include = include

    def snapshot(self, status: str) -> dict[str, Any]:
        """The public search."""
        queries = queries_of(self.item.text.joined())
        action: dict[str, Any] = {"type": "search", "query": queries[0], "queries": queries}
        if SOURCES in self._include and self._result:
            sources = self._result.get("sources") or ()
            action["sources"] = [{"type": "url", "url": url} for url in sources]
        status = "failed" if status == "incomplete" else status
        item = {"id": self.id, "type": self.public_type, "status": status, "action": action}
        if RESULTS in self._include and self._result:
            item["results"] = self._result.get("results") or []
        return item

    def _tell(self) -> None:
        self._event("searching")


class McpCallLifecycle(GatewayLifecycle):
    """A call of a tool of an MCP server; `approval` is the question that the client said yes to."""

    public_type = "mcp_call"
    has_failed_event = True

    def __init__(
        self,
        item: Item,
        index: int,
        public_id: str,
        out: Output,
        *,
        tool: Tool,
        approval: str | None = None,
    ) -> None:
        super().__init__(item, index, public_id, out, tool=tool)
        self._approval = approval

    def snapshot(self, status: str) -> dict[str, Any]:
        """The public call."""
        return {
            "id": self.id,
            "type": self.public_type,
            "status": status,
            **shown_call(self.tool),
            "arguments": self.arguments if self._told else "",
            "approval_request_id": self._approval,
            "output": self._result.get("output"),
            "error": self._result.get("error"),
        }

    def _tell(self) -> None:
        base = f"response.{self.public_type}_arguments"
        self._out.write(f"{base}.delta", {**self._place, "delta": self.arguments})
        self._out.write(f"{base}.done", {**self._place, "arguments": self.arguments})


class ApprovalLifecycle(Lifecycle):
    """A call that the client wants to be asked about: its request ends the turn."""

    public_type = "mcp_approval_request"

    def __init__(self, item: Item, index: int, public_id: str, out: Output, *, tool: Tool) -> None:
        super().__init__(item, index, public_id, out)
        self._tool = tool

    def advance(self, *, coalesce: bool = False) -> None:  # noqa: ARG002 (it has no events of its own)
        """See Lifecycle. It is announced when its arguments are whole."""
        self.close("completed")

    def close(self, status: str) -> None:
        """See Lifecycle."""
        self._done(status)

    def snapshot(self, status: str) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """The public question."""
        return {
            "id": self.id,
            "type": self.public_type,
            **shown_call(self._tool),
            "arguments": whole_arguments(self.item),
        }


class ListLifecycle(Lifecycle):
    """The tools of an MCP server."""

    public_type = "mcp_list_tools"

    def __init__(self, server: McpServer, index: int, public_id: str, out: Output) -> None:
        item = Item(slot=server.index, place=server.index, type=self.public_type)
        super().__init__(item, index, public_id, out)
        self.server = server
        self.result: Result | None = None  # set by the machine, when the worker's word is there
        self._tools: list[dict[str, Any]] = []  # set by `complete`
        self._error: str | None = None  # the same

    def announce(self) -> None:
        """See Lifecycle."""
        super().announce()
        self._event("in_progress")

    def advance(self, *, coalesce: bool = False) -> None:  # noqa: ARG002 (it has no text)
        """See Lifecycle: the server has answered, and it is complete."""
        result = self.result or {}
        self._tools = [tool for tool in result.get("tools") or () if self.server.allows(tool)]
        self._error = result.get("error")
        self._event("failed" if self._error else "completed")
        self._done("completed")

    def close(self, status: str) -> None:  # noqa: ARG002 (it has none)
        """See Lifecycle: the response ends before the server has answered."""
        self._error = "The response ended before the server's tools were listed."
        self._event("failed")
        self._done("incomplete")

    def snapshot(self, status: str) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """The public list. One without an error has no such field: the AI SDK takes no null for it."""
        return {
            "id": self.id,
            "type": self.public_type,
            "server_label": self.server.label,
            "tools": self._tools,
            **({"error": self._error} if self._error else {}),
        }

    def _event(self, name: str) -> None:
        place = {"item_id": self.id, "output_index": self.index}
        self._out.write(f"response.{self.public_type}.{name}", place)


def whole_arguments(item: Item) -> str:
    """The arguments of a call that has ended; nothing but blanks is an empty object."""
    arguments = item.text.joined()
    return arguments if arguments.strip() else "{}"


def shown_call(tool: Tool) -> dict[str, Any]:
    """What the client sees of an MCP tool: its server and its own name there."""
    return {"server_label": tool.server.label if tool.server else "", "name": tool.name}


def queries_of(arguments: str) -> list[str]:
    """What the model looks for: one query or several; an empty one where that cannot be said."""
    try:
        asked = loads(arguments.encode("utf-8", "replace"))
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        return [""]
    return queries_in(asked) or [""]


def queries_in(asked: Mapping[str, Any]) -> list[str]:
    """The queries of a search's arguments, each once: `query`, and `queries` where a model says several."""
    several = asked.get("queries")
    given = [asked.get("query"), *(several if isinstance(several, list) else ())]
    return list(dict.fromkeys(query for query in given if isinstance(query, str) and query))

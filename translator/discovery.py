"""The tools of a response's MCP servers, as they are listed before round 1.

In: the servers to be asked, then what each has answered, in any order. Out: one `mcp_list_tools` item a server, all begun
at once and completed in the request's order; and the jobs that bring the answers. A server that cannot be listed is left
out of what the model sees, and the response goes on. Called by the machine.
"""

from collections.abc import Sequence
from typing import Any

from translator.gateway_calls import list_job
from translator.gateway_items import ListLifecycle, Result
from translator.ids import item_id
from translator.mcp_servers import McpServer
from translator.output import Output
from translator.public_items import Shown


class Discovery:
    """The lists of one response. `take` each answer; `close` if the response ends before the last one."""

    def __init__(
        self, response_id: str, servers: Sequence[McpServer], shown: Shown, out: Output
    ) -> None:
        """Announces the lists."""
        self._lists: list[ListLifecycle] = []
        for server in servers:
            public_id = item_id(response_id, "mcp_list_tools", 0, server.index)
            begun = ListLifecycle(server, len(shown.items), public_id, out)
            self._lists.append(begun)
            shown.items.append(begun)
            begun.announce()

    @property
    def waits(self) -> bool:
        """Whether some server has not answered."""
        return any(one.final is None for one in self._lists)

    def jobs(self) -> list[tuple[str, bytes]]:
        """One for each server."""
        return [list_job(one.server.index) for one in self._lists]

    def take(self, index: int, result: Result) -> None:
        """The server with that index has answered; its first answer counts."""
        for one in self._lists:
            if one.server.index == index and one.result is None:
                one.result = result
        for one in self._lists:
            if one.result is None:
                break
            if one.final is None:
                one.advance()

    def close(self) -> None:
        """The response ends first; who has answered by now is told as listed."""
        for one in self._lists:
            if one.final is None and one.result is not None:
                one.advance()
            elif one.final is None:
                one.close("incomplete")

    def items(self) -> list[dict[str, Any]]:
        """The lists as the client sees them."""
        return [one.final for one in self._lists if one.final is not None]

    def picture(self) -> list[dict[str, Any]]:
        """The lists as plain JSON."""
        return [
            {
                "server": one.server.index,
                "label": one.server.label,
                "answered": one.result is not None,
            }
            for one in self._lists
        ]

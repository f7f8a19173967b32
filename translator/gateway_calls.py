"""The calls of one round that the gateway runs, or refuses: their jobs, their results, and what the model hears.

In: calls of the accumulator with the tools that they mean; later the workers' results. Out: one job a call, and the calls
and outputs for the next round, in the model's order whatever the order of the results. Called by `translator.round`.

A refused call (past the limit, of a tool that is not allowed) is not shown and not run: its answer is for the model.
"""

from dataclasses import dataclass
from typing import Any, Final

from translator.gateway_items import GatewayLifecycle, Result
from translator.items import Item
from translator.mcp_servers import may_run_twice
from translator.protocol.json import dumps
from translator.replay import error_text, output_of
from translator.toolmap import Tool, ToolKind

NOT_ALLOWED: Final = "This tool may not be called in this response."

SEARCH_OPTIONS: Final = ("search_context_size", "filters", "user_location")
"""What a search's declaration tells the worker."""


@dataclass(slots=True)
class GatewayCall:
    """One call. `refusal` is why it is not run; `lifecycle` is set once it is announced, `result` once it has run.

    `cut`: the model was stopped inside it, so that it is not run either.
    """

    item: Item
    call_id: str
    tool: Tool
    refusal: str | None = None
    lifecycle: GatewayLifecycle | None = None
    result: Result | None = None
    cut: bool = False

    @property
    def runs(self) -> bool:
        """Whether it is for the workers."""
        return self.refusal is None and not self.cut

    def end(self) -> None:
        """Show its end: with its result, or without where none will come."""
        if self.lifecycle is None:
            raise AssertionError("a call that is not shown has no end")
        if self.result is None:
            self.lifecycle.close("incomplete")
        else:
            self.lifecycle.complete(self.result)

    def told(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The call and its output as the next round's model knows them."""
        if self.result is None:
            return refused(self.item, self.call_id, self.refusal or NOT_ALLOWED)
        output = output_of(self.result["content"], self.result.get("images"))
        return told(self.item, self.call_id, output)

    def picture(self) -> dict[str, Any]:
        """The call as plain JSON, its text aside."""
        return {
            "slot": self.item.slot,
            "call_id": self.call_id,
            "name": self.item.name,
            "refusal": self.refusal,
            "cut": self.cut,
            "answered": self.result is not None,
        }

    def job(self, key: str) -> bytes:
        """What a worker needs to know to run it (`workers.tools.job`)."""
        tool, said = self.tool, self.tool.definition
        what: dict[str, Any]
        if tool.server is None:
            options = {name: said[name] for name in SEARCH_OPTIONS if said.get(name) is not None}
            what = {"tool": ToolKind.WEB_SEARCH, "server": None, "name": "", "idempotent": True}
        else:
            options = {}
            what = {
                "tool": ToolKind.MCP,
                "server": tool.server.index,
                "name": tool.name,
                "idempotent": may_run_twice(said),
            }
        arguments = self.item.text.joined()
        return dumps(
            {"key": key, "kind": "call", **what, "arguments": arguments, "options": options}
        )


def refused(
    item: Item, call_id: str, message: str = NOT_ALLOWED
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call that nobody runs, whoever's it is, and an output that says so."""
    return told(item, call_id, error_text(message))


def told(
    item: Item, call_id: str, output: str | list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call and its output, under the call's original id."""
    call = {
        "type": "function_call",
        "call_id": call_id,
        "name": item.name or "",
        "arguments": item.text.joined(),
    }
    return call, {"type": "function_call_output", "call_id": call_id, "output": output}


def list_job(index: int) -> tuple[str, bytes]:
    """The job that lists the tools of the request's server with that index."""
    key = f"list.{index}"
    what = {"key": key, "kind": "list", "tool": ToolKind.MCP, "server": index, "idempotent": True}
    return key, dumps(what)

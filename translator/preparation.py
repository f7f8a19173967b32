"""What a response needs before its first round: the tools of its MCP servers, and the calls that the client approved.

In: a request's own declarations, its input and its history. Out: which servers must be asked for their tools, and which
approved calls are to be run. Both the api (does round 1 wait? what is secret?) and the machine (what is done first?) ask
here, so that they agree. A server is not asked again where the chain, or the input, holds its list already.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from translator.declarations import declared
from translator.mcp_servers import McpServer, last_lists, listings, servers
from translator.protocol.entries import RequestEntry
from translator.protocol.errors import RequestError
from translator.protocol.json import dumps
from translator.protocol.tools import without_secrets
from translator.toolmap import key_on_server, question_of

Item = dict[str, Any]
Items = Sequence[Item]


@dataclass(frozen=True, slots=True)
class Preparation:
    """What comes before round 1: `to_list` are servers, `approved` the `mcp_approval_request` items to be run."""

    to_list: list[McpServer]
    approved: list[Item]

    def __bool__(self) -> bool:
        return bool(self.to_list or self.approved)


def preparation(own: Sequence[McpServer], items: Items, history: Items) -> Preparation:
    """What a request that declares these servers needs first."""
    to_list = unlisted(own, last_lists([*history, *items])) if own else []
    return Preparation(to_list, approved_requests(items, history))


def preparation_of(entry: RequestEntry) -> Preparation:
    """What the request of a log needs first."""
    own = servers(declared(entry["request"], entry["input"]))
    return preparation(own, entry["input"], entry["history"])


def unlisted(own: Iterable[McpServer], lists: Mapping[str, Item]) -> list[McpServer]:
    """The servers whose tools are not known, or perhaps not all that the model may see."""
    return [server for server in own if not holds(lists.get(server.label), server)]


def holds(item: Item | None, server: McpServer) -> bool:
    """Whether a list is one of this server's, with every tool that may be seen now.

    In a chain it carries what was declared then (`translator.request_entry.with_declaration`). One that failed is none,
    and so is one that holds what is no tool: an upstream may have told it of a server of its own.
    """
    if item is None:
        return False
    listed = listings([item]).get(server.label)
    if listed is None or len(listed) < len(item["tools"]):
        return False
    then, now = item.get("declared"), without_secrets(server.tool)
    if isinstance(then, dict):
        if then.get("server_url") != now.get("server_url"):
            return False
        if then.get("allowed_tools") == now.get("allowed_tools"):
            return True  # a name that is not there by now is not one of the server's
        if then.get("allowed_tools") is not None:
            return False
    return server.names() <= {one["name"] for one in listed}


def approved_requests(items: Items, history: Items) -> list[Item]:
    """The calls that this request approves and that have not been run: each once, in the order of the answers."""
    answers = of_kind("mcp_approval_response", items)
    if not answers:
        return []
    by_id = {one["id"]: one for one in questions(history, items) if one.get("id")}
    run = set(filter(None, map(question_of, of_kind("mcp_call", history, items))))
    approved = [one["approval_request_id"] for one in answers if one["approve"]]
    return [by_id[one] for one in dict.fromkeys(approved) if one in by_id and one not in run]


def questions(*parts: Items) -> list[Item]:
    """The calls that the client was asked about. An upstream may ask, too: where it does not say what, it asks nothing."""
    return [
        one
        for one in of_kind("mcp_approval_request", *parts)
        if key_on_server(one) is not None and isinstance(one.get("arguments"), str)
    ]


def of_kind(kind: str, *parts: Items) -> list[Item]:
    """The items of one type."""
    return [item for item in chain(*parts) if item["type"] == kind]


def check_approvals(
    items: Items, history: Items, own: Iterable[McpServer], approved: Items
) -> None:
    """Refuse answers to questions that were not asked, and approved calls of servers that are not declared again."""
    known = {one.get("id") for one in questions(history, items)}
    verdicts: dict[str, bool] = {}
    for index, item in enumerate(items):
        if item["type"] != "mcp_approval_response":
            continue
        if item["approval_request_id"] not in known:
            raise RequestError(
                "The approval answers a request that is neither in the input nor in the chain of "
                "'previous_response_id'.",
                param=f"input[{index}].approval_request_id",
            )
        verdict = verdicts.setdefault(item["approval_request_id"], item["approve"])
        if verdict is not item["approve"]:
            raise RequestError(
                "One request is approved and refused.",
                param=f"input[{index}].approve",
            )
    labels = {server.label for server in own}
    for request in approved:
        if request["server_label"] not in labels:
            raise RequestError(
                f"The MCP server {request['server_label']!r} of an approved call is not declared in 'tools'.",
                param="tools",
            )


def secrets_of(own: Sequence[McpServer]) -> bytes | None:
    """What the tool workers must know of each server, in order; None where there is no server.

    It lives apart from the response's logs, until the response ends.
    """
    if not own:
        return None
    names = {"url": "server_url", "authorization": "authorization", "headers": "headers"}
    found = [{name: server.tool.get(key) for name, key in names.items()} for server in own]
    return dumps({"servers": found})

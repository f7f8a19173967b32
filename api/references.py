"""Input items that are only named: `item_reference`, put in place before anything is checked.

In: a request, and what `previous_response_id` brings in. Out: the same request with each reference to an item of a
stored response of this tenant replaced by the item itself (the AI SDK sends such references for earlier text and
reasoning, without `previous_response_id`). An item's id tells its response (`translator.ids`), so nothing is searched.
What is not found stays, and `translator.outbound.check` refuses it. Called by `api.create`.
"""

from dataclasses import replace
from typing import Any, Final

from api.history import CONTINUABLE
from api.owned import find
from api.snapshot import response_of, terminal_frame
from streams.faults import LogLost
from streams.logs import Logs
from translator.ids import response_of_item
from translator.protocol.errors import RequestError
from translator.protocol.request import Request

Item = dict[str, Any]

MAX_RESPONSES: Final = 64
"""Responses that one request may refer into: each costs three reads, and a conversation of more turns has a chain."""


async def resolved(logs: Logs, tenant: str, asked: Request, earlier: list[Item]) -> Request:
    """The request with its references replaced. Raises RequestError past MAX_RESPONSES."""
    known = {item.get("id") for item in earlier}
    wanted = {
        response_of_item(item["id"])
        for item in asked.input
        if item["type"] == "item_reference" and item["id"] not in known
    } - {None}
    if not wanted:
        return asked
    if len(wanted) > MAX_RESPONSES:
        raise RequestError(
            f"The input refers to items of more than {MAX_RESPONSES} responses.", param="input"
        )
    named = {item["id"] for item in asked.input if item["type"] == "item_reference"}
    found: dict[str, Item] = {}
    for response_id in sorted(rid for rid in wanted if rid):
        items = await items_of(logs, tenant, response_id)
        found |= {item["id"]: item for item in items if item["id"] in named}  # hold no more
    return replace(asked, input=[found.get(item.get("id", ""), item) for item in asked.input])


async def items_of(logs: Logs, tenant: str, response_id: str) -> list[Item]:
    """The input and output items of one response; none where this tenant cannot continue it."""
    state = await find(logs, tenant, response_id)
    if state is None or state.status not in CONTINUABLE:
        return []
    entry = await logs.read_request(response_id)
    try:
        last = await terminal_frame(logs, response_id)
    except LogLost:
        return []
    return [*(entry["input"] if entry else []), *response_of(last.data)["output"]]

"""Input items that are only named, or told in part: completed from stored responses before anything is checked.

In: a request, and what `previous_response_id` brings in. Out: the same request with each `item_reference` to an item of a
stored response of this tenant replaced by the item itself (the AI SDK sends such references for earlier text and
reasoning, without `previous_response_id`), and with each call that the gateway ran and that the client hands back (as the
Agents SDK does) given its result, which no public item tells. An item's id tells its response (`translator.ids`), so
nothing is searched. A reference that is not found stays, and `translator.outbound.check` refuses it. Called by
`api.create`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from api.history import CONTINUABLE
from api.owned import find
from api.results import RUN_TYPES, with_results
from api.snapshot import response_of, terminal_frame
from streams.faults import LogLost
from streams.logs import Logs
from streams.scripts.refused import Refused
from translator.ids import response_of_item
from translator.protocol.errors import RequestError
from translator.protocol.request import Request

Item = dict[str, Any]

COMPLETED: Final = frozenset({"item_reference", *RUN_TYPES})

MAX_RESPONSES: Final = 64
"""Responses that one request may refer into: each costs three reads, and a conversation of more turns has a chain."""


async def resolved(logs: Logs, tenant: str, asked: Request, earlier: list[Item]) -> Request:
    """The request with its references replaced. Raises RequestError past MAX_RESPONSES.

    Of older calls than those of so many responses the model hears what the public items tell.
    """
    named = {item["id"] for item in asked.input if item["type"] in COMPLETED and item.get("id")}
    named -= {item.get("id") for item in earlier}
    referenced = responses_of(asked.input, {"item_reference"}, named)
    if len(referenced) > MAX_RESPONSES:
        raise RequestError(
            f"The input refers to items of more than {MAX_RESPONSES} responses.", param="input"
        )
    ran = responses_of(asked.input[::-1], RUN_TYPES, named)[:MAX_RESPONSES]
    found: dict[str, Item] = {}
    for response_id in dict.fromkeys(referenced + ran):
        items = await items_of(logs, tenant, response_id)
        found |= {item["id"]: item for item in items if item["id"] in named}  # hold no more
    if not found:
        return asked
    return replace(asked, input=[completed(item, found) for item in asked.input])


def responses_of(
    items: Iterable[Item], types: Collection[str], named: Collection[str]
) -> list[str]:
    """The responses that items of some types belong to, each once, in their order."""
    found = (
        response_of_item(item["id"])
        for item in items
        if item["type"] in types and item.get("id") in named
    )
    return list(dict.fromkeys(response_id for response_id in found if response_id))


def completed(item: Item, found: Mapping[str, Item]) -> Item:
    """An item with what is stored of it."""
    stored = found.get(item.get("id") or "")
    if stored is None or item["type"] not in COMPLETED:
        return item
    if item["type"] == "item_reference":
        return stored
    return item | {"result": stored["result"]} if "result" in stored else item


async def items_of(logs: Logs, tenant: str, response_id: str) -> list[Item]:
    """The input and output items of one response; none where this tenant cannot continue it."""
    state = await find(logs, tenant, response_id)
    if state is None or state.status not in CONTINUABLE:
        return []
    try:
        entry = await logs.read_request(response_id)
        last = await terminal_frame(logs, response_id)
    except (LogLost, Refused):  # Refused: it went after its state was read
        return []
    output = response_of(last.data)["output"]
    ran = await with_results(logs, response_id, state, output)
    return [*(entry["input"] if entry else []), *ran]

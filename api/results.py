"""What the calls that the gateway ran have given: the public items of a finished response in, the same with results out.

A public item does not tell all that the model was told (a search shows its query only). The next turn's model must know
it, so each item gets its result from the input log, as `result` (see `translator.replay`). Where each one stands the state
tells, so that no log is read through. Called by `api.history` and `api.references`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from streams.logs import Logs
from translator.ids import item_id
from translator.protocol.entries import Kind
from translator.tool_results import result_of

Item = dict[str, Any]

RUN_TYPES: Final = frozenset({"mcp_call", "web_search_call"})


def has_run(output: Sequence[Item]) -> bool:
    """Whether the gateway has run a call of these items."""
    return any(item["type"] in RUN_TYPES for item in output)


async def with_results(
    logs: Logs, rid: str, results: Mapping[tuple[int, int], int], output: Sequence[Item]
) -> list[Item]:
    """The output items of a response. `results` are entry numbers by round and slot (`streams.logs.State`)."""
    ran = [item for item in output if item["type"] in RUN_TYPES]
    if not ran or not results:
        return list(output)
    places = {
        item_id(rid, kind, *place): entry for place, entry in results.items() for kind in RUN_TYPES
    }
    wanted = [places[item["id"]] for item in ran if item["id"] in places]
    pages = await asyncio.gather(*(logs.read_input(rid, n - 1, 1) for n in wanted))
    found: dict[int, Item] = {}
    for page in pages:
        if page and page[0].kind == Kind.TOOL_RESULT:
            result = result_of(page[0].data)[1]
            found[page[0].n] = {key: result[key] for key in ("content", "images")}
    return [
        item | {"result": found[places[item["id"]]]}
        if item["id"] in places and places[item["id"]] in found
        else item
        for item in output
    ]

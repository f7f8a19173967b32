"""What `previous_response_id` stands for.

In: the id and the tenant that names it. Out: the earlier input and output items, oldest first, or the 400 that says why
there are none: the same for an unknown id, another tenant's and an unstored response. Only a turn that came to an end
may be continued: half of one would replay calls without results (contract.md D14). Called by `api.create`.
"""

from typing import Any, Final

from api.owned import find
from api.results import with_results
from api.snapshot import response_of, terminal_frame
from streams.faults import LogLost
from streams.logs import Logs
from streams.scripts.refused import Refused
from translator.protocol.errors import RequestError
from translator.request_entry import history_of

PARAM: Final = "previous_response_id"

CONTINUABLE: Final = frozenset({"completed", "incomplete"})


async def history(logs: Logs, tenant: str, previous_id: str | None) -> list[dict[str, Any]]:
    """The items before this turn's own. Raises RequestError."""
    if previous_id is None:
        return []
    state = await find(logs, tenant, previous_id)
    if state is None:
        raise _not_found(previous_id)
    if state.status not in CONTINUABLE:
        raise RequestError(
            f"The previous response cannot be continued: its status is '{state.status}'.",
            param=PARAM,
        )
    try:
        entry = await logs.read_request(previous_id)
        last = await terminal_frame(logs, previous_id) if entry else None
    except LogLost:
        raise RequestError(
            "The events of the previous response are no longer available.", param=PARAM
        ) from None
    except Refused:  # it went after its state was read
        raise _not_found(previous_id) from None
    if entry is None or last is None:
        raise _not_found(previous_id)
    output = response_of(last.data)["output"]
    return history_of(entry, await with_results(logs, previous_id, state, output))


def _not_found(previous_id: str) -> RequestError:
    return RequestError(
        f"Previous response with id '{previous_id}' not found.",
        code="previous_response_not_found",
        param=PARAM,
    )

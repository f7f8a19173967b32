"""Whose response it is: the one look-up through which every route finds one.

In: a tenant and an id from a path. Out: the response's state, or the 404 that is the same for an id that never was,
one of another tenant, one that has expired and one that was not stored (contract.md section 2). An id that is not of our
form never becomes part of a key.
"""

from streams.logs import Logs, State
from translator.ids import is_response_id
from translator.protocol.errors import NotFound


async def find(logs: Logs, tenant: str, response_id: str) -> State | None:
    """The state of a tenant's stored response, None if the tenant has no such response."""
    if not is_response_id(response_id):
        return None
    state = await logs.state(response_id)
    if state is None or state.tenant != tenant or not state.store:
        return None
    return state


async def owned(logs: Logs, tenant: str, response_id: str) -> State:
    """As `find`, but raises NotFound."""
    state = await find(logs, tenant, response_id)
    if state is None:
        raise NotFound.response(response_id)
    return state

"""Ids that the gateway gives: derived, so that whoever folds a log again writes the same bytes.

In: the response id and a place in it (round and slot, or a position in the input). Out: a public id. Only the response
id itself is random; the api mints it, once, at create (contract.md section 9, D18).

An item's id is its prefix, the 32 digits of its response's id and a hash of its place there. So an item that a later
request refers to by its id alone (`item_reference`) is found without an index that would have to be kept and expired.
"""

import hashlib
import re
from typing import Final

RESPONSE_ID: Final = re.compile(r"resp_[0-9a-f]{32}", re.ASCII)
"""What an id of ours looks like. Nothing else may become part of a key or of an upstream's URL."""

ITEM_PREFIX: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "web_search_call": "ws",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
}
ITEM_ID: Final = re.compile(r"[a-z]+_([0-9a-f]{32})[0-9a-f]{16}", re.ASCII)
PLACE_BYTES: Final = 8
"""A hash of the place within one response: 64 bits for a handful of items. With the longest prefix an id stays below
the 64 characters that OpenAI's API takes."""
CALL_BYTES: Final = 16
"""With its prefix a call id has 37 characters: some Chat Completions servers take 40 at most."""


def is_response_id(text: str) -> bool:
    """Whether a text could be the id of a response of ours."""
    return RESPONSE_ID.fullmatch(text) is not None


def item_id(response_id: str, item_type: str, round_number: int, slot: int) -> str:
    """The public id of an output item: `slot` is the accumulator's, in that round; round 0 is before the first."""
    prefix = ITEM_PREFIX.get(item_type, "item")
    return _in_response(response_id, prefix, f"output/{round_number}/{slot}")


def call_id(response_id: str, round_number: int, slot: int) -> str:
    """A call id for a call whose upstream gave none, or one that is in use already."""
    return f"call_{_digest(f'{response_id}/call/{round_number}/{slot}', CALL_BYTES)}"


def replayed_call_id(item: str) -> str:
    """The call id under which a gateway's call of an earlier turn goes up again: the same each time."""
    return f"call_{_digest(f'{item}/replayed', CALL_BYTES)}"


def input_item_id(response_id: str, index: int, prefix: str = "msg") -> str:
    """The id of an input item that came without one."""
    return _in_response(response_id, prefix, f"input/{index}")


def response_of_item(item: str) -> str | None:
    """The response that an item id of ours belongs to; None for any other id."""
    found = ITEM_ID.fullmatch(item)
    return f"resp_{found[1]}" if found else None


def _in_response(response_id: str, prefix: str, place: str) -> str:
    digits = response_id.removeprefix("resp_")
    return f"{prefix}_{digits}{_digest(f'{response_id}/{place}', PLACE_BYTES)}"


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()

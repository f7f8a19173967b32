"""Ids that the gateway gives: derived, so that whoever folds a log again writes the same bytes.

In: the response id and a place in it (round and slot, or a position in the input). Out: a public id. Only the response
id itself is random; the api mints it, once, at create (contract.md section 9, D18).
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
DIGEST_BYTES: Final = 20
"""160 bits: ids of different responses never meet."""


def is_response_id(text: str) -> bool:
    """Whether a text could be the id of a response of ours."""
    return RESPONSE_ID.fullmatch(text) is not None


def item_id(response_id: str, item_type: str, round_number: int, slot: int) -> str:
    """The public id of an output item: `slot` is the accumulator's, in that round; round 0 is before the first."""
    prefix = ITEM_PREFIX.get(item_type, "item")
    return f"{prefix}_{_digest(response_id, 'output', round_number, slot)}"


def call_id(response_id: str, round_number: int, slot: int) -> str:
    """A call id for a call whose upstream gave none, or one that is in use already."""
    return f"call_{_digest(response_id, 'call', round_number, slot)}"


def input_item_id(response_id: str, index: int, prefix: str = "msg") -> str:
    """The id of an input item that came without one."""
    return f"{prefix}_{_digest(response_id, 'input', 0, index)}"


def _digest(response_id: str, what: str, first: int, second: int) -> str:
    text = f"{response_id}/{what}/{first}/{second}"
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()

"""What is wrong with a request: a pydantic error in, a RequestError in our own words out.

Called by `translator.protocol.request`. pydantic's own messages quote the rejected value, which may
be a key or a prompt; here only the field's place and what was expected of it are said. Tags of
unions stand in angle brackets (`<message>`), which tells them from field names.
"""

from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from translator.protocol.errors import RequestError

EXPECTED: Final = {
    "string_type": "expected a string",
    "bool_type": "expected a boolean",
    "int_type": "expected an integer",
    "float_type": "expected a number",
    "list_type": "expected an array",
    "dict_type": "expected an object",
    "model_type": "expected an object",
    "literal_error": "expected {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "must not have more than {max_length} characters",
    "too_short": "must not be empty",
    "too_long": "must not have more than {max_length} entries",
}
"""The kinds of error that our models can raise, and what is said of them; the names in braces come
from the models, not from the request."""


def refusal(error: ValidationError) -> RequestError:
    """The first fault that pydantic found, as the client may see it."""
    fault = error.errors(include_url=False)[0]
    at = "".join(f"[{step}]" if isinstance(step, int) else named(step) for step in fault["loc"])
    kind = fault["type"]
    if kind in {"union_tag_invalid", "union_tag_not_found"} and isinstance(fault["input"], dict):
        at += ".type"
        if kind == "union_tag_not_found" and "type" not in fault["input"]:
            kind = "missing"
    at = at.removeprefix(".")
    if kind == "missing":
        return RequestError(f"Missing required parameter: {at!r}.", param=at)
    return RequestError(f"Invalid value for {at!r}: {expectation(fault)}.", param=at)


def named(step: str) -> str:
    """A step of a path that is a field's name; tags of unions are no step for the client."""
    return "" if step.startswith("<") else f".{step}"


def expectation(fault: ErrorDetails) -> str:
    """What was expected of the field."""
    match fault["type"]:
        case "union_tag_invalid":
            return "not a type that can be used here"
        case "union_tag_not_found":
            return "expected a string" if isinstance(fault["input"], dict) else "expected an object"
        case known if known in EXPECTED:
            return EXPECTED[known].format(**fault.get("ctx", {}))
        case _:  # an error of our own, whose message is a sentence of ours
            return fault["msg"]

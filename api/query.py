"""Query parameters, read strictly: what cannot be understood is a 400 that names the parameter.

In: the query of a GET. Out: booleans, bounded integers, lists. Called by the handlers of `api.retrieve` and
`api.input_items`. Values are never repeated in a message.
"""

from collections.abc import Collection, Iterable
from typing import Final

from starlette.datastructures import QueryParams

from translator.protocol.errors import RequestError

FLAGS: Final = {"true": True, "false": False}

CURSOR_DIGITS: Final = 15
"""More than any sequence number has; a longer text of digits is past the end of every response."""


def flag(query: QueryParams, name: str) -> bool:
    """A boolean, false when absent."""
    text = query.get(name)
    if text is None:
        return False
    value = FLAGS.get(text.lower())
    if value is None:
        raise RequestError(f"'{name}' must be true or false.", param=name)
    return value


def integer(query: QueryParams, name: str, default: int, bounds: range) -> int:
    """An integer within bounds."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= CURSOR_DIGITS):
        raise RequestError(f"'{name}' must be an integer.", param=name)
    value = int(text)
    if value not in bounds:
        raise RequestError(
            f"'{name}' must be between {bounds.start} and {bounds.stop - 1}.", param=name
        )
    return value


def choice(query: QueryParams, name: str, default: str, choices: Collection[str]) -> str:
    """One of a few words."""
    text = query.get(name, default)
    if text not in choices:
        raise RequestError(f"'{name}' must be one of: {', '.join(choices)}.", param=name)
    return text


def many(query: QueryParams, name: str) -> list[str]:
    """A list in every form that clients use: `name[]=a&name[]=b` (the SDKs), `name=a&name=b`, `name=a,b`."""
    given = [*query.getlist(f"{name}[]"), *query.getlist(name)]
    return [word for text in given for word in text.split(",") if word]


def check_include(query: QueryParams, known: Iterable[str]) -> None:
    """Refuse an `include` that nobody knows; the known ones change nothing in what is stored."""
    if not set(many(query, "include")) <= set(known):
        raise RequestError("'include' names something that is not known.", param="include")


def cursor(text: str, name: str) -> int:
    """A sequence number that a client has seen: digits only. Whether it exists is for the log to say."""
    if not (text.isascii() and text.isdecimal()):
        raise RequestError(f"'{name}' must be a sequence number: an integer from 0.", param=name)
    if len(text) > CURSOR_DIGITS:
        raise beyond(name)
    return int(text)


def beyond(name: str) -> RequestError:
    """The refusal of a cursor past the last event."""
    return RequestError(f"'{name}' is beyond the last event of this response.", param=name)

"""What all models of the request's wire share: strictness, and values that may be one of several.

The models only check; what they check is kept as the client sent it, so that fields which they do
not name are neither lost nor refused. Tags of unions stand in angle brackets, which tells them from
field names in an error's place (`translator.protocol.refusal`).
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag
from pydantic_core import PydanticCustomError

UNKNOWN: Final = "<unknown>"
"""A tag that no union has: the value's `type` is refused."""


class Wire(BaseModel):
    """An object of the request; unknown fields are none of its business."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


FAIL_FAST: Final[Any] = Field(fail_fast=True)
"""For arrays: only the first fault is named, and a million wrong entries shall not cost more."""

Name = Annotated[str, StringConstraints(min_length=1)]


def type_of(value: object) -> str | None:
    """The `type` of an object; None where there is no object or no type."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def text_or_list(value: object) -> str | None:
    """The tag of a value that is a string or an array."""
    if isinstance(value, str):
        return "<text>"
    return "<list>" if isinstance(value, list) else None


Text = Annotated[str, Tag("<text>")]
TEXT_OR_LIST: Final = Discriminator(
    text_or_list,
    custom_error_type="text_or_list",
    custom_error_message="expected a string or an array",
)


def only_texts(value: dict[str, Any]) -> dict[str, str]:
    """An object whose values are strings; its keys are the client's, so that no message names one."""
    if not all(isinstance(text, str) for text in value.values()):
        raise PydanticCustomError("only_texts", "all its values must be strings")
    return value

"""A create request as it crosses the wire: bytes in, a checked `Request` out.

Called by the api for every create (1 in the data's way). Everything that one can say of a request
without knowing its history or its upstream is said here; the rest is `translator.outbound.check`.
"""

from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationError
from pydantic_core import PydanticCustomError

from translator.protocol.errors import RequestError
from translator.protocol.input_items import NOTED, NOTES, Input, item_type
from translator.protocol.json import MAX_DEPTH, Json, loads
from translator.protocol.refusal import refusal
from translator.protocol.tools import AnyTool, ToolChoice
from translator.protocol.wire import FAIL_FAST, UNKNOWN, Name, Wire, only_texts, type_of

MIN_OUTPUT_TOKENS: Final = 16
"""OpenAI's own lower bound; below it nothing useful comes back."""

MAX_INPUT_ITEMS: Final = 10_000
"""Items of an input. Checking one costs the gateway tens of microseconds whatever it holds, so a body of a million tiny
ones would cost half a minute; the longest conversations of agents have some thousand."""

MAX_INPUT_PARTS: Final = 40_000
"""Parts of all items together (content, summaries, tools), for the same reason; most items have one."""

MAX_ENTRIES: Final = 10_000
"""Entries of any other list of a request."""

METADATA_PAIRS: Final = 16
METADATA_KEY_CHARS: Final = 64
METADATA_VALUE_CHARS: Final = 512
"""OpenAI's bounds: metadata is shown on every copy of the response."""

Include = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Summary = Literal["auto", "concise", "detailed"]
Tier = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]


def few_short_texts(value: dict[str, Any]) -> dict[str, Any]:
    """Metadata within its bounds; its keys are the client's, so that no message names one."""
    if len(value) > METADATA_PAIRS:
        raise PydanticCustomError("metadata", "must not have more than 16 pairs")
    for key, text in only_texts(value).items():
        if len(key) > METADATA_KEY_CHARS or len(text) > METADATA_VALUE_CHARS:
            raise PydanticCustomError(
                "metadata", "keys have at most 64 characters, values at most 512"
            )
    return value


class ReasoningConfig(Wire):
    """How much the model thinks, and what it shows of it."""

    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None


class PlainFormat(Wire):
    """Text, or any JSON object."""


class SchemaFormat(Wire):
    """JSON that fits a schema."""

    name: Name
    schema_: dict[str, Any] = Field(alias="schema")
    description: str | None = None
    strict: bool | None = None


def format_tag(value: object) -> str | None:
    """The tag of a text format."""
    kind = type_of(value)
    if kind in {"text", "json_object"}:
        return "<plain>"
    return "<schema>" if kind == "json_schema" else kind and UNKNOWN


class TextConfig(Wire):
    """The form of the model's text."""

    format: (
        Annotated[
            Annotated[PlainFormat, Tag("<plain>")] | Annotated[SchemaFormat, Tag("<schema>")],
            Discriminator(format_tag),
        ]
        | None
    ) = None
    verbosity: Literal["low", "medium", "high"] | None = None


class StreamOptions(Wire):
    """How the stream is written."""

    include_obfuscation: bool | None = None


class CreateParams(Wire):
    """The fields of a create request that the gateway reads or vouches for.

    null is "not said" for all of them but the model. Fields that are missing here are the upstream's,
    and so are the ranges of sampling parameters, which differ between model servers.
    """

    model: Name
    input: Input | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    store: bool | None = None
    background: bool | None = None
    tools: Annotated[list[AnyTool], FAIL_FAST] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=MIN_OUTPUT_TOKENS)] | None = None
    include: Annotated[list[Include], FAIL_FAST] | None = None
    metadata: Annotated[dict[str, Any], AfterValidator(few_short_texts)] | None = None
    reasoning: ReasoningConfig | None = None
    text: TextConfig | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_logprobs: int | None = None
    truncation: Literal["auto", "disabled"] | None = None
    service_tier: Tier | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    user: str | None = None
    prompt: dict[str, Any] | None = None


NULLABLE: Final = frozenset(CreateParams.model_fields)
"""Fields in which null says nothing; not every model server takes it there."""


@dataclass(frozen=True, slots=True)
class Request:
    """A create request whose shape is right.

    `body` is what the client sent, unknown fields included; `input` is its input as a list of items
    that all have a type (a string becomes one user message), without what only the gateway can know of them. Neither is
    ever changed.
    """

    body: dict[str, Any]
    input: list[dict[str, Any]]

    @property
    def model(self) -> str:
        """The model's name, which reaches the upstream unchanged."""
        model: str = self.body["model"]
        return model

    @property
    def stream(self) -> bool:
        """Whether the client wants events."""
        return bool(self.body.get("stream"))

    @property
    def store(self) -> bool:
        """Whether the response may be fetched later; so it is where the client is silent."""
        return self.body.get("store") is not False

    @property
    def background(self) -> bool:
        """Whether the create returns before the response has ended."""
        return bool(self.body.get("background"))

    @property
    def previous_response_id(self) -> str | None:
        """The response that this one continues."""
        previous: str | None = self.body.get("previous_response_id")
        return previous


def parse(raw: bytes) -> Request:
    """Read a request body; raises RequestError naming the field, never its value."""
    try:
        body = loads(raw.removeprefix(BOM_UTF8), max_depth=MAX_DEPTH)
    except ValueError:
        raise RequestError(
            f"The request body must be JSON in UTF-8, nested no deeper than {MAX_DEPTH} levels."
        ) from None
    if not isinstance(body, dict):
        raise RequestError("The request body must be a JSON object.")
    refuse_many(body)
    try:
        CreateParams.model_validate(body)
    except ValidationError as error:
        raise refusal(error) from None
    refuse_combinations(body)
    return Request(body=body, input=items(body.get("input")))


def refuse_many(body: dict[str, Any]) -> None:
    """Refuse lists that are too long to be checked, before any of it is checked."""
    for name, value in body.items():
        if name != "input" and isinstance(value, list) and len(value) > MAX_ENTRIES:
            at = name if name in CreateParams.model_fields else None
            raise RequestError(
                f"A list of the request has more than {MAX_ENTRIES} entries.", param=at
            )
    given = body.get("input")
    if not isinstance(given, list):
        return
    if len(given) > MAX_INPUT_ITEMS:
        raise RequestError(
            f"Invalid value for 'input': must not have more than {MAX_INPUT_ITEMS} items.",
            param="input",
        )
    if sum(parts(item) for item in given) > MAX_INPUT_PARTS:
        raise RequestError(
            f"Invalid value for 'input': its items must not have more than {MAX_INPUT_PARTS} parts"
            " together.",
            param="input",
        )


def parts(item: Json) -> int:
    """How many entries the lists of an item have."""
    if not isinstance(item, dict):
        return 0
    return sum(len(value) for value in item.values() if isinstance(value, list))


def refuse_combinations(body: dict[str, Any]) -> None:
    """Refuse fields that are right alone but not together."""
    if body.get("conversation") is not None:
        raise RequestError(
            "This gateway does not keep conversations; chain responses by 'previous_response_id'.",
            param="conversation",
        )
    if body.get("background") and body.get("store") is False:
        raise RequestError(
            "A background response must be stored: nobody could fetch it otherwise.", param="store"
        )
    if body.get("input") is None and not (body.get("previous_response_id") or body.get("prompt")):
        raise RequestError("Missing required parameter: 'input'.", param="input")


def items(given: Json) -> list[dict[str, Any]]:
    """The input as items that all have a type, without what only the gateway can know of them."""
    if given is None:
        return []
    if isinstance(given, str):
        part = {"type": "input_text", "text": given}
        return [{"type": "message", "role": "user", "content": [part]}]
    return [
        without_notes(item) if item.get("type") else item | {"type": item_type(item)}
        for item in given
    ]


def without_notes(item: dict[str, Any]) -> dict[str, Any]:
    """An item as a client may say it: what the gateway notes in items would be believed further on."""
    if item["type"] not in NOTED or NOTES.isdisjoint(item):
        return item
    return {key: value for key, value in item.items() if key not in NOTES}

"""Input items as a request may hold them: messages, calls, their outputs, reasoning and the rest.

Called by `translator.protocol.request` for their shape. Items that need no more than an id here are
either forwarded or left out of the upstream's copy: `translator.history`.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Tag

from translator.protocol.tools import AnyTool
from translator.protocol.wire import FAIL_FAST, TEXT_OR_LIST, UNKNOWN, Name, Text, Wire, type_of

Status = Literal["in_progress", "completed", "incomplete"]


class TextPart(Wire):
    """A part that is text, whoever wrote it."""

    text: str


class RefusalPart(Wire):
    """What the model said when it would not."""

    refusal: str


class ImagePart(Wire):
    """An image by address, data URL or file id."""

    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto", "original"] | None = None


class FilePart(Wire):
    """A file by address, content or id."""

    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None


class OtherPart(Wire):
    """A part of a kind that only the upstream knows (audio, video)."""


PART_TAGS: Final = {
    "input_text": "<text>",
    "output_text": "<text>",
    "text": "<text>",
    "summary_text": "<text>",
    "reasoning_text": "<text>",
    "refusal": "<refusal>",
    "input_image": "<image>",
    "input_file": "<file>",
}
OUTPUT_PARTS: Final = ("input_text", "input_image", "input_file")
"""What the output of a call may consist of; anything else is refused, never turned into a text."""


def part_tag(value: object) -> str | None:
    """The tag of a content part."""
    kind = type_of(value)
    return kind and PART_TAGS.get(kind, "<other>")


def output_part_tag(value: object) -> str | None:
    """The tag of a part of a call's output."""
    kind = type_of(value)
    return PART_TAGS[kind] if kind in OUTPUT_PARTS else kind and UNKNOWN


TextMember = Annotated[TextPart, Tag("<text>")]
ImageMember = Annotated[ImagePart, Tag("<image>")]
FileMember = Annotated[FilePart, Tag("<file>")]
Part = Annotated[
    TextMember
    | ImageMember
    | FileMember
    | Annotated[RefusalPart, Tag("<refusal>")]
    | Annotated[OtherPart, Tag("<other>")],
    Discriminator(part_tag),
]
OutputPart = Annotated[TextMember | ImageMember | FileMember, Discriminator(output_part_tag)]
Content = Annotated[Text | Annotated[Annotated[list[Part], FAIL_FAST], Tag("<list>")], TEXT_OR_LIST]
Output = Annotated[
    Text | Annotated[Annotated[list[OutputPart], FAIL_FAST], Tag("<list>")], TEXT_OR_LIST
]


class Item(Wire):
    """An input item of which only the id matters here."""

    id: str | None = None


class Message(Item):
    """What somebody said."""

    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    status: Status | None = None
    phase: Literal["commentary", "final_answer"] | None = None


class Call(Item):
    """A call of a client's tool."""

    call_id: Name
    name: Name
    namespace: str | None = None
    status: Status | None = None


class FunctionCall(Call):
    """A call of a function."""

    arguments: str


class CustomToolCall(Call):
    """A call of a custom tool."""

    input: str


class CallOutput(Item):
    """What a call of either kind gave."""

    call_id: Name
    output: Output
    status: Status | None = None


class Reasoning(Item):
    """What the model thought; `encrypted_content` is opaque to us."""

    summary: Annotated[list[Part], FAIL_FAST] | None = None
    content: Annotated[list[Part], FAIL_FAST] | None = None
    encrypted_content: str | None = None


class AdditionalTools(Item):
    """Declarations that join the request's own."""

    role: Literal["developer"] | None = None
    tools: Annotated[list[AnyTool], FAIL_FAST]


class ListedTool(Wire):
    """A tool as an MCP server lists it."""

    name: Name
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class McpListTools(Item):
    """What an MCP server has listed."""

    server_label: Name
    tools: Annotated[list[ListedTool], FAIL_FAST]


class McpCall(Item):
    """A call of an MCP server's tool that the gateway ran, or wants to be asked about."""

    server_label: Name
    name: Name
    arguments: str
    approval_request_id: str | None = None
    output: str | None = None


class McpApprovalResponse(Item):
    """Whether the client lets a call be run."""

    approval_request_id: Name
    approve: bool
    reason: str | None = None


class ItemReference(Item):
    """An item that is meant by its id alone."""

    id: Name


OTHERS: Final = frozenset(
    {
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "compaction",
        "compaction_trigger",
        "computer_call",
        "computer_call_output",
        "configuration_update",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "program",
        "program_output",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
"""Item types of OpenAI's API of which only the id is looked at."""

ITEM_TAGS: Final = {
    "message": "<message>",
    "function_call": "<function_call>",
    "custom_tool_call": "<custom_tool_call>",
    "function_call_output": "<output>",
    "custom_tool_call_output": "<output>",
    "reasoning": "<reasoning>",
    "additional_tools": "<additional_tools>",
    "item_reference": "<item_reference>",
    "mcp_list_tools": "<mcp_list_tools>",
    "mcp_call": "<mcp_call>",
    "mcp_approval_request": "<mcp_call>",
    "mcp_approval_response": "<mcp_approval_response>",
    **dict.fromkeys(OTHERS, "<item>"),
}


NOTES: Final = frozenset({"declared", "result"})
"""What the gateway itself puts into items of the types below, once it has read the log that they are from."""

NOTED: Final = frozenset(
    {
        "custom_tool_call",
        "function_call",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "web_search_call",
    }
)
"""Calls, and what is about those that the gateway runs. Elsewhere a `result` is the item's own: an image's."""


def item_type(item: dict[str, Any]) -> Any:
    """The type of an item; one that says none is a message, or a reference if it is only an id."""
    kind = item.get("type")
    if kind is None:
        return (
            "message"
            if "role" in item or "content" in item or "id" not in item
            else "item_reference"
        )
    return kind


def item_tag(value: object) -> str | None:
    """The tag of an input item."""
    kind = item_type(value) if isinstance(value, dict) else None
    return ITEM_TAGS.get(kind, UNKNOWN) if isinstance(kind, str) else None


AnyItem = Annotated[
    Annotated[Message, Tag("<message>")]
    | Annotated[FunctionCall, Tag("<function_call>")]
    | Annotated[CustomToolCall, Tag("<custom_tool_call>")]
    | Annotated[CallOutput, Tag("<output>")]
    | Annotated[Reasoning, Tag("<reasoning>")]
    | Annotated[AdditionalTools, Tag("<additional_tools>")]
    | Annotated[ItemReference, Tag("<item_reference>")]
    | Annotated[McpListTools, Tag("<mcp_list_tools>")]
    | Annotated[McpCall, Tag("<mcp_call>")]
    | Annotated[McpApprovalResponse, Tag("<mcp_approval_response>")]
    | Annotated[Item, Tag("<item>")],
    Discriminator(item_tag),
]
Input = Annotated[
    Text | Annotated[Annotated[list[AnyItem], FAIL_FAST], Tag("<list>")], TEXT_OR_LIST
]

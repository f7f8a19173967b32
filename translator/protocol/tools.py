"""Tool declarations and tool choices as a request may hold them.

Called by `translator.protocol.request` for their shape. What they mean together (names that meet,
selectors without a declaration, kinds that nobody can run) is said by `translator.declarations` and
`translator.tool_choice`. Here is also what may be shown of a tool and what never leaves the process.
"""

import re
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from translator.protocol.wire import FAIL_FAST, UNKNOWN, Name, Wire, only_texts, type_of

HOSTED: Final = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "local_shell",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
    }
)
"""Kinds of OpenAI's API that need a machine or a store behind them, and that we do not have."""

SECRET_KEYS: Final = ("authorization", "headers")
"""What a client gives us for an MCP server: never stored with the response, shown or sent upstream."""

SEARCH_TYPE: Final = re.compile(r"web_search(_preview)?(_\d{4}_\d{2}_\d{2})?", re.ASCII)
"""The names of web search: `web_search`, `web_search_preview_2025_03_11` and their like."""

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,8192}")
"""What a client may have sent to an MCP server as a header."""

FUNCTION_KEYS: Final = ("description", "parameters", "strict")
"""What a function tool always shows beside type and name, null where the client was silent."""


def is_gateway_type(kind: str) -> bool:
    """Whether calls of this kind of tool are run by the gateway; web search has dated names, too."""
    return kind == "mcp" or SEARCH_TYPE.fullmatch(kind) is not None


class TextFormat(Wire):
    """Any text: what a custom tool takes when it says nothing."""


class GrammarFormat(Wire):
    """Text in a language that the client gives."""

    syntax: Literal["lark", "regex"]
    definition: str


def format_tag(value: object) -> str | None:
    """The tag of a custom tool's format."""
    kind = type_of(value)
    return f"<{kind}>" if kind in {"text", "grammar"} else kind and UNKNOWN


Format = Annotated[
    Annotated[TextFormat, Tag("<text>")] | Annotated[GrammarFormat, Tag("<grammar>")],
    Discriminator(format_tag),
]


class Function(Wire):
    """A function of the client's."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Custom(Wire):
    """A tool of the client's whose input is one text."""

    name: Name
    description: str | None = None
    format: Format | None = None


class ToolFilter(Wire):
    """Some of a server's tools: by name, by whether they say that they only read, or both."""

    tool_names: Annotated[list[Name], FAIL_FAST] | None = None
    read_only: bool | None = None


class Approvals(Wire):
    """Which calls the client wants to be asked about first."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None


def filter_tag(value: object) -> str | None:
    """The tag of a filter: names, or an object."""
    return "<names>" if isinstance(value, list) else "<filter>"


def approvals_tag(value: object) -> str | None:
    """The tag of `require_approval`."""
    return "<mode>" if isinstance(value, str) else "<approvals>"


def http_headers(value: dict[str, Any]) -> dict[str, str]:
    """Headers as HTTP takes them; no message repeats one, they may be secret."""
    for name, text in only_texts(value).items():
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(text):
            raise PydanticCustomError("headers", "expected names and values of HTTP headers")
    return value


def web_address(url: str) -> str:
    """An http or https address; which hosts may be reached is the tool workers' rule."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise PydanticCustomError("web_address", "expected the https URL of a server")
    return url


class Mcp(Wire):
    """An MCP server whose tools the gateway runs."""

    server_label: Name
    server_url: Annotated[str, AfterValidator(web_address)] | None = None
    connector_id: str | None = None
    authorization: str | None = None
    headers: Annotated[dict[str, Any], AfterValidator(http_headers)] | None = None
    allowed_tools: (
        Annotated[
            Annotated[Annotated[list[Name], FAIL_FAST], Tag("<names>")]
            | Annotated[ToolFilter, Tag("<filter>")],
            Discriminator(filter_tag),
        ]
        | None
    ) = None
    require_approval: (
        Annotated[
            Annotated[Literal["always", "never"], Tag("<mode>")]
            | Annotated[Approvals, Tag("<approvals>")],
            Discriminator(approvals_tag),
        ]
        | None
    ) = None


class SearchFilters(Wire):
    """The domains that a search is for, or is not."""

    allowed_domains: Annotated[list[str], FAIL_FAST] | None = None
    blocked_domains: Annotated[list[str], FAIL_FAST] | None = None


class UserLocation(Wire):
    """About where the user is."""

    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


class WebSearch(Wire):
    """A search of the web that the gateway runs."""

    search_context_size: Literal["low", "medium", "high"] | None = None
    filters: SearchFilters | None = None
    user_location: UserLocation | None = None


class Hosted(Wire):
    """Any other tool of the API: only its type counts here."""


def member_tag(value: object) -> str | None:
    """The tag of a tool in a namespace."""
    kind = type_of(value)
    return f"<{kind}>" if kind in {"function", "custom"} else kind and UNKNOWN


def tool_tag(value: object) -> str | None:
    """The tag of a tool."""
    kind = type_of(value)
    if kind is None or kind in {"function", "custom", "namespace", "mcp"}:
        return kind and f"<{kind}>"
    if is_gateway_type(kind):
        return "<web_search>"
    return "<hosted>" if kind in HOSTED else UNKNOWN


FunctionMember = Annotated[Function, Tag("<function>")]
CustomMember = Annotated[Custom, Tag("<custom>")]


class Namespace(Wire):
    """Tools under one name."""

    name: Name
    description: str | None = None
    tools: Annotated[
        list[Annotated[FunctionMember | CustomMember, Discriminator(member_tag)]], FAIL_FAST
    ]


AnyTool = Annotated[
    FunctionMember
    | CustomMember
    | Annotated[Namespace, Tag("<namespace>")]
    | Annotated[Mcp, Tag("<mcp>")]
    | Annotated[WebSearch, Tag("<web_search>")]
    | Annotated[Hosted, Tag("<hosted>")],
    Discriminator(tool_tag),
]


class Named(Wire):
    """A selector of one function or custom tool."""

    name: Name
    namespace: str | None = None


class Inner(Wire):
    """What Chat Completions puts into a selector."""

    name: Name


class ChatNamed(Wire):
    """The same in the shape of Chat Completions, which clients send here, too."""

    function: Inner


class Server(Wire):
    """A selector of an MCP server or of one of its tools."""

    server_label: Name
    name: str | None = None


def is_chat_selector(value: object) -> bool:
    """Whether a selector has the shape of Chat Completions, with its type or without (contract.md section 6)."""
    return (
        isinstance(value, dict)
        and "function" in value
        and value.get("type", "function") == "function"
    )


def selector_tag(value: object) -> str | None:
    """The tag of a selector."""
    if is_chat_selector(value):
        return "<chat>"
    kind = type_of(value)
    if kind is None or kind == "mcp":
        return kind and "<mcp>"
    if kind in {"function", "custom"}:
        return "<named>"
    return "<hosted>" if kind in HOSTED or is_gateway_type(kind) else UNKNOWN


Selectors = (
    Annotated[Named, Tag("<named>")]
    | Annotated[ChatNamed, Tag("<chat>")]
    | Annotated[Server, Tag("<mcp>")]
    | Annotated[Hosted, Tag("<hosted>")]
)


class Allowed(Wire):
    """Some of the declared tools, among which the model may or must choose."""

    mode: Literal["auto", "required"] | None = None
    tools: Annotated[
        list[Annotated[Selectors, Discriminator(selector_tag)]], Field(min_length=1, fail_fast=True)
    ]


def choice_tag(value: object) -> str | None:
    """The tag of a tool choice."""
    if isinstance(value, str):
        return "<mode>"
    return "<allowed_tools>" if type_of(value) == "allowed_tools" else selector_tag(value)


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<mode>")]
    | Annotated[Allowed, Tag("<allowed_tools>")]
    | Selectors,
    Discriminator(choice_tag),
]


def without_secrets(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool as it may be stored and shown."""
    if not any(key in tool for key in (*SECRET_KEYS, "server_url")):
        return tool
    copy = {key: value for key, value in tool.items() if key not in SECRET_KEYS}
    if isinstance(url := tool.get("server_url"), str):
        copy["server_url"] = public_url(url)
    return copy


def public_url(url: str) -> str:
    """A server's address without what may be a key in it: user, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def shown(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool as responses show it: as the client sent it, functions with all their keys."""
    if tool["type"] != "function":
        return without_secrets(tool)
    return tool | {key: tool.get(key) for key in FUNCTION_KEYS}


def shown_choice(choice: str | dict[str, Any]) -> str | dict[str, Any]:
    """A tool choice as responses show it: as the client sent it, with the mode that holds."""
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return choice | {"mode": choice.get("mode") or "auto"}
    return choice

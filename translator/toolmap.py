"""Which tool a model-visible name stands for: a request in, names and kinds out.

The map comes from the request's declarations alone (upstream-quirks.md, rule 2 of section 1); a
name that nobody declared has no entry, and its call is the client's. Members of namespaces keep
their bare name where no other tool has it; elsewhere they get one that ends in a hash. Tools of
MCP servers are known once their server has listed them. Names that the gateway itself made of tools that this request does
not offer are withheld: the model may know them from earlier turns, and the client does not know them at all.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from translator.declarations import WEB_SEARCH, Declaration, Key, declared, with_names
from translator.mcp_servers import Listed, McpServer, listings, servers
from translator.protocol.entries import RequestEntry

MAX_NAME_CHARS: Final = 64
"""What model servers take as a function's name."""

SEPARATOR: Final = "__"
"""Between a server's label and the name of its tool."""

HASH_CHARS: Final = 8
ODD_CHARACTER: Final = re.compile(r"[^a-zA-Z0-9_-]")


class ToolKind(StrEnum):
    """Who gets the calls of a tool, and in which shape: the first two are the client's, the others the gateway's."""

    FUNCTION = "function"
    CUSTOM = "custom"
    WEB_SEARCH = "web_search"
    MCP = "mcp"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `name` and `namespace` are public.

    `definition` is what the client declared, or what `server` listed (an MCP tool's).
    """

    kind: ToolKind
    name: str
    namespace: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict, compare=False)
    server: McpServer | None = None

    @property
    def format(self) -> dict[str, Any] | None:
        """A custom tool's format, where it has one."""
        return self.definition.get("format") if self.kind is ToolKind.CUSTOM else None

    @property
    def is_gateway_run(self) -> bool:
        """Whether the gateway runs its calls."""
        return self.kind in (ToolKind.WEB_SEARCH, ToolKind.MCP)

    @property
    def asks(self) -> bool:
        """Whether the client wants to approve each call."""
        return self.server is not None and self.server.asks(self.definition)


class ToolMap:
    """Model-visible names and the tools behind them.

    `_tools` and `_names` are set once, from the same declarations: visible name to tool, and public
    key to visible name. `any_gateway_run` also counts servers that have not listed any tool.
    """

    def __init__(
        self,
        declarations: Iterable[Declaration],
        listed: Mapping[str, Sequence[Listed]] | None = None,
        run: Iterable[Key] = (),
    ) -> None:
        """`listed` are the tools of each MCP server, by its label; one that has not listed any has none.

        `run` are the gateway's tools of earlier calls.
        """
        declarations = list(declarations)
        self.any_gateway_run = any(not one.is_client_owned for one in declarations)
        found = {key: tool_of(one) for key, one in with_names(declarations).items()}
        known = servers(declarations)
        for server in known if listed else ():
            found |= tools_of(server, (listed or {}).get(server.label, ()))
        self._prefixes = tuple(f"{server.label}{SEPARATOR}" for server in known)
        self._names = visible_names(list(found))
        self._tools = {self._names[key]: tool for key, tool in found.items()}
        more = [
            Key(one["name"], server=at) for at, tools in (listed or {}).items() for one in tools
        ]
        self._withheld = {
            self.visible(key): Tool(ToolKind.MCP if key.server else ToolKind.WEB_SEARCH, key.name)
            for key in [*more, *run]
            if key not in found
        }

    @classmethod
    def of(
        cls,
        body: dict[str, Any],
        items: Iterable[dict[str, Any]] = (),
        history: Iterable[dict[str, Any]] = (),
    ) -> "ToolMap":
        """The map of a request body, its input items (their `additional_tools` declare, too) and its history.

        Where two items declare one name differently the first one counts: `check` has refused that
        within a request, so that a request's own items come before those of its history.
        """
        items, history = list(items), list(history)
        earlier = [*history, *items]
        return cls(declared(body, [*items, *history]), listings(earlier), keys_of(earlier))

    @classmethod
    def of_entry(cls, entry: RequestEntry, more: Iterable[dict[str, Any]] = ()) -> "ToolMap":
        """The map of a request entry; `more` are items that the response itself has brought, tools listed."""
        return cls.of(entry["request"], [*entry["input"], *more], entry["history"])

    @property
    def names(self) -> frozenset[str]:
        """All model-visible names."""
        return frozenset(self._tools)

    @property
    def withholds(self) -> bool:
        """Whether names of earlier turns are withheld: a call of one is refused, and another round follows."""
        return bool(self._withheld)

    def items(self) -> Iterable[tuple[str, Tool]]:
        """Visible names and tools, in the order of the request."""
        return self._tools.items()

    def get(self, visible: str) -> Tool | None:
        """The tool behind a model-visible name; None if nobody declared one."""
        return self._tools.get(visible) or self._of_ours(visible)

    def offers(self, visible: str) -> bool:
        """Whether a name is not withheld."""
        return visible in self._tools or self._of_ours(visible) is None

    def _of_ours(self, visible: str) -> Tool | None:
        """What a name that is not offered stands for, if it is one that the gateway makes."""
        if visible.startswith(self._prefixes):
            return Tool(ToolKind.MCP, visible)
        return self._withheld.get(visible)

    def visible(self, key: Key) -> str:
        """The model-visible name of a tool; of one that is not declared, one that it might have."""
        known = self._names.get(key)
        if known is not None or key.server is None:
            return known or key.name
        return on_server(key, frozenset())

    def of_server(self, label: str, name: str | None = None) -> list[str]:
        """The visible names of a server's tools, or of the one with that name."""
        return [
            visible
            for key, visible in self._names.items()
            if key.server == label and name in (None, key.name)
        ]

    def find(self, kind: str, namespace: str | None, name: str) -> str | None:
        """The visible name of a declared tool of that kind, for a selector.

        A selector without a namespace also means a member, if only one namespace has that name.
        """
        keys = [Key(name, namespace)]
        if keys[0] not in self._names and namespace is None:
            keys = [key for key in self._names if key.name == name and key.server is None]
        found = [self._names[key] for key in keys if key in self._names]
        if len(found) == 1 and self._tools[found[0]].kind == kind:
            return found[0]
        return None


def keys_of(items: Iterable[dict[str, Any]]) -> Iterable[Key]:
    """The gateway's tools that were called or asked about, in items of earlier turns."""
    for item in items:
        if item["type"] in ("mcp_call", "mcp_approval_request") and (key := key_on_server(item)):
            yield key
        elif item["type"] == "web_search_call":
            yield Key(WEB_SEARCH)


def key_on_server(item: Mapping[str, Any]) -> Key | None:
    """The tool of a server that an item is about; None where an upstream, which may run servers too, does not say it."""
    name, label = item.get("name"), item.get("server_label")
    known = isinstance(name, str) and isinstance(label, str)
    return Key(str(name), server=str(label)) if known else None


def question_of(call: Mapping[str, Any]) -> str | None:
    """The id of the question behind a call of a server's tool, where it says one."""
    asked = call.get("approval_request_id")
    return asked if isinstance(asked, str) else None


def tool_of(declaration: Declaration) -> Tool:
    """The tool that a declaration stands for."""
    key = declaration.key
    kind = ToolKind(declaration.type) if declaration.is_client_owned else ToolKind.WEB_SEARCH
    return Tool(kind, key.name, key.namespace, declaration.tool)


def tools_of(server: McpServer, listed: Iterable[Listed]) -> dict[Key, Tool]:
    """The tools of a server that the model may see."""
    return {
        Key(one["name"], server=server.label): Tool(
            ToolKind.MCP, one["name"], definition=one, server=server
        )
        for one in listed
        if server.allows(one)
    }


def visible_names(keys: list[Key]) -> dict[Key, str]:
    """A name for each tool that no other has: tools outside of namespaces and servers keep theirs."""
    names = {key: key.name for key in keys if key.namespace is None and key.server is None}
    taken = set(names.values())
    bare = Counter(key.name for key in keys if key.namespace is not None)
    for key in keys:
        if key in names:
            continue
        if key.server is not None:
            visible = on_server(key, taken)
        elif bare[key.name] == 1 and key.name not in taken and len(key.name) <= MAX_NAME_CHARS:
            visible = key.name
        else:
            visible = hashed(key.namespace or "", key.name, taken)
        taken.add(visible)
        names[key] = visible
    return names


def on_server(key: Key, taken: Collection[str]) -> str:
    """A name for a tool of an MCP server: the server's label and its own where nothing is odd about them."""
    label = key.server or ""
    visible = f"{label}{SEPARATOR}{key.name}"
    if len(visible) > MAX_NAME_CHARS or ODD_CHARACTER.search(visible) or visible in taken:
        return hashed(label, key.name, taken)
    return visible


def hashed(group: str, name: str, taken: Collection[str]) -> str:
    """A name for a member of a namespace or server: readable, and the same in every turn."""
    stem = ODD_CHARACTER.sub("_", f"{group}__{name}")[: MAX_NAME_CHARS - HASH_CHARS - 1]
    salt = 0
    while True:
        text = f"{group}\0{name}\0{salt}".encode()
        digest = hashlib.blake2b(text, digest_size=HASH_CHARS // 2).hexdigest()
        if (visible := f"{stem}_{digest}") not in taken:
            return visible
        salt += 1

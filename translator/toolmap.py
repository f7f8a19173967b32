"""Which tool a model-visible name stands for: a request in, names and kinds out.

The map comes from the request's declarations alone (upstream-quirks.md, rule 2 of section 1); a
name that nobody declared has no entry, and its call is the client's. Members of namespaces keep
their bare name where no other tool has it; elsewhere they get one that ends in a hash.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from translator.declarations import Declaration, Key, declared, with_names
from translator.protocol.entries import RequestEntry

MAX_NAME_CHARS: Final = 64
"""What model servers take as a function's name."""

HASH_CHARS: Final = 8
ODD_CHARACTER: Final = re.compile(r"[^a-zA-Z0-9_-]")


class ToolKind(StrEnum):
    """Who gets the calls of a tool, and in which shape."""

    FUNCTION = "function"
    CUSTOM = "custom"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `name` and `namespace` are public; `format` is a custom tool's, else None."""

    kind: ToolKind
    name: str
    namespace: str | None = None
    format: dict[str, Any] | None = None


class ToolMap:
    """Model-visible names and the tools behind them.

    `_tools` and `_names` are set once, from the same declarations: visible name to tool, and public
    key to visible name.
    """

    def __init__(self, declarations: Iterable[Declaration]) -> None:
        named = with_names(declarations)
        self._names = visible_names(list(named))
        self._tools = {self._names[key]: tool_of(one) for key, one in named.items()}

    @classmethod
    def of(cls, body: dict[str, Any], items: Iterable[dict[str, Any]] = ()) -> "ToolMap":
        """The map of a request body and its input items (their `additional_tools` declare, too).

        Where two items declare one name differently the first one counts: `check` has refused that
        within a request, so that a request's own items come before those of its history.
        """
        return cls(declared(body, items))

    @classmethod
    def of_entry(cls, entry: RequestEntry) -> "ToolMap":
        """The map of a request entry, its input and its history included."""
        return cls.of(entry["request"], [*entry["input"], *entry["history"]])

    @property
    def names(self) -> frozenset[str]:
        """All model-visible names."""
        return frozenset(self._tools)

    def get(self, visible: str) -> Tool | None:
        """The tool behind a model-visible name; None if nobody declared one."""
        return self._tools.get(visible)

    def visible(self, namespace: str | None, name: str) -> str:
        """The model-visible name of a tool; of one that is not declared, its own."""
        return self._names.get((namespace, name), name)

    def find(self, kind: str, namespace: str | None, name: str) -> str | None:
        """The visible name of a declared tool of that kind, for a selector.

        A selector without a namespace also means a member, if only one namespace has that name.
        """
        keys = [(namespace, name)]
        if keys[0] not in self._names and namespace is None:
            keys = [key for key in self._names if key[1] == name]
        found = [self._names[key] for key in keys if key in self._names]
        if len(found) == 1 and self._tools[found[0]].kind == kind:
            return found[0]
        return None


def tool_of(declaration: Declaration) -> Tool:
    """The tool that a declaration stands for."""
    namespace, name = declaration.key
    if not declaration.is_client_owned:
        return Tool(ToolKind.GATEWAY, name)
    kind = ToolKind(declaration.type)
    return Tool(kind, name, namespace, declaration.tool.get("format"))


def visible_names(keys: list[Key]) -> dict[Key, str]:
    """A name for each tool that no other has: tools outside of namespaces keep theirs."""
    if not keys:  # as in most requests, of which three maps are made
        return {}
    names = {key: key[1] for key in keys if key[0] is None}
    taken = set(names.values())
    bare = Counter(name for namespace, name in keys if namespace is not None)
    for namespace, name in keys:
        if namespace is None:
            continue
        alone = bare[name] == 1 and name not in taken and len(name) <= MAX_NAME_CHARS
        visible = name if alone else hashed(namespace, name, taken)
        taken.add(visible)
        names[namespace, name] = visible
    return names


def hashed(namespace: str, name: str, taken: set[str]) -> str:
    """A name for a member whose own is in use: readable, and the same in every turn."""
    stem = ODD_CHARACTER.sub("_", f"{namespace}__{name}")[: MAX_NAME_CHARS - HASH_CHARS - 1]
    salt = 0
    while True:
        text = f"{namespace}\0{name}\0{salt}".encode()
        digest = hashlib.blake2b(text, digest_size=HASH_CHARS // 2).hexdigest()
        if (visible := f"{stem}_{digest}") not in taken:
            return visible
        salt += 1

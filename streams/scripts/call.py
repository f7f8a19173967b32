"""A command for Redis together with the reading of its reply.

`Call`s are made by the builders of this package (and `streams.logs`), sent by `streams.writer.Writer`, and parsed
there: the writer gives `parse` the raw reply (bytes, ints, lists: protocol 2) and the caller what comes out.
"""

import hashlib
from collections.abc import Callable
from importlib import resources
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Arg = str | bytes | int

OVERHEAD = 200
"""Bytes a call costs beside its data (command, keys, fence, numbers); only for bounds, so a round figure."""


EVALS = frozenset({"EVAL", "EVALSHA"})
KEYLESS = frozenset({"TIME", "PING", "ECHO"})
"""Plain commands without a key."""


class Script:
    """One Lua file: its text, and the SHA by which EVALSHA names it."""

    __slots__ = ("name", "sha", "source")

    def __init__(self, name: str) -> None:
        self.name = name
        self.source = resources.files(__package__).joinpath(f"{name}.lua").read_text("utf-8")
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        SCRIPTS.append(self)


SCRIPTS: list[Script] = []
"""Every script of the process, for loading in one go. Filled at import, constant afterwards."""


class Call(Generic[T]):
    """One command (`command` is complete, EVALSHA included) and how its reply is read.

    `rid` tells whose call it is: calls of one response are never reordered. `script` is None for a plain command.
    """

    __slots__ = ("command", "parse", "rid", "script", "size")

    def __init__(
        self,
        rid: str,
        script: Script | None,
        keys: tuple[str, ...],
        args: tuple[Arg, ...],
        parse: Callable[[Any], T],
        *,
        size: int = 0,
    ) -> None:
        self.rid = rid
        self.script = script
        self.parse = parse
        self.size = size + OVERHEAD
        self.command: tuple[Arg, ...] = (
            (*keys, *args) if script is None else ("EVALSHA", script.sha, len(keys), *keys, *args)
        )

    @property
    def key(self) -> str:
        """The first key: in a cluster it says where the call goes. Empty for a command that has none."""
        command = self.command
        if command[0] in EVALS:
            return str(command[3]) if command[2] else ""
        return str(command[1]) if len(command) > 1 and command[0] not in KEYLESS else ""

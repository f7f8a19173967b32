"""A response to look at: out of the store that the settings name, or out of a file.

In: what the command line says, an id of a response or the name of a file (`-`: standard input). Out: a `Recording`, or
one line that says why there is none. Called by the commands that look at responses.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from respool.backing import FOLDER, MEMORY, address_of
from respool.settings import Settings
from respool.unusable import Unusable
from streams import embedded, recording, transcript
from streams.faults import Gone
from streams.recording import OnProgress, Recording, nothing
from streams.store import Store
from streams.transcript import Transcript
from translator.ids import is_response_id
from translator.protocol.errors import StoreError

STDIN: Final = "-"
RETRY_S: Final = 1.0
"""Somebody waits at a terminal: a store that is away is told at once."""

NO_STORE: Final = (
    "no store: RESPOOL_REDIS_URL is not set, and this folder has no .respool of `respool serve`"
)
ONE_PROCESS: Final = "the store is memory://, which only the process that serves can see"


@asynccontextmanager
async def open_store(settings: Settings, *, make: bool = False) -> AsyncIterator[Store]:
    """The store of `respool serve` with these settings; an embedded one is joined, or started where it rests.

    With `make` an embedded one that never was is made. Raises Unusable.
    """
    if not settings.store and not make and not FOLDER.is_dir():
        raise Unusable(NO_STORE)
    given = settings.store or ""
    if given.startswith(MEMORY) or not (given or embedded.find_server()):
        raise Unusable(ONE_PROCESS)
    try:
        async with (
            address_of(settings) as url,
            Store.open(url, settings.namespace, retry_for_s=RETRY_S) as store,
        ):
            yield store
    except StoreError as error:
        raise Unusable(f"{settings.store_shown}: {error.message}") from error


async def of_store(store: Store, rid: str, on_progress: OnProgress = nothing) -> Recording:
    """A response of the store. Raises Unusable."""
    try:
        return await recording.read(store.logs, rid, on_progress)
    except Gone:
        raise Unusable(
            f"no response {rid} in this store: deleted, expired or never there"
        ) from None


def check_id(rid: str) -> None:
    """Raise Unusable for what is no id of a response."""
    if not is_response_id(rid):
        raise Unusable(f"{rid!r} is neither a file nor the id of a response")


def is_file(name: str) -> bool:
    """Whether the name is a file's."""
    return name == STDIN or Path(name).is_file()


def of_file(name: str) -> Recording:
    """A response out of a file. Raises Unusable."""
    try:
        return transcript.recording_of(read_file(name))
    except StoreError as error:
        raise Unusable(f"{shown(name)}: {error.message}") from None


def read_file(name: str) -> Transcript:
    """A file of Respool's, whatever it holds. Raises Unusable."""
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        raise Unusable(f"{shown(name)}: {(error.strerror or 'cannot be read').lower()}") from None
    try:
        return transcript.read(raw)
    except StoreError as error:
        raise Unusable(f"{shown(name)}: {error.message}") from None


def shown(name: str) -> str:
    """A file's name as a message shows it."""
    return "standard input" if name == STDIN else name

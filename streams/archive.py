"""Reading packed logs: a page of entries or frames out of the chapter that holds it.

In: a response whose state said, in the same step as its logs, that they are packed (`streams.logs` asks nobody else).
Out: the same entries and frames that its logs held. What is packed never changes, so a chapter that was read serves every
reader after it from a small cache; a chapter is fetched and unpacked, in a thread, by one reader at a time.
"""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from streams import metrics
from streams.faults import SealDamaged
from streams.keys import Keys
from streams.scripts.outputs import PAGE_BYTES, Frame
from streams.scripts.sealing import read_seal
from streams.sealed import Chapter, Contents, unpacked
from streams.writer import Sender
from translator.protocol.entries import Entry

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

CACHE_BYTES: Final = 8 * 2**20
"""A dozen chapters: what the readers of a few long responses need between two pages. A chapter that is gone costs its
next reader some ms."""

LEAD_BYTES: Final = 16 * 1024
"""Read first: of most responses the whole value, of the longest the places of all chapters."""

ITEM_BYTES: Final = 200
"""What an entry or a frame costs beside its data in a chapter: numbers and a kind."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A packed value as far as it is known: its contents, and its first bytes."""

    contents: Contents
    lead: bytes


class Archive:
    """The packed logs of one deployment, as this process reads them."""

    def __init__(self, keys: Keys, reads: Sender, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._keys = keys
        self._reads = reads
        self._volumes: Cache[str, Volume] = Cache(cache_bytes // 4)
        self._chapters: Cache[tuple[str, int], Chapter] = Cache(cache_bytes - cache_bytes // 4)
        self._unpacking = asyncio.Lock()
        """Held by the reader that fetches a chapter: who wants the same one finds it in the cache."""

    async def entries(self, rid: str, after_n: int, count: int) -> list[Entry]:
        """Entries after number `after_n`, at most `count`, of one chapter. Refused MISSING; raises SealDamaged."""
        at = (await self._volume(rid)).contents.with_entry(after_n + 1)
        return [] if at is None else (await self._chapter(rid, at)).entries(after_n + 1, count)

    async def frames(
        self, rid: str, after_seq: int, count: int, most_bytes: int = PAGE_BYTES
    ) -> list[Frame]:
        """Frames after number `after_seq`, at most `count` or `most_bytes`, of one chapter.

        Refused MISSING; raises SealDamaged, also where the frame after `after_seq` is not in it.
        """
        at = (await self._volume(rid)).contents.with_frame(after_seq + 1)
        if at is None:
            raise self._damaged(rid, SealDamaged(f"it holds no frame {after_seq + 1}"))
        return page((await self._chapter(rid, at)).frames(after_seq + 1, count), most_bytes)

    async def _volume(self, rid: str) -> Volume:
        volume = self._volumes.get(rid)
        if volume is None:
            try:
                lead = await self._read(rid, 0, LEAD_BYTES)
                size = Contents.size(lead)
                if size > len(lead):
                    lead += await self._read(rid, len(lead), size - len(lead))
                volume = Volume(Contents.read(lead), lead)
            except SealDamaged as error:
                raise self._damaged(rid, error) from None
            self._volumes.put(rid, volume, len(lead))
        return volume

    async def _chapter(self, rid: str, at: int) -> Chapter:
        if (chapter := self._chapters.get((rid, at))) is not None:
            return chapter
        async with self._unpacking:
            if (chapter := self._chapters.get((rid, at))) is not None:
                return chapter
            volume = await self._volume(rid)
            place = volume.contents.places[at]
            try:
                packed = volume.lead[place.start : place.start + place.size]
                if len(packed) < place.size:
                    packed = await self._read(rid, place.start, place.size)
                chapter = await asyncio.to_thread(unpacked, place, packed)
            except SealDamaged as error:
                raise self._damaged(rid, error) from None
            cost = place.raw_size + ITEM_BYTES * (place.entries + place.frames)
            self._chapters.put((rid, at), chapter, cost)
            return chapter

    async def _read(self, rid: str, start: int, size: int) -> bytes:
        return await self._reads.do(read_seal(self._keys, rid, start=start, size=size))

    def _damaged(self, rid: str, error: SealDamaged) -> SealDamaged:
        metrics.count("seals_damaged_total")
        log.error("%s: %s", rid, error.message, extra={"response": rid})
        return error


def page(frames: list[Frame], most_bytes: int = PAGE_BYTES) -> list[Frame]:
    """As many frames as a page may have bytes, but always one."""
    size = 0
    for index, frame in enumerate(frames):
        size += len(frame.data)
        if size > most_bytes and index:
            return frames[:index]
    return frames


class Cache(Generic[K, V]):
    """What was used last, up to a bound in bytes; a value that is larger is not kept."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        """Values and what they cost; the one that was used last stands last."""
        self.bytes = 0

    def get(self, key: K) -> V | None:
        """The value, if it is held."""
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, cost: int) -> None:
        """Hold a value; others go that were used longest ago."""
        self.bytes += cost - self._held.pop(key, (value, 0))[1]
        self._held[key] = (value, cost)
        while self.bytes > self._most_bytes:
            _, (_, freed) = self._held.popitem(last=False)
            self.bytes -= freed

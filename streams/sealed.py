"""Both logs of a finished response as one packed value: its form, and nothing of where it lies.

In: the entries and frames of a response, a few at a time, in order. Out: the value (`Packer`). Back again: the value's
beginning tells where its chapters stand (`Contents`), and each can be unpacked by itself (`unpacked`), so that a reader
needs neither the rest of the value nor its memory. Pure; packing and unpacking take some ms a chapter, so callers do
both in a thread. Called by `workers.seal` (packing) and `streams.archive` (reading).

    value    = head, rows, chapters
    head     = "RSPL", version, number of rows, digest of the rows
    row      = one chapter: how it is packed, its entries and frames (how many), its bytes packed and unpacked, its digest
    chapter  = packed: length of the table, table, data of the entries, data of the frames
    table    = JSON, a column each: the entries' kind, wait (ms since the entry before), round, attempt and length, the
               frames' length and whether they end the stream

Numbers are little-endian. A chapter holds the part of both logs that came to be at about the same time: the frames say
again what the entries said, which is most of what packing wins. A digest is of what was packed, so a fault of the
packing is found as well as one of the store.
"""

import hashlib
import lzma
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate, pairwise
from typing import Any, Final, Self

from streams.faults import SealDamaged
from streams.scripts.outputs import Frame
from translator.protocol.entries import Entry
from translator.protocol.json import dumps, loads

MAGIC: Final = b"RSPL"
VERSION: Final = 1
"""Of everything on this page and of the vocabulary. A value lives as long as a response is kept: whoever changes one of
them takes the next number, and goes on reading this one."""

HEAD: Final = struct.Struct("<4sBI8s")
ROW: Final = struct.Struct("<cIIII8s")
LENGTH: Final = struct.Struct("<I")

CHAPTER_BYTES: Final = 512 * 1024
"""What a chapter holds, about: large enough that what repeats is found in it, small enough to be unpacked in some ms."""

SHORT_BYTES: Final = 64 * 1024
"""A chapter up to this is packed with the vocabulary: a short response says little twice, but what all of them say. In
a longer one most of what repeats lies further apart than the 32 KiB that zlib looks back."""

VOCABULARY: Final = (resources.files("streams") / "vocabulary.txt").read_bytes()
"""What all responses say, as zlib's preset dictionary: the gateway's own events, and those of the two dialects."""

FILTERS: Final = [{"id": lzma.FILTER_LZMA2, "preset": 1}]
"""Preset 1 packs 16 to 30 MB/s in 10 MB of memory; preset 6 would win 2 %, at a third of the speed."""


def deflate(raw: bytes) -> bytes:
    """Packed with the vocabulary."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zdict=VOCABULARY)
    return packer.compress(raw) + packer.flush()


def inflate(packed: bytes, size: int) -> bytes:
    """The reverse of `deflate`, never more than `size` and a byte."""
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS, zdict=VOCABULARY)
    return unpacker.decompress(packed, size + 1)


def squeeze(raw: bytes) -> bytes:
    """Packed by itself."""
    return lzma.compress(raw, lzma.FORMAT_RAW, filters=FILTERS)


def expand(packed: bytes, size: int) -> bytes:
    """The reverse of `squeeze`, never more than `size` and a byte."""
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=FILTERS).decompress(packed, size + 1)


UNPACK: Final[dict[bytes, Callable[[bytes, int], bytes]]] = {b"d": inflate, b"l": expand}
"""How a chapter is unpacked, by what its row says."""


def digest_of(raw: bytes) -> bytes:
    """Enough against accidents, which is what it is for."""
    return hashlib.blake2b(raw, digest_size=8).digest()


# ---- packing


class Packer:
    """A value in the making: `add` chapter by chapter, then `value`. It holds what is packed, never what was."""

    def __init__(self) -> None:
        self.entries = 0
        self.frames = 0
        self.raw_bytes = 0
        """The data of both, as their logs hold it."""
        self.packed_bytes = 0
        self._rows: list[bytes] = []
        self._chapters: list[bytes] = []

    def add(self, entries: Sequence[Entry], frames: Sequence[Frame]) -> None:
        """The next chapter. Raises ValueError unless both go on where the last one ended."""
        if [entry.n for entry in entries] != _following(self.entries + 1, len(entries)):
            raise ValueError("these are not the next entries")
        if [frame.seq for frame in frames] != _following(self.frames, len(frames)):
            raise ValueError("these are not the next frames")
        raw = _chapter(entries, frames)
        how, packed = (b"d", deflate(raw)) if len(raw) <= SHORT_BYTES else (b"l", squeeze(raw))
        row = (how, len(entries), len(frames), len(packed), len(raw), digest_of(raw))
        self._rows.append(ROW.pack(*row))
        self._chapters.append(packed)
        self.entries += len(entries)
        self.frames += len(frames)
        self.raw_bytes += sum(map(len, _data(entries, frames)))
        self.packed_bytes += len(packed)

    def value(self) -> bytes:
        """All that was added."""
        rows = b"".join(self._rows)
        head = HEAD.pack(MAGIC, VERSION, len(self._rows), digest_of(rows))
        return b"".join((head, rows, *self._chapters))


def _following(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def _chapter(entries: Sequence[Entry], frames: Sequence[Frame]) -> bytes:
    times = [0, *(entry.t for entry in entries)]
    table = dumps(
        {
            "kind": [entry.kind for entry in entries],
            "wait": [after - before for before, after in pairwise(times)],
            "round": [entry.round for entry in entries],
            "attempt": [entry.attempt for entry in entries],
            "entry": [len(entry.data) for entry in entries],
            "frame": [len(frame.data) for frame in frames],
            "end": [int(frame.terminal) for frame in frames],
        }
    )
    return b"".join((LENGTH.pack(len(table)), table, *_data(entries, frames)))


def _data(entries: Sequence[Entry], frames: Sequence[Frame]) -> list[bytes]:
    return [entry.data for entry in entries] + [frame.data for frame in frames]


# ---- reading


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chapter stands in the value, and what it holds: entries from `first_n`, frames from `first_seq`."""

    how: bytes
    start: int
    size: int
    raw_size: int
    digest: bytes
    first_n: int
    entries: int
    first_seq: int
    frames: int


@dataclass(frozen=True, slots=True)
class Contents:
    """The places of all chapters, in order."""

    places: tuple[Place, ...]

    @staticmethod
    def size(head: bytes) -> int:
        """How many bytes of the value `read` needs, by its first HEAD.size ones. Raises SealDamaged."""
        _, count, _ = _head(head)
        return HEAD.size + count * ROW.size

    @classmethod
    def read(cls, beginning: bytes) -> Self:
        """From the beginning of a value, at least `size` of it. Raises SealDamaged."""
        size = cls.size(beginning)
        rows = beginning[HEAD.size : size]
        if digest_of(rows) != _head(beginning)[2]:
            raise SealDamaged("its contents do not fit their digest")
        places: list[Place] = []
        start, n, seq = size, 1, 0
        for how, entries, frames, packed, raw, digest in ROW.iter_unpack(rows):
            places.append(Place(how, start, packed, raw, digest, n, entries, seq, frames))
            start, n, seq = start + packed, n + entries, seq + frames
        return cls(tuple(places))

    def with_entry(self, n: int) -> int | None:
        """The number of the chapter that holds an entry."""
        return next(
            (at for at, p in enumerate(self.places) if p.first_n <= n < p.first_n + p.entries), None
        )

    def with_frame(self, seq: int) -> int | None:
        """The number of the chapter that holds a frame."""
        return next(
            (at for at, p in enumerate(self.places) if p.first_seq <= seq < p.first_seq + p.frames),
            None,
        )


def _head(beginning: bytes) -> tuple[int, int, bytes]:
    """Version, number of rows and their digest."""
    if len(beginning) < HEAD.size:
        raise SealDamaged("it ends in its head")
    magic, version, count, digest = HEAD.unpack_from(beginning)
    if magic != MAGIC:
        raise SealDamaged("it is none of ours")
    if version != VERSION:
        raise SealDamaged(f"version {version} is not known here")
    return version, count, digest


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of both logs, unpacked.

    Entries and frames are made when they are asked for: thousands that lie in a cache would keep the cyclic collector busy.
    """

    place: Place
    raw: bytes
    table: dict[str, list[Any]]
    times: list[int]
    ends: list[int]
    """Where the data of each item begins, and the last one's end: entries first, then frames."""

    def entries(self, n: int, count: int) -> list[Entry]:
        """Entries from number `n` on, which is one of them, at most `count`."""
        table, start = self.table, n - self.place.first_n
        return [
            Entry(
                self.place.first_n + at,
                table["kind"][at],
                self.times[at],
                self._data(at),
                table["round"][at],
                table["attempt"][at],
            )
            for at in range(start, min(start + count, self.place.entries))
        ]

    def frames(self, seq: int, count: int) -> list[Frame]:
        """Frames from number `seq` on, which is one of them, at most `count`."""
        place, start = self.place, seq - self.place.first_seq
        return [
            Frame(place.first_seq + at, self._data(place.entries + at), self.table["end"][at] == 1)
            for at in range(start, min(start + count, place.frames))
        ]

    def _data(self, at: int) -> bytes:
        return self.raw[self.ends[at] : self.ends[at + 1]]


def unpacked(place: Place, packed: bytes) -> Chapter:
    """A chapter, from the `size` bytes that the value holds from `start` on. Raises SealDamaged."""
    if place.how not in UNPACK:
        raise SealDamaged(f"nobody packs as {place.how!r}")
    try:
        raw = UNPACK[place.how](packed, place.raw_size)
    except (zlib.error, lzma.LZMAError) as error:
        raise SealDamaged("a chapter cannot be unpacked") from error
    if len(raw) != place.raw_size or digest_of(raw) != place.digest:
        raise SealDamaged("a chapter does not fit its digest")
    begin = LENGTH.size + LENGTH.unpack_from(raw)[0]
    table = loads(raw[LENGTH.size : begin])
    ends = accumulate(table["entry"] + table["frame"], initial=begin)
    return Chapter(place, raw, table, list(accumulate(table["wait"])), list(ends))

"""The files that Respool writes for people to keep, send and replay: a recorded response, or a recorded upstream.

In: a header and records. Out: the bytes of a file; and back. Pure. Called by `respool` and the api (debug page).

    line 1      {"respool": "response" | "upstream", "version": 1, …}
    line 2 …    one record each, JSON, in the order in which things happened
    last line   {"end": <number of records>, "sha256": <of all bytes before this line>}

Text, so that a person can read it and a diff shows what changed; packed with gzip it is read as well. What is not
UTF-8 stands in base64. The last line tells a file that was cut off or changed from one that is whole.

| file of   | header                                | records                                                        |
|-----------|---------------------------------------|----------------------------------------------------------------|
| response  | id, redacted, state                   | `{"n", "t", "kind", "round", "attempt", "data"}`: an entry     |
|           |                                       | `{"seq", "frame"}`: a public frame, `"end": true` on the last  |
| upstream  |                                       | see `respool.inspection.tape`                                  |
"""

import gzip
import hashlib
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import orjson

from streams.logs import State, results_of, results_text
from streams.recording import Recording
from streams.scripts.outputs import Frame
from translator.protocol.entries import Entry
from translator.protocol.errors import StoreError
from translator.protocol.json import dumps

VERSION: Final = 1
GZIP: Final = b"\x1f\x8b"

MAX_FILE_BYTES: Final = 512 * 2**20
"""Unpacked. Both logs of a response have 64 MiB each at most by default; as JSON they are at most twice as large."""

ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What may become part of a key."""

Record = dict[str, Any]


class Damaged(StoreError):
    """The file is none of ours, of another version, cut off, or not what was written."""

    status = 400


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file, read: what its first line says, and its records."""

    header: dict[str, Any]
    records: list[Record]

    @property
    def kind(self) -> str:
        """What it is of: `response` or `upstream`."""
        return str(self.header["respool"])


# ---- any file


def header_line(kind: str, **said: Any) -> bytes:
    """The first line."""
    return dumps({"respool": kind, "version": VERSION, **said}) + b"\n"


class Sealing:
    """The last line in the making: pass every line through `add`."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._lines = 0  # the header among them

    def add(self, line: bytes) -> bytes:
        """The line, which counts from now on."""
        self._hash.update(line)
        self._lines += 1
        return line

    def last_line(self) -> bytes:
        """The last line."""
        return dumps({"end": self._lines - 1, "sha256": self._hash.hexdigest()}) + b"\n"


def sealed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file, the last one added."""
    sealing = Sealing()
    for line in lines:
        yield sealing.add(line)
    yield sealing.last_line()


def read(raw: bytes) -> Transcript:
    """A file, packed with gzip or not. Raises Damaged."""
    if raw.startswith(GZIP):
        raw = _unpacked(raw)
    lines = raw.split(b"\n")
    header = _object(lines[0])
    if not isinstance(header.get("respool"), str):
        raise Damaged("this is no file of Respool's")
    if header.get("version") != VERSION:
        raise Damaged(
            f"the file has version {header.get('version')}; this Respool reads version {VERSION}"
        )
    end = _object(lines[-2]) if len(lines) > 2 else {}
    if lines[-1] or "sha256" not in end:
        raise Damaged("the file is cut off: its last line is missing")
    rows = lines[1:-2]
    body = raw[: len(raw) - len(lines[-2]) - 1]
    if end.get("end") != len(rows) or hashlib.sha256(body).hexdigest() != end["sha256"]:
        raise Damaged("the file is damaged: it is not what its checksum says")
    return Transcript(header, [_object(row) for row in rows])


def _unpacked(raw: bytes) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        found = unpacker.decompress(raw, MAX_FILE_BYTES)
    except zlib.error:
        raise Damaged("the file is damaged: it cannot be unpacked") from None
    if unpacker.unconsumed_tail:
        raise Damaged(f"the file is larger than {MAX_FILE_BYTES >> 20} MiB")
    if not unpacker.eof:
        raise Damaged("the file is cut off: its last line is missing")
    return found


def packed(lines: Iterable[bytes]) -> bytes:
    """The lines as one gzip member, the same for the same lines whenever it is made."""
    return gzip.compress(b"".join(lines), compresslevel=9, mtime=0)


def _object(line: bytes) -> dict[str, Any]:
    """A line's object; an empty one for what is none, which has no field that anybody looks for."""
    try:
        found = orjson.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def text(data: bytes) -> str | dict[str, str]:
    """Bytes as JSON: their text, or base64 where they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def data_of(said: Any) -> bytes:
    """The reverse of `text`."""
    return b64decode(said["base64"], validate=True) if isinstance(said, dict) else str.encode(said)


# ---- a response


def lines_of(recording: Recording, *, redacted: bool = False) -> Iterator[bytes]:
    """The file of a response, line by line."""
    return sealed(_response(recording, redacted))


def _response(recording: Recording, redacted: bool) -> Iterator[bytes]:
    state = _said(recording.state)
    yield header_line("response", id=recording.rid, redacted=redacted, state=state)
    for entry in recording.entries:
        row: Record = {"n": entry.n, "t": entry.t, "kind": entry.kind}
        if entry.round:
            row["round"] = entry.round
        if entry.attempt:
            row["attempt"] = entry.attempt
        row["data"] = text(entry.data)
        yield dumps(row) + b"\n"
    for frame in recording.frames:
        row = {"seq": frame.seq, "frame": text(frame.data)}
        if frame.terminal:
            row["end"] = True
        yield dumps(row) + b"\n"


def recording_of(transcript: Transcript) -> Recording:
    """The response of a file. Raises Damaged."""
    if transcript.kind != "response":
        raise Damaged(f"the file is of an {transcript.kind}, not of a response")
    entries: list[Entry] = []
    frames: list[Frame] = []
    try:
        rid = transcript.header["id"]
        for row in transcript.records:
            if "seq" in row:
                frames.append(Frame(row["seq"], data_of(row["frame"]), "end" in row))
            else:
                at = (row.get("round", 0), row.get("attempt", 0))
                entries.append(Entry(row["n"], row["kind"], row["t"], data_of(row["data"]), *at))
        state = _state(transcript.header["state"], entries, frames)
    except (LookupError, TypeError, ValueError):
        _unfit()
    whole = [entry.n for entry in entries] == list(range(1, len(entries) + 1))
    if not (whole and entries and [f.seq for f in frames] == list(range(len(frames)))):
        _unfit()
    if not isinstance(rid, str) or not ID.fullmatch(rid):
        _unfit()
    return Recording(rid, state, entries, frames)


def _unfit() -> NoReturn:
    """Its checksum is right, so somebody wrote it this way."""
    raise Damaged("the file does not hold a response as Respool writes one")


SAID: Final = (
    *("tenant", "status", "created", "ended", "deadline", "store", "background", "done"),
    *("cancelled", "opened", "round", "rstate", "attempt", "cursor"),
)
"""What a file tells of the state beside what stands in the logs. Leases and expiry are the store's own affair."""


def _said(state: State) -> dict[str, Any]:
    said = {name: getattr(state, name) for name in SAID}
    return {**said, "refusal": text(state.refusal), "results": results_text(state.results)}


def _state(said: dict[str, Any], entries: list[Entry], frames: list[Frame]) -> State:
    known = {name: said[name] for name in SAID}
    return State(
        **known,
        refusal=data_of(said["refusal"]),
        results=results_of(said["results"]),
        last=len(entries),
        in_bytes=sum(len(entry.data) for entry in entries),
        seq=len(frames) - 1,
        out_bytes=sum(len(frame.data) for frame in frames),
        digest="",
        expires=0,
        ilease=0,
        lease=0,
        sealed=False,
        reader=0,
        jobs=0,
    )

"""A compressed body that came although `identity` was asked for (upstream-quirks.md section 2).

In: chunks of a gzip or deflate body. Out: what they decode to, as soon as it can be known. Called
by `ingest.upstream` for each chunk of such a body.
"""

import zlib
from collections.abc import Iterator
from typing import Final

from translator.protocol.errors import ProtocolFault

STEP_BYTES: Final = 64 * 1024
"""What one step may decode to. A small chunk can stand for a gigabyte: it is given out piece by
piece, and whoever takes the pieces gives others a turn between them and stops at its bounds."""

SLICE_BYTES: Final = 16 * 1024
"""What zlib is given at once: after every step it copies what it has not looked at yet."""

_GZIP: Final = zlib.MAX_WBITS | 16
_ZLIB: Final = zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS


class Inflate:
    """One body. `feed` its chunks, then ask `ended`: a body cut short is a broken connection."""

    def __init__(self, encoding: str) -> None:
        """`encoding` is the value of `content-encoding`; any but gzip and deflate is refused."""
        names = [name for word in encoding.split(",") if (name := word.strip().lower())]
        layers = [name for name in names if name != "identity"]
        name = layers[0] if len(layers) == 1 else ""
        if name not in ("gzip", "x-gzip", "deflate"):
            raise ProtocolFault("The upstream compressed its answer in a way not asked for.")
        self._members = name != "deflate"  # gzip may have several, one after the other
        self._deflate = name == "deflate"  # cleared once its first bytes told zlib from raw
        self._stream = zlib.decompressobj(_GZIP)

    @property
    def ended(self) -> bool:
        """Whether the end of the compressed data was seen."""
        return self._stream.eof

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """What this chunk decodes to, in pieces, some of them empty: each is one step of work.

        Raises ProtocolFault on data that is none.
        """
        if self._deflate and chunk:
            # "deflate" means zlib (RFC 9110), but some servers send the raw stream; the first byte
            # tells: a zlib header has method 8 and a window of at most 32 KiB.
            self._stream = zlib.decompressobj(_ZLIB if chunk[0] & 0x8F == 8 else _RAW)
            self._deflate = False
        for at in range(0, len(chunk), SLICE_BYTES):
            yield from self._steps(chunk[at : at + SLICE_BYTES])

    def _steps(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._stream.eof and self._members:
                chunk = chunk.lstrip(b"\0")  # padding, which RFC 1952 does not know and gzip skips
                if not chunk:
                    return
                self._stream = zlib.decompressobj(_GZIP)
            try:
                piece = self._stream.decompress(chunk, STEP_BYTES)
            except zlib.error:
                raise ProtocolFault("The upstream's compressed answer cannot be read.") from None
            yield piece
            chunk = self._stream.unconsumed_tail or (
                self._stream.unused_data if self._members else b""
            )

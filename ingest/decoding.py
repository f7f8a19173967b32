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

_GZIP: Final = zlib.MAX_WBITS | 16
_ZLIB: Final = zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS


class Inflate:
    """One body. `feed` its chunks, then ask `ended`: a body cut short is a broken connection."""

    def __init__(self, encoding: str) -> None:
        """`encoding` is the value of `content-encoding`; any but gzip and deflate is refused."""
        name = encoding.strip().lower()
        if name not in ("gzip", "x-gzip", "deflate"):
            raise ProtocolFault("The upstream compressed its answer in a way not asked for.")
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
        while chunk:
            try:
                piece = self._stream.decompress(chunk, STEP_BYTES)
            except zlib.error:
                raise ProtocolFault("The upstream's compressed answer cannot be read.") from None
            yield piece
            chunk = self._stream.unconsumed_tail

import gzip
import zlib

import pytest

from ingest.decoding import STEP_BYTES, Inflate
from translator.protocol.errors import ProtocolFault

RAW = b"data: " + b"abc" * 1000 + b"\n\n"
PACKED = {
    "gzip": gzip.compress(RAW),
    "x-gzip": gzip.compress(RAW),
    " GZIP ": gzip.compress(RAW),
    "deflate": zlib.compress(RAW),
    "DEFLATE": zlib.compress(RAW, wbits=-zlib.MAX_WBITS),
}


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("size", [1, 2, 100, 10_000])
def test_any_split_decodes_to_the_same(encoding: str, size: int) -> None:
    inflate, packed, found = Inflate(encoding), PACKED[encoding], b""
    for at in range(0, len(packed), size):
        found += b"".join(inflate.feed(packed[at : at + size]))
    assert found == RAW
    assert inflate.ended


def test_a_frame_comes_out_as_soon_as_its_bytes_are_in() -> None:
    packer = zlib.compressobj(wbits=31)
    inflate = Inflate("gzip")
    for number in range(3):
        chunk = packer.compress(b"%d" % number) + packer.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(inflate.feed(chunk)) == b"%d" % number
    assert not inflate.ended


def test_a_bomb_comes_in_pieces() -> None:
    bomb = gzip.compress(bytes(10 * STEP_BYTES))
    sizes = [len(piece) for piece in Inflate("gzip").feed(bomb)]
    assert sum(sizes) == 10 * STEP_BYTES
    assert max(sizes) == STEP_BYTES


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "x"])
def test_what_was_not_asked_for_and_is_not_known_is_a_fault(encoding: str) -> None:
    with pytest.raises(ProtocolFault):
        Inflate(encoding)


def test_bytes_that_are_not_compressed_are_a_fault_that_shows_none_of_them() -> None:
    with pytest.raises(ProtocolFault) as caught:
        list(Inflate("gzip").feed(b"secret"))
    assert "secret" not in caught.value.message
    assert list(Inflate("gzip").feed(b"")) == []


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_body_of_several_gzip_members_is_decoded_to_its_end(size: int) -> None:
    packed = gzip.compress(RAW[:50]) + gzip.compress(b"") + gzip.compress(RAW[50:]) + bytes(3)
    inflate = Inflate("gzip, identity")
    pieces = (inflate.feed(packed[at : at + size]) for at in range(0, len(packed), size))
    assert b"".join(piece for found in pieces for piece in found) == RAW
    assert inflate.ended
    list(inflate.feed(gzip.compress(RAW)[:30]))
    assert not inflate.ended  # cut short in a later member


def test_thousands_of_empty_members_are_thousands_of_cheap_steps() -> None:
    steps = list(Inflate("gzip").feed(gzip.compress(b"") * 20_000))
    assert len(steps) >= 20_000
    assert not any(steps)

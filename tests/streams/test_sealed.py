"""The packed form of two logs: what goes in comes out, and what is damaged says so."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import sealed
from streams.faults import SealDamaged
from streams.scripts.outputs import Frame
from streams.sealed import HEAD, ROW, Contents, Packer, unpacked
from translator.protocol.entries import Entry

NUMBERS = st.integers(0, 2**53)
DATA = st.binary(max_size=200)
CHAPTERS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.text(), NUMBERS, DATA, NUMBERS, NUMBERS), max_size=8),
        st.lists(st.tuples(DATA, st.booleans()), max_size=8),
    ),
    max_size=5,
)


def packed(chapters) -> tuple[bytes, list[Entry], list[Frame]]:
    """The value of such chapters, numbered, and what went in."""
    packer, entries, frames = Packer(), [], []
    for said, shown in chapters:
        more = [Entry(len(entries) + 1 + i, *one) for i, one in enumerate(said)]
        further = [Frame(len(frames) + i, *one) for i, one in enumerate(shown)]
        packer.add(more, further)
        entries += more
        frames += further
    assert (packer.entries, packer.frames) == (len(entries), len(frames))
    assert packer.raw_bytes == sum(len(one.data) for one in [*entries, *frames])
    return packer.value(), entries, frames


def read(value: bytes) -> tuple[list[Entry], list[Frame]]:
    """All that a value holds, chapter by chapter."""
    entries, frames = [], []
    contents = Contents.read(value[: Contents.size(value)])
    for at, place in enumerate(contents.places):
        chapter = unpacked(place, value[place.start : place.start + place.size])
        said = chapter.entries(place.first_n, place.entries + 1)
        shown = chapter.frames(place.first_seq, place.frames + 1)
        assert chapter.entries(place.first_n + 1, 2) == said[1:3]
        assert chapter.frames(place.first_seq + 1, 2) == shown[1:3]
        assert {contents.with_entry(entry.n) for entry in said} <= {at}
        assert {contents.with_frame(frame.seq) for frame in shown} <= {at}
        entries += said
        frames += shown
    assert contents.with_entry(0) is contents.with_entry(len(entries) + 1) is None
    assert contents.with_frame(-1) is contents.with_frame(len(frames)) is None
    return entries, frames


@given(CHAPTERS)
def test_what_was_packed_comes_out_as_it_was(chapters):
    value, entries, frames = packed(chapters)
    assert read(value) == (entries, frames)


def test_long_chapters_come_out_as_they_were_too():
    noise = hashlib.shake_128().digest(sealed.SHORT_BYTES)
    text = b"data: the same again\n\n" * (2 * sealed.SHORT_BYTES // 20)
    value, entries, frames = packed([([("frame", 1, noise, 0, 0)], [(text, True)])])
    assert read(value) == (entries, frames)
    assert len(value) < len(noise) + 2_000


def honest(value: bytes, entries: list[Entry], frames: list[Frame]) -> bool:
    """Whether a value is said to be damaged; a damage that does no harm may pass, a lie never."""
    try:
        found = read(value)
    except SealDamaged:
        return True
    return found == (entries, frames)


@given(CHAPTERS, st.data())
def test_a_damaged_value_says_so(chapters, data):
    value, entries, frames = packed(chapters)
    at = data.draw(st.integers(0, len(value) - 1))
    other = bytes([value[at] ^ data.draw(st.integers(1, 255))])
    assert honest(value[:at], entries, frames)
    assert honest(value[:at] + other + value[at + 1 :], entries, frames)
    assert honest(value[:at] + value[at + 1 :], entries, frames)


@pytest.mark.parametrize("size", [sealed.SHORT_BYTES // 4, sealed.SHORT_BYTES * 2])
def test_a_damage_anywhere_in_a_chapter_is_found(size):
    data = hashlib.shake_128().digest(size)
    value, *known = packed([([("frame", 7, data, 1, 1)], [(data, True)])])
    for at in range(0, len(value), len(value) // 100):
        assert honest(value[:at] + bytes([value[at] ^ 0x55]) + value[at + 1 :], *known)
    with pytest.raises(SealDamaged):
        read(value[: len(value) // 2])


def test_a_damage_anywhere_in_the_contents_is_found():
    value, *_ = packed([([("frame", 1, b"x", 0, 0)] * 2, [(b"y", True)] * 2)] * 2)
    for at in range(HEAD.size + 2 * ROW.size):
        with pytest.raises(SealDamaged):
            read(value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])


@given(st.binary(max_size=100))
def test_what_is_none_of_ours_is_damaged(value):
    with pytest.raises(SealDamaged):
        read(value)


def test_another_version_and_another_way_of_packing_are_not_guessed_at():
    value, _, _ = packed([([("frame", 1, b"x", 0, 0)], [])])
    with pytest.raises(SealDamaged, match="version 9"):
        Contents.read(value[:4] + b"\x09" + value[5:])
    row = b"?" + value[HEAD.size + 1 : HEAD.size + ROW.size]
    head = HEAD.pack(sealed.MAGIC, sealed.VERSION, 1, sealed.digest_of(row))
    (place,) = Contents.read(head + row).places
    with pytest.raises(SealDamaged, match="nobody"):
        unpacked(place, value[place.start :])


def test_a_chapter_never_unpacks_to_more_than_it_says():
    """A few bytes that stand for very many are not let out."""
    bomb = bytes(2**24)
    for how, pack in ((b"d", sealed.deflate), (b"l", sealed.squeeze)):
        place = sealed.Place(how, 0, 0, 10, sealed.digest_of(bomb), 1, 1, 0, 0)
        with pytest.raises(SealDamaged, match="digest"):
            unpacked(place, pack(bomb))
        assert len(sealed.UNPACK[how](pack(bomb), 10)) == 11


def test_only_what_comes_next_is_packed():
    packer = Packer()
    packer.add([Entry(1, "request", 1, b"")], [Frame(0, b"")])
    for entries, frames in (
        ([Entry(3, "frame", 1, b"")], []),
        ([Entry(2, "frame", 1, b""), Entry(4, "frame", 1, b"")], []),
        ([], [Frame(0, b"")]),
        ([], [Frame(2, b"")]),
    ):
        with pytest.raises(ValueError, match="not the next"):
            packer.add(entries, frames)
    packer.add([Entry(2, "frame", 1, b"")], [Frame(1, b"")])


def test_the_vocabulary_of_a_version_never_changes():
    """Values that were packed with it lie in Redis."""
    digest = hashlib.blake2b(sealed.VOCABULARY, digest_size=16).hexdigest()
    assert (sealed.VERSION, digest) == (1, "39a9c0fd5d5329678593d72a9b54bd26")


def test_values_of_version_1_are_read():
    value = bytes.fromhex(
        "5253504c01010000007ff1cf4fc2727a8364020000000200000043000000d30000005bfb339ea99f"
        "82caab676060a8c6b27f12b20311b1c511513980ea0753f09e44a49d8e68fb1b8d9076351ae95820"
        "ed6804361f8ccd90f6331ac6d656d7426bc55a02938bc42c7d00aa0100"
    )
    assert read(value) == (
        [
            Entry(1, "request", 1_700_000_000_000, b"{}"),
            Entry(2, "frame", 1_700_000_000_500, b"data: {}", 1, 2),
        ],
        [
            Frame(0, b"event: response.created\ndata: {}\n\n"),
            Frame(1, b"event: response.completed\ndata: {}\n\n", True),
        ],
    )

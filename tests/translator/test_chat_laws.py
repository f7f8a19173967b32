"""Laws over generated streams of a chat upstream."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.translator.chunks import USAGE, Chunk, calls, chat, chunk, fragment

WORDS = st.sampled_from(["a", "bc ", "😀", "\n", '"', "\\"])


@st.composite
def a_call(draw: st.DrawFn, slot: int) -> tuple[tuple[str, str, Any], list[Chunk]]:
    """What a call means, and its fragments in order: split name, late id, cut arguments."""
    name = draw(st.sampled_from(["get_weather", "exec"]))
    value = "".join(draw(st.lists(WORDS, max_size=4)))
    arguments = json.dumps({"input": value}, ensure_ascii=draw(st.booleans()))
    cuts = sorted(draw(st.lists(st.integers(1, len(arguments)), max_size=3)))
    pieces = [
        arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True) if a < b
    ]
    cut = draw(st.integers(0, len(name)))
    heads = [fragment(slot, f"call_{slot}", name)]
    if 0 < cut < len(name):
        heads = [fragment(slot, f"call_{slot}", name[:cut]), fragment(slot, None, name[cut:])]
    meaning = (
        ("custom_tool_call", name, value) if name == "exec" else ("function_call", name, arguments)
    )
    return meaning, [*heads, *(fragment(slot, None, None, piece) for piece in pieces)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[dict[str, str], list[tuple[str, str, Any]], list[Chunk]]:
    """A whole answer: reasoning, text, refusal, then calls whose fragments may interleave."""
    said: dict[str, str] = {}
    chunks: list[Chunk] = []
    for kind, key in (("reasoning", "reasoning"), ("text", "content"), ("refusal", "refusal")):
        words = draw(st.lists(WORDS, max_size=3))
        said[kind] = "".join(words)
        chunks += [chunk(**{key: word}) for word in words]
    made = [draw(a_call(slot)) for slot in range(draw(st.integers(0, 3)))]
    waiting = [list(fragments) for _, fragments in made]
    if draw(st.booleans()):
        chunks += [calls(one) for fragments in waiting for one in fragments]
    else:
        order = [fragments.pop(0) for fragments in waiting]  # appearance in order of slots
        while any(waiting):
            order.append(draw(st.sampled_from([one for one in waiting if one])).pop(0))
        chunks += [calls(one) for one in order]
    return said, [meaning for meaning, _ in made], chunks


@given(streams(), st.sampled_from(["stop", "tool_calls", None]), st.booleans())
def test_any_chat_stream_obeys_the_laws_and_says_what_was_generated(
    stream: Any, finish: Any, usage: bool
) -> None:
    said, meant, chunks = stream
    last = [{"choices": [], "usage": USAGE}] if usage else []
    told = chat(*chunks, chunk(finish), *last)
    assert told.response["status"] == "completed"
    texts = {"reasoning": "", "text": "", "refusal": ""}
    for item in told.output:
        for part in item.get("content", []):
            kind = {"reasoning_text": "reasoning", "output_text": "text"}.get(
                part["type"], "refusal"
            )
            texts[kind] += part.get("text", part.get("refusal"))
    assert texts == said
    found = [
        (i["type"], i["name"], i.get("arguments", i.get("input")))
        for i in told.output
        if "call_id" in i
    ]
    assert found == meant


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": WORDS | st.sampled_from([None, "", 5, [], [{"type": "text", "text": "x"}]]),
        "reasoning": WORDS | st.sampled_from([None, {}, 5]),
        "refusal": WORDS | st.sampled_from([None, 5]),
        "annotations": st.sampled_from([None, [], [5], [{"type": "x"}]]),
        "tool_calls": st.lists(
            st.builds(
                fragment, st.sampled_from([None, 0, 1, "0", -1]), st.sampled_from([None, "", "a", "b", 3]),
                st.sampled_from([None, "", "exec", "get_", "weather", 5]),
                st.sampled_from([None, "", "{", "}", '{"input":"x"}', {}, 5]),
            )
            | st.sampled_from([None, 5, {}]),
            max_size=3,
        ),
    },
)  # fmt: skip


@given(
    st.lists(
        st.builds(
            lambda delta, finish: chunk(finish, **delta),
            FIELDS,
            st.sampled_from([None, "", "stop", "length", 5]),
        ),
        max_size=6,
    ),
    st.sampled_from(["ok", "eof", "reset"]),
)
def test_any_chunks_in_any_order_end_in_one_lawful_stream(chunks: list[Chunk], end: str) -> None:
    chat(*chunks, end=end)

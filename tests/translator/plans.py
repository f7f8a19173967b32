"""Plans of responses with tools, as Hypothesis draws them: few draws each, so that most examples say much."""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.translator.world import CLIENTS, FOUND, TOOLS, Plan, Round, Saying, Server, World, url_of

WORDS = (
    "",
    "a",
    "😀",
    "\u2028",
    '"',
    "\\",
    "\n",
    "x" * 40,
    FOUND,
    *(f"{url_of(f'1.{n}')} " for n in range(4)),
)
"""What texts are made of, and arguments hold; addresses of pages that searches find among them."""
BROKEN = ("", '{"q":', "[1]", "5", "no json", '{"q":"a"} and more')
LABELS = ("alpha", "beta")
MANNERS = [
    (named, closed, pieces)
    for pieces in (1, 2, 3, 100)
    for closed in (True, False)
    for named in ("added", "arguments.done", "item.done")
]
"""When the name of a call comes, whether an item has done events, in how many pieces its text comes."""
WEAVES = ((), (0, 1), (1, 0, 2), (3, 1, 2, 0))
SERVERS = ((), ("alpha",), LABELS)


MOST = 100
"""Examples of one law: each is a whole response, and there are some thirty laws."""


def holds_for(*drawn: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """`given`, with as many examples as the profile says, up to MOST."""
    bounded = settings(max_examples=min(MOST, settings.default.max_examples))
    return lambda law: bounded(given(*drawn)(law))


def pieces_of(whole: str, count: int) -> tuple[str, ...]:
    """A text in about so many pieces."""
    size = max(1, -(-len(whole) // count))
    return tuple(whole[at : at + size] for at in range(0, len(whole), size))


@st.composite
def sayings(draw: st.DrawFn, place: str, whats: list[str]) -> Saying:
    """An item; `whats` are text, thought, and names of tools; `broken` ones have arguments that nobody can run."""
    what, word = draw(st.sampled_from(whats)), draw(st.sampled_from(WORDS))
    named, closed, count = draw(st.sampled_from(MANNERS))
    if what in ("text", "thought"):
        return Saying(what, pieces_of(f"{what} {place} {word}", count), closed=closed)
    name, _, fault = what.partition(" ")
    if fault == "unnamed":
        named, closed = "never", False
    if fault == "broken":
        whole = draw(st.sampled_from(BROKEN))
    else:
        key = "input" if name == "exec" else "query" if name == "web_search" else "q"
        whole = json.dumps({key: place + word}, ensure_ascii=count > 1)
    return Saying("call", pieces_of(whole, count), name, named, closed)


@st.composite
def rounds(
    draw: st.DrawFn,
    number: int,
    ours: list[str],
    *,
    faults: bool,
    mixed: bool,
) -> Round:
    """Mostly calls of the gateway's tools, so that another round follows."""
    whats = ["text", "thought", *ours, *ours]
    if mixed and draw(st.sampled_from([False, False, True])):
        whats += CLIENTS
    if faults:
        whats += [f"{name} broken" for name in ours[:2]]
        whats += ["exec unnamed"] if draw(st.sampled_from([False] * 7 + [True])) else []
    count = draw(st.sampled_from([1, 2, 3, 4]))
    ends = ["completed"] * 24 + (["incomplete", "failed", "eof", "http"] if faults else [])
    return Round(
        tuple([draw(sayings(f"{number}-{at}", whats)) for at in range(count)]),
        draw(st.sampled_from(ends)),
        draw(st.sampled_from([None, 1, 10])),
        draw(st.sampled_from(WEAVES)),
    )


@st.composite
def plans(draw: st.DrawFn, *, faults: bool = False, mixed: bool = True) -> Plan:
    """A response of one to four rounds; with `faults` servers cannot be listed, calls are broken, caps are low."""
    approvals = ["never"] * 5 + ["always"] if mixed else ["never"]
    servers = tuple(
        Server(
            label,
            not faults or draw(st.sampled_from([True, True, True, False])),
            draw(st.sampled_from(approvals)),
        )
        for label in draw(st.sampled_from(SERVERS))
    )
    search = not servers or draw(st.sampled_from([True, True, False]))
    ours = ["web_search"] * search
    ours += [f"@{server.label}/{tool}" for server in servers if server.lists for tool in TOOLS]
    body = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "background": st.just(True),
                "include": st.just(["web_search_call.action.sources"]),
                **({"max_tool_calls": st.sampled_from([1, 2, 3])} if faults else {}),
                "tool_choice": st.sampled_from(["auto", "required"]),
            },
        )
    )
    if faults and draw(st.sampled_from([False] * 9 + [True])):
        body["_max_response_bytes"] = draw(st.sampled_from(range(2_000, 12_000, 500)))
    count = draw(st.sampled_from([2, 1, 3]))
    return Plan(
        rounds=tuple(
            [draw(rounds(n, ours, faults=faults, mixed=mixed)) for n in range(1, count + 1)]
        ),
        servers=servers,
        search=search,
        api=draw(st.sampled_from(["responses", "responses", "chat"])),
        outcomes=draw(st.sampled_from([(True,), (True, False), (False, True, True)])),
        approvals=draw(st.sampled_from([(), (), (True,), (True, False), (False,)])),
        max_rounds=draw(st.sampled_from([10, 10, 2, 1])) if faults else 10,
        body=tuple(body.items()),
    )


@st.composite
def troubled(draw: st.DrawFn) -> Plan:
    """A plan with faults that a cancel, losses of the upstream's reader and meaningless entries come into."""
    places = st.sampled_from([*[()] * 60, *((at,) for at in range(3, 40)), (5, 6, 7), (9, 14)])
    plan = draw(plans(faults=True))
    return replace(
        plan,
        cancel_at=draw(st.sampled_from([*[None] * 120, *range(1, 41)])),
        reason=draw(st.sampled_from(["client", "abandoned", "deadline"])),
        losses=frozenset(draw(places)),
        noise=frozenset(draw(places)),
    )


ORDERS = st.randoms(use_true_random=False)
QUIET = plans()
"""Plans in which nothing goes wrong but tools."""


def run(plan: Plan, order: Random | None = None) -> World:
    return World(plan, order.randrange if order else lambda _: 0).run()

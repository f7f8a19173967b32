"""Places in traces, and who takes spans."""

import pytest

from streams.tracing import Span, Trace, Tracing

ID, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def tracing():
    made = Tracing()
    made.start(lambda _: None, ratio=1.0)
    return made


def test_what_the_client_began_is_continued_with_its_decision_and_state(tracing):
    for flags, sampled in (("01", True), ("00", False), ("03", True), ("02", False)):
        at = tracing.begin(f"00-{ID}-{SPAN}-{flags}", "vendor=1")
        assert (at.id, at.parent, at.sampled, at.state) == (ID, SPAN, sampled, "vendor=1")
        assert at.span not in (SPAN, "")
        assert at.headers == {
            "traceparent": f"00-{ID}-{at.span}-0{int(sampled)}",
            "tracestate": "vendor=1",
        }


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", "garbage", f"00-{ID}-{SPAN}", f"00-{ID.upper()}-{SPAN}-01"),
        *(f"ff-{ID}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{ID}-{'0' * 16}-01"),
        *(f"00-{ID}-{SPAN}-01-more", f"00-{ID}-{SPAN}-1", f"00-{ID}-{SPAN}-01\n" * 2),
    ],
)
def test_what_is_no_traceparent_begins_a_trace_of_its_own(tracing, header):
    at = tracing.begin(header, "vendor=1")
    assert at.id != ID
    assert (len(at.id), len(at.span), at.parent, at.state) == (32, 16, "", "")
    assert "tracestate" not in at.headers


def test_a_later_version_may_say_more(tracing):
    assert tracing.begin(f"01-{ID}-{SPAN}-01-more", None).id == ID


def test_a_state_that_is_too_long_or_no_text_is_left_out(tracing):
    for state in ("v=" + "x" * 511, "v=\x01", "v=é"):
        assert tracing.begin(f"00-{ID}-{SPAN}-01", state).state == ""


def test_what_is_stored_is_read_again(tracing):
    at = tracing.begin(f"00-{ID}-{SPAN}-01", "vendor=1")
    assert Trace.of(at.stored()) == at
    assert Trace.of(None) is None
    assert Trace.of({"traceparent": "other", "parent": "", "tracestate": ""}) is None


def test_a_child_is_below_its_parent(tracing):
    at = tracing.begin(None, None)
    child = at.child()
    assert (child.id, child.parent) == (at.id, at.span)
    assert child.span != at.span


def test_only_sampled_spans_are_given_to_the_sink_and_none_after_the_end():
    taken, tracing = [], Tracing()
    tracing.start(taken.append, ratio=0.0)
    own = tracing.begin(None, None)
    assert not own.sampled
    continued = tracing.begin(f"00-{ID}-{SPAN}-01", None)
    for at in (own, continued):
        tracing.emit(Span("x", "client", at, 0.0, 1.0, False))
    assert [span.at for span in taken] == [continued]
    tracing.stop()
    tracing.emit(Span("x", "client", continued, 0.0, 1.0, False))
    assert len(taken) == 1
    assert not tracing.on

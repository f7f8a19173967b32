"""Hand-over inside one process: plain calls, in order, to whoever follows."""

from streams.handover import Handover
from translator.protocol.entries import Entry

ENTRY = Entry(4, "frame", 1, b"x")


class Follower:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def entries_appended(self, entries):
        self.heard.append(entries)

    def upstream_opened(self):
        self.heard.append("opened")

    def ingesting_changed(self):
        self.heard.append("ingesting")

    def frames_committed(self, first_seq, frames, terminal):
        self.heard.append((first_seq, frames, terminal))

    def translating_changed(self):
        self.heard.append("translating")


def test_followers_of_a_response_hear_its_log_and_nobody_else_does():
    handover, one, two, other = Handover(), Follower(), Follower(), Follower()
    handover.subscribe_output("a", one)
    handover.subscribe_output("a", two)
    handover.subscribe_output("b", other)
    handover.publish_output("a", 3, [b"x"], False)
    assert one.heard == two.heard == [(3, [b"x"], False)]
    assert other.heard == []


def test_input_and_output_are_apart():
    handover, reader, fold = Handover(), Follower(), Follower()
    handover.subscribe_output("a", reader)
    handover.subscribe_input("a", fold)
    handover.publish_input("a", [ENTRY])
    assert (reader.heard, fold.heard) == ([], [[ENTRY]])


def test_that_an_upstream_has_opened_is_told_to_who_follows_the_input():
    handover, reader, fold = Handover(), Follower(), Follower()
    handover.subscribe_output("a", reader)
    handover.subscribe_input("a", fold)
    handover.publish_opened("a")
    handover.publish_opened("b")
    assert (reader.heard, fold.heard) == ([], ["opened"])


def test_who_left_hears_nothing_more_even_when_it_leaves_while_it_is_told():
    handover, stays = Handover(), Follower()

    class Leaves(Follower):
        def entries_appended(self, entries):
            super().entries_appended(entries)
            handover.unsubscribe_input("a", self)

    leaves = Leaves()
    handover.subscribe_input("a", leaves)
    handover.subscribe_input("a", stays)
    handover.publish_input("a", [ENTRY])
    handover.publish_input("a", [ENTRY])
    handover.unsubscribe_input("a", leaves)
    assert (len(leaves.heard), len(stays.heard)) == (1, 2)


def test_who_holds_a_log_is_known_and_told():
    handover, follower = Handover(), Follower()
    handover.subscribe_input("a", follower)
    handover.subscribe_output("a", follower)
    assert not handover.ingesting("a")
    assert not handover.translating("a")
    handover.begin_ingesting("a")
    handover.begin_translating("a")
    assert handover.ingesting("a")
    assert handover.translating("a")
    assert not handover.translating("b")
    handover.end_translating("a")
    handover.end_ingesting("a")
    handover.end_ingesting("a")
    assert not handover.ingesting("a")
    assert not handover.translating("a")
    assert follower.heard == ["ingesting", "translating", "translating", "ingesting", "ingesting"]


def test_nothing_is_kept_of_a_response_that_nobody_follows():
    handover = Handover()
    follower = Follower()
    handover.subscribe_input("a", follower)
    handover.unsubscribe_input("a", follower)
    handover.unsubscribe_input("a", follower)
    handover.publish_input("a", [ENTRY])
    handover.begin_translating("a")
    handover.end_translating("a")
    assert not any(vars(handover).values())


def test_who_translates_a_response_is_asked_what_its_frames_lead_to():
    handover, seer = Handover(), Seeing()
    assert handover.seer("a") is None
    handover.begin_translating("a", seer)
    handover.begin_translating("b")
    assert handover.seer("a") is seer
    assert handover.seer("b") is None
    handover.end_translating("a")
    assert handover.seer("a") is None


class Seeing:
    """A translator that foresees nothing."""

    def settles(self, _then) -> bool:
        return False

    def foresee(self, frames):
        del frames

    def foreseen(self, reply) -> bool:
        del reply
        return False

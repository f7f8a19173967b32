import asyncio

from workers.slices import Slices


async def test_one_slice_a_turn_in_turn():
    slices, order, turns = Slices(), [], []

    def work(name: str, times: int) -> None:
        order.append((name, len(turns)))
        if times:
            slices.add(lambda: work(name, times - 1))

    slices.add(lambda: work("a", 2))
    slices.add(lambda: work("b", 2))
    while len(order) < 6:
        await asyncio.sleep(0)
        turns.append(1)
    assert [name for name, _ in order] == ["a", "b", "a", "b", "a", "b"]
    assert len({turn for _, turn in order}) == 6  # somebody else had the loop between any two


async def test_one_that_fails_does_not_hold_up_the_others():
    slices, done = Slices(), asyncio.Event()
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))

    def broken() -> None:
        raise ZeroDivisionError

    slices.add(broken)
    slices.add(done.set)
    await asyncio.wait_for(done.wait(), 1)
    assert isinstance(heard[0]["exception"], ZeroDivisionError)

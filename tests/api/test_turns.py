"""Creates that come at once begin a few at a time, and others get the loop in between."""

import asyncio

from api.turns import AT_ONCE, Turns


async def test_a_few_begin_at_once_and_the_others_in_later_turns_in_their_order():
    turns, began = Turns(), []
    in_between: list[int] = []

    async def create(number: int) -> None:
        await turns.mine()
        began.append(number)

    async def other() -> None:
        while len(began) < 3 * AT_ONCE:
            in_between.append(len(began))
            await asyncio.sleep(0)

    await asyncio.gather(*(create(number) for number in range(3 * AT_ONCE)), other())
    assert began == list(range(3 * AT_ONCE))
    assert set(in_between) >= {AT_ONCE, 2 * AT_ONCE}


async def test_nobody_waits_where_creates_come_one_by_one():
    turns = Turns()
    for _ in range(3 * AT_ONCE):
        creating = turns.mine()
        try:
            creating.send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("it waited")
        await asyncio.sleep(0)


async def test_a_create_whose_client_left_takes_no_turn():
    turns, began = Turns(), []

    async def create(number: int) -> None:
        await turns.mine()
        began.append(number)

    creating = [asyncio.ensure_future(create(number)) for number in range(2 * AT_ONCE)]
    await asyncio.sleep(0)
    for leaving in creating[AT_ONCE:-1]:
        leaving.cancel()
    await asyncio.wait(creating)
    assert began == [*range(AT_ONCE), 2 * AT_ONCE - 1]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert turns._left == AT_ONCE

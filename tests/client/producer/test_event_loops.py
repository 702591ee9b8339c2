"""A producer in another event loop than the one it was started in: refused at once; it waited for ever."""

import asyncio
import threading

import pytest
from evidence.world.client import ScriptedBroker, producer

from oncelog import errors

CALLS = {
    "send": lambda p: p.send("t", b"v"),
    "send_and_wait": lambda p: p.send_and_wait("t", b"v"),
    "send_many": lambda p: p.send_many("t", [(b"k", b"v")]),
    "flush": lambda p: p.flush(),
    "partitions_for": lambda p: p.partitions_for("other"),
    "stop": lambda p: p.stop(),
}
NOW = {
    "send_soon": lambda p: p.send_soon(),
    "purge": lambda p: p.purge(),
}
ENDS = {
    "begin_transaction": lambda p: p.begin_transaction(),
    "commit_transaction": lambda p: p.commit_transaction(),
    "abort_transaction": lambda p: p.abort_transaction(),
    "prepare_transaction": lambda p: p.prepare_transaction(),
}


def elsewhere(work):
    """Run the coroutine function in a thread with a loop of its own, while this loop goes on."""
    return asyncio.to_thread(lambda: asyncio.run(work()))


async def refused(call):
    with pytest.raises(errors.IllegalState, match="another event loop"):
        found = call()
        if asyncio.iscoroutine(found):
            await asyncio.wait_for(found, 5)


@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_what_waits_is_refused(transactional_id):
    async def work():
        async with producer(ScriptedBroker(), linger_ms=60_000, transactional_id=transactional_id) as p:
            if transactional_id:
                p.begin_transaction()
            delivery = await p.send("t", b"mine", partition=0)

            async def there():
                for call in {**CALLS, **NOW, **(ENDS if transactional_id else {})}.values():
                    await refused(lambda call=call: call(p))
                await refused(lambda: delivery.add_done_callback(print))
                with pytest.raises(errors.IllegalState, match="another event loop"):
                    await delivery

            await elsewhere(there)
            if transactional_id:
                await p.commit_transaction()
            await p.flush()
            assert (await delivery).offset == 0

    asyncio.run(work())


def test_without_any_loop_too():
    async def work():
        async with producer(ScriptedBroker()) as p:
            told = []

            def there():
                for call in NOW.values():
                    try:
                        call(p)
                    except errors.IllegalState as error:
                        told.append(str(error))

            thread = threading.Thread(target=there)
            thread.start()
            await asyncio.to_thread(thread.join)
            assert len(told) == len(NOW)

    asyncio.run(work())


def test_one_that_was_never_started_may_be_stopped_anywhere():
    p = producer(ScriptedBroker())
    asyncio.run(p.stop())

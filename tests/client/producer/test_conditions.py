"""What a broker knows of a commit whose answer was lost: asked of a real one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from oncelog import Broker, Producer
from oncelog.client.producer.conditions import why_not_yet
from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_transactions import DescribeTransactionsResponse, TransactionState


def test_a_transaction_has_ended_where_its_epoch_is_over_or_its_id_was_forgotten():
    """A coordinator forgets only an id that is in no transaction."""

    async def work():
        async with (
            Broker(config={"transaction.state.log.num.partitions": "1"}) as broker,
            Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="p") as p,
        ):
            async with p.transaction():
                await (await p.send("t", b"x", partition=0))
                open_identity = p._manager.identity
                connection = await p._sender._cluster.connection(p._manager.coordinator)

                async def why(transactional_id):
                    manager = SimpleNamespace(transactional_id=transactional_id, identity=open_identity)
                    return await why_not_yet(connection, manager, timeout_ms=5000)

                assert await why("p") == ErrorCode.OPERATION_NOT_ATTEMPTED
                assert await why("never-seen") == ErrorCode.NONE
            assert await why("p") == ErrorCode.NONE

    asyncio.run(work())


def test_an_error_of_the_description_is_the_commits_own():
    """Who was asked until max_block_ms, in vain, was told nothing of it."""

    def answered(*states):
        async def request(_message, *, timeout_ms):
            return DescribeTransactionsResponse(transaction_states=list(states)), timeout_ms

        manager = SimpleNamespace(transactional_id="p", identity=(1, 0))
        return asyncio.run(why_not_yet(SimpleNamespace(request=request), manager, timeout_ms=5000))

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert answered(TransactionState(error_code=code, transactional_id="p")) == code
    assert answered() == ErrorCode.COORDINATOR_NOT_AVAILABLE

"""A mistake in what is done to a reply ends the connection of its request; who commits goes on."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import Client, ConnectionClosed, broker_and_client, run

from oncelog.broker.requests.completion import finished
from oncelog.broker.requests.request import Later, Request
from oncelog.core.access import checks
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.core.access.passage import Passage
from oncelog.host.tasks import Tasks
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def breaks(_reply):
    raise ValueError("planted")


def offset_commit():
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    return OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics, retention_time_ms=-1
    )


@pytest.mark.parametrize("api_key", [ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.END_TXN])
def test_a_mistake_after_a_commit_ends_one_connection(tmp_path, monkeypatch, api_key):
    """An access rule's last word on a reply is said when the records are committed, for everybody at once."""

    async def main():
        settings = {
            "authorizer_class_name": STANDARD_AUTHORIZER,
            "allow_everyone_if_no_acl_found": "true",
        }
        async with broker_and_client(tmp_path, **settings) as (broker, client):
            await client.create("t")
            producer = await client.init("x")
            await client.produce("t", "a", producer=producer, sequence=0, transactional_id="x")
            monkeypatch.setitem(
                checks.CHECKS, api_key, lambda _caller, message, _version: Passage(message, None, breaks)
            )
            other = await Client.connect(broker)
            with pytest.raises(ConnectionClosed):
                if api_key is ApiKey.PRODUCE:
                    await other.produce("t", "b")
                elif api_key is ApiKey.OFFSET_COMMIT:
                    await other.call(offset_commit(), 8)
                else:
                    await other.end("x", producer, commit=True)
            assert broker.metrics.count("handler_failures") == 1
            assert broker.is_ready
            monkeypatch.undo()
            await client.produce("t", "c")
            assert (await client.call(offset_commit(), 8)).topics[0].partitions[0].error_code == 0

    run(main())


def test_who_gives_the_reply_hears_nothing_of_it():
    heard, reported = [], []

    class Asker:
        tasks = None
        given = heard.append

        def failed(self, error):
            heard.append(error)

    async def main():
        asker = Asker()
        asker.tasks = Tasks(reported.append)
        later = Later()
        finished(Request(ApiKey.PRODUCE, 0, 0, "", None, asker), later, breaks).listen(asker)
        later.give("reply")
        assert heard == []
        await asyncio.sleep(0)
        assert heard == reported
        assert [type(error) for error in heard] == [ValueError]

    asyncio.run(main())

"""Every served API in every advertised version: empty requests are answered, random ones never break anything."""

import asyncio
from random import Random

import pytest
from evidence.world.broker import Client, ConnectionClosed, broker_and_client, run
from evidence.world.message_values import message_of

from oncelog.broker.handlers import MODULES, version_max
from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.messages.api_versions import ApiVersionsRequest

NOT_ANSWERED = {ApiKey.PRODUCE}  # an empty Produce has acks=0


@pytest.mark.parametrize("key", sorted(set(MODULES) - NOT_ANSWERED), ids=lambda key: key.name)
def test_an_empty_request_is_answered_in_every_version(tmp_path, key):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            for version in range(APIS[key].min_version, version_max(broker.metadata, key) + 1):
                reply = await client.call(APIS[key].request(), version)
                assert type(reply) is APIS[key].response

    run(work())


@pytest.mark.parametrize("key", sorted(MODULES), ids=lambda key: key.name)
def test_random_requests_are_answered_or_refused_and_break_nothing(tmp_path, key):
    async def work():
        faults = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
        random = Random(key)
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            for version in range(APIS[key].min_version, version_max(broker.metadata, key) + 1):
                for _ in range(4):
                    other = await Client.connect(broker)
                    message = message_of(APIS[key].request, version, random)
                    if key is ApiKey.CREATE_TOPICS:
                        message.validate_only = True  # thousands of partitions are allowed, and slow
                    other.send(message, version)
                    try:
                        async with asyncio.timeout(0.05):
                            await other.receive()
                    except (TimeoutError, ConnectionClosed):
                        pass
                    other.close()
            assert (await client.call(ApiVersionsRequest(), 0)).error_code == ErrorCode.NONE
            assert broker.metrics.count("handler_failures") == 0
            assert faults == []

    run(work())

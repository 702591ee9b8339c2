"""Questions for every broker, one of which stands still: what the others say is told all the same, and who said nothing."""

from __future__ import annotations

import pytest
from evidence.world.broker import broker_and_client, one_more_that_stands_still, run

from oncelog import Admin, Producer
from oncelog.errors import InvalidArgument, RequestTimedOut, TransactionalIdNotFound

TIMEOUTS = {"default_api_timeout_ms": 3_000, "request_timeout_ms": 500}


@pytest.mark.parametrize("question", ["list_transactions", "list_groups"])
def test_the_others_are_listed_where_the_caller_asks_who_was_silent(tmp_path, question):
    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Producer(transactional_id="t", **servers) as producer, producer.transaction():
                await producer.send("x", b"1")
            async with Admin(**servers) as admin:
                await admin.alter_consumer_group_offsets("g", {("x", 0): 1})
            with one_more_that_stands_still():
                async with Admin(**servers, **TIMEOUTS) as admin:
                    unreachable = {}
                    found = await getattr(admin, question)(unreachable=unreachable)
                    assert [getattr(each, "transactional_id", None) or each.group_id for each in found] == [
                        "t" if question == "list_transactions" else "g"
                    ]
                    assert [(node.node_id, type(error)) for node, error in unreachable.items()] == [
                        (2, RequestTimedOut)
                    ]
                for wrong in ([], 0, "x", set(), dict):
                    with pytest.raises(InvalidArgument, match="unreachable"):
                        await getattr(admin, question)(unreachable=wrong)
            async with Admin(**servers) as admin:
                assert await getattr(admin, question)(unreachable=unreachable) == found
                assert unreachable == {}, "whoever is back is not in it any more"

    run(work())


@pytest.mark.parametrize(("alone", "options"), [(False, {}), (True, {"unreachable": {}})])
def test_one_that_is_silent_is_an_error_where_nobody_asked_and_where_nobody_answers(tmp_path, alone, options):
    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            with one_more_that_stands_still(alone=alone):
                async with Admin(bootstrap_servers=broker.bootstrap_servers, **TIMEOUTS) as admin:
                    with pytest.raises(RequestTimedOut):
                        await admin.list_groups(**options)

    run(work())


@pytest.mark.parametrize("question", ["describe_transactions", "describe_groups"])
def test_what_the_others_coordinate_is_described_where_the_caller_asks_who_was_silent(tmp_path, question):
    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Producer(transactional_id="a", **servers) as producer, producer.transaction():
                await producer.send("x", b"1")
            async with Admin(**servers) as admin:
                await admin.alter_consumer_group_offsets("a", {("x", 0): 1})
                with one_more_that_stands_still(coordinates=["b"]):
                    async with Admin(**servers, **TIMEOUTS) as hurried:
                        ask, silent = getattr(hurried, question), {}
                        assert list(await ask(["a", "b"], unreachable=silent)) == ["a"]
                        assert [(node.node_id, type(why)) for node, why in silent.items()] == [(2, RequestTimedOut)]
                        with pytest.raises(RequestTimedOut):
                            await ask(["a", "b"])
                        with pytest.raises(RequestTimedOut):
                            await ask(["b"], unreachable=silent)
                        if question == "describe_transactions":  # somebody's silence excuses no id that is not there
                            with pytest.raises(TransactionalIdNotFound, match="'c'"):
                                await ask(["a", "b", "c"], unreachable=silent)
                assert list(await getattr(admin, question)(["a"], unreachable=silent)) == ["a"]
                assert silent == {}, "whoever is back is not in it any more"

    run(work())


@pytest.mark.parametrize("question", ["list_transactions", "list_groups", "describe_groups"])
def test_who_takes_a_connection_and_says_nothing_is_not_asked_again_and_again(tmp_path, question):
    """It is given up as soon as its connection is, not when the whole time is over."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Admin(**servers) as admin:
                await admin.create_topics(["x"])
                await admin.alter_consumer_group_offsets("a", {("x", 0): 1})
            with one_more_that_stands_still(coordinates=["b"]):
                async with Admin(**servers, socket_connection_setup_timeout_ms=500) as admin:
                    silent = {}
                    arguments = [["a", "b"]] if question.startswith("describe") else []
                    await getattr(admin, question)(*arguments, unreachable=silent)
                    (error,) = silent.values()
                    assert str(error).endswith("within 500 ms")

    run(work())

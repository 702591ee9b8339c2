"""What is made of what a handler gives."""

from __future__ import annotations

from faststream.response import PublishType, Response

from oncelog.faststream import OncelogPublishCommand, OncelogResponse


def command(*bodies, **more):
    return OncelogPublishCommand(*bodies, topic="out", _publish_type=PublishType.PUBLISH, **more)


def test_a_response_brings_what_kafka_has_beside_a_body():
    response = OncelogResponse("1", key=b"k", partition=2, timestamp_ms=3, headers={"a": "b"}, correlation_id="c")
    made = response.as_publish_command()
    assert (made.body, made.key, made.partition, made.timestamp_ms) == ("1", b"k", 2, 3)
    assert (made.headers, made.correlation_id, made.destination) == ({"a": "b"}, "c", "")
    assert response.get_publish_key() == b"k"
    assert OncelogPublishCommand.from_cmd(made) is made


def test_a_plain_response_becomes_a_command_too():
    made = OncelogPublishCommand.from_cmd(Response([1, 2], headers={"a": "b"}).as_publish_command())
    assert (made.body, made.batch_bodies, made.headers, made.key) == ([1, 2], ([1, 2],), {"a": "b"}, None)


def test_a_batch_is_as_many_as_a_list_has():
    def bodies(given):
        return OncelogPublishCommand.from_cmd(command(given), batch=True).batch_bodies

    assert bodies([1, 2, 3]) == (1, 2, 3)
    assert bodies((1,)) == (1,)
    assert bodies("text") == ("text",)
    assert bodies([]) == bodies(None) == ()


def test_each_of_a_batch_has_its_own_and_else_the_batchs():
    batch = command(0, key="all", partition=1, headers={"a": "1", "b": "1"}, correlation_id="c")
    own = batch.of_body(
        OncelogResponse("x", key="k", partition=0, timestamp_ms=5, headers={"b": "2"}, correlation_id="d")
    )
    assert (own.body, own.key, own.partition, own.timestamp_ms) == ("x", "k", 0, 5)
    assert (own.headers, own.correlation_id, own.destination) == ({"a": "1", "b": "2"}, "d", "out")
    plain = batch.of_body("y")
    assert (plain.body, plain.key, plain.partition, plain.correlation_id) == ("y", "all", 1, "c")


def test_headers_are_bytes_and_what_is_given_wins():
    made = command(
        "x", headers={"a": "ä", "b": b"\xff", "content-type": "mine"}, correlation_id="c", reply_to="answers"
    )
    assert dict(made.headers_with("text/plain")) == {
        "content-type": b"mine",
        "correlation_id": b"c",
        "reply_to": b"answers",
        "a": "ä".encode(),
        "b": b"\xff",
    }
    assert command("x").headers_with(None) == []

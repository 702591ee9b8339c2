"""Arguments at the door: what is taken, what is refused, and that the text says what to do."""

from __future__ import annotations

import pytest

from oncelog.client import arguments
from oncelog.errors import InvalidArgument
from oncelog.types import OffsetAndMetadata, PreparedTxnState, TopicPartition

HERE = TopicPartition("t", 0)


class Seven:
    """As numpy's numbers: none of Python's, but one without loss."""

    def __index__(self):
        return 7


@pytest.mark.parametrize(
    ("taken", "result"),
    [
        (arguments.text("x", "ä"), "ä"),
        (arguments.texts("x", "name"), ["name"]),
        (arguments.texts("x", {"b"}), ["b"]),
        (arguments.texts("x", {"b": 1}), ["b"]),
        (arguments.texts("x", (name for name in "ab")), ["a", "b"]),
        (arguments.integer("x", 2**31 - 1), 2**31 - 1),
        (arguments.integer("x", Seven()), 7),
        (arguments.integer_or_none("x", None), None),
        (arguments.topic_partition("x", ("t", 0)), HERE),
        (arguments.topic_partition("x", TopicPartition("t", Seven())), TopicPartition("t", 7)),
        (arguments.topic_partitions("x", {HERE: 7}), [HERE]),
        (arguments.offsets("x", {("t", 0): 5}), {HERE: OffsetAndMetadata(5)}),
        (arguments.offsets("x", {HERE: OffsetAndMetadata(5, "m", 2)}), {HERE: OffsetAndMetadata(5, "m", 2)}),
        (arguments.offsets("x", {HERE: OffsetAndMetadata(Seven(), "m")}), {HERE: OffsetAndMetadata(7, "m")}),
        (arguments.numbers_by_partition("x", {HERE: -1}, low=-1), {HERE: -1}),
        (arguments.text_mapping("x", {"a": None}), {"a": None}),
    ],
)
def test_what_is_right_is_taken(taken, result):
    assert taken == result


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: arguments.text("topic", b"t"), "topic must be text, not b't' (bytes): decode it first"),
        (lambda: arguments.text("topic", None), "topic must be text, not None"),
        (lambda: arguments.text("topic", "\ud800"), "topic must be text that can be encoded"),
        (lambda: arguments.text("topic", "ä" * 20_000), "text of at most 32767 bytes"),
        (lambda: arguments.texts("topics", b"t"), "topics must be a list (of several), not b't'"),
        (lambda: arguments.texts("topics", ["a", 1]), "topics[1] must be text, not 1 (int)"),
        (lambda: arguments.integer("n", True), "n must be a whole number, not True (bool)"),
        (lambda: arguments.integer("n", int), "n must be a whole number, not <class 'int'> (type)"),
        (lambda: arguments.integer("n", 2**31), "n must be from 0 to 2147483647"),
        (lambda: arguments.duration_ms("timeout_ms", 0.5), "not 0.5 (float): it is in whole milliseconds"),
        (lambda: arguments.duration_ms("timeout_ms", -1), "timeout_ms must be from 0"),
        (lambda: arguments.boolean("force", "false"), "force must be True or False, not 'false' (str)"),
        (lambda: arguments.one_of("kind", ["topic"], ("topic", "group")), "kind must be one of topic, group"),
        (lambda: arguments.topic_partition("partition", 0), "partition must be a TopicPartition, not 0 (int)"),
        (lambda: arguments.topic_partition("partition", ("t", "0")), "the partition of partition must be a whole"),
        (lambda: arguments.topic_partitions("partitions", HERE), "put it into [ ]"),
        (lambda: arguments.offsets("offsets", [HERE]), "offsets must be a mapping of TopicPartitions to offsets"),
        (lambda: arguments.offsets("offsets", {HERE: -1}), "offsets[t-0] must be from 0 to"),
        (lambda: arguments.offsets("offsets", {HERE: OffsetAndMetadata(1, b"m")}), "the metadata of offsets[t-0]"),
        (lambda: arguments.instance("x", "1:2", TopicPartition), "x must be a TopicPartition, not '1:2' (str)"),
    ],
)
def test_what_is_wrong_is_told_with_its_name(call, says):
    with pytest.raises(InvalidArgument) as refused:
        call()
    assert says in str(refused.value)
    assert isinstance(refused.value, TypeError)
    assert isinstance(refused.value, ValueError)


def test_a_long_value_is_cut():
    assert len(str(arguments.refuse("x", "y" * 2000, "short"))) < 130


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("producer_id", int),
        ("producer_id", "7"),
        ("producer_id", -5),
        ("producer_epoch", 1 << 15),
        ("producer_epoch", None),
    ],
)
def test_a_prepared_state_that_was_meddled_with_is_refused(name: str, value: object) -> None:
    state = PreparedTxnState.of(7, 0)
    assert arguments.prepared_state("state", state) is state
    assert arguments.prepared_state("state", PreparedTxnState("")).is_none
    object.__setattr__(state, name, value)
    with pytest.raises(InvalidArgument, match="state must be a producer id and an epoch"):
        arguments.prepared_state("state", state)
    with pytest.raises(InvalidArgument, match=r"PreparedTxnState.text. reads it"):
        arguments.prepared_state("state", "7:0")


def test_a_topic_that_can_be_none_is_told_at_once() -> None:
    assert arguments.topic_name("topic", "a.b") == "a.b"
    for wrong in ("", "a b", "x" * 300):
        with pytest.raises(InvalidArgument, match="can be no topic's name"):
            arguments.topic_name("topic", wrong)

"""Which option goes where, and what is refused at the door."""

from __future__ import annotations

import pytest

from oncelog import Processor
from oncelog import sync as sync_client
from oncelog.client.processing.options import client_options, transactional_id
from oncelog.errors import ConfigurationError, InvalidArgument
from oncelog.host.randomness import RealRandom
from oncelog.recipes import SqliteDatabase, sync

RANDOM = RealRandom()


def sync_made(**more):
    return sync_client.Processor("in", **{"group_id": "g", "transform": lambda record, database: None, **more})


def made(**more):
    return Processor("in", **{"group_id": "g", "transform": lambda record: None, **more})


WRITER = sync.DualWriter(SqliteDatabase(":memory:"), transactional_id="w")


@pytest.mark.parametrize(
    "option",
    [{"compression_type": "zstd"}, {"linger_ms": 5}, {"transactional_id": "x"}, {"transaction_timeout_ms": 5000}],
)
def test_what_is_the_writers_to_decide_is_refused(option):
    with pytest.raises(ConfigurationError, match=f"process: {next(iter(option))} is the writer's to decide"):
        sync_made(writer=WRITER, **option)


def test_a_transform_beside_a_writer_takes_the_databases_handle():
    with pytest.raises(InvalidArgument, match=r"is called with .a record, the database's handle.: too many"):
        sync_client.Processor("in", group_id="g", transform=lambda record: None, writer=WRITER)


def test_a_function_whose_parameters_nobody_knows_is_taken():
    made(transform=print)
    made(transform=bytes)


def test_what_the_consumer_takes_too_is_taken_beside_a_writer():
    sync_made(writer=WRITER, bootstrap_servers="h:1", client_id="c", max_poll_records=5)


def test_options_go_to_the_client_that_knows_them_or_to_both():
    options = client_options(
        "g",
        {"bootstrap_servers": "h:1", "max_poll_records": 7, "compression_type": "lz4", "sasl_username": "u"},
        RANDOM,
    )
    assert options.consumer["max_poll_records"] == 7
    assert "max_poll_records" not in options.producer
    assert options.producer["compression_type"] == "lz4"
    assert options.consumer["bootstrap_servers"] == options.producer["bootstrap_servers"] == "h:1"
    assert options.consumer["sasl_username"] == options.producer["sasl_username"] == "u"


def test_what_exactly_once_needs_is_set():
    options = client_options("g", {}, RANDOM)
    assert options.consumer == {
        "group_id": "g",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "partition_assignment_strategy": "cooperative-sticky",
    }
    assert options.producer["transaction_timeout_ms"] == 10_000
    assert options.chooses_id


def test_a_member_with_a_name_has_a_transactional_id_of_it_and_one_without_a_new_one():
    assert transactional_id("g", "node-7", RANDOM) == "g-node-7"
    assert transactional_id("g", None, RANDOM) != transactional_id("g", None, RANDOM)
    named = client_options("g", {"group_instance_id": "node-7"}, RANDOM)
    assert (named.producer["transactional_id"], named.chooses_id) == ("g-node-7", False)
    told = client_options("g", {"transactional_id": "mine", "group_instance_id": "node-7"}, RANDOM)
    assert (told.producer["transactional_id"], told.chooses_id) == ("mine", False)


def test_the_consumer_protocol_takes_no_strategy():
    assert "partition_assignment_strategy" not in client_options("g", {"group_protocol": "consumer"}, RANDOM).consumer


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"enable_auto_commit": True}, "enable_auto_commit is not taken: positions are committed in the transactions"),
        ({"isolation_level": "read_uncommitted"}, "the input is read_committed"),
        ({"transaction_two_phase_commit_enable": True}, "give a DualWriter as `writer`"),
        ({"bootstrap_server": "h:1"}, "process: unknown option 'bootstrap_server'; did you mean 'bootstrap_servers'"),
        ({"value_serializer": 5}, "value_serializer=5: expected a function"),
        ({"auto_offset_reset": "somewhere"}, "auto_offset_reset=somewhere"),
        ({"compression_type": "rar"}, "compression_type=rar"),
    ],
)
def test_a_wrong_key_is_told_before_anything_is_opened(options, says):
    with pytest.raises(ConfigurationError, match=says):
        made(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"transform": None}, "give one of transform and transform_batch"),
        ({"transform_batch": lambda records: None}, "give one of transform and transform_batch"),
        ({"transform": 5}, "transform must be a function"),
        ({"transform": lambda: None}, "the transform is called with .a record.: too many positional arguments"),
        ({"transform": lambda record, more: None}, r"the transform is called with .a record.: missing .* 'more'"),
        ({"transform": None, "transform_batch": lambda: None}, "the transform is called with .the records.: too many"),
        ({"transaction_records_max": 0}, "transaction_records_max must be from 1"),
        ({"transaction_interval_ms": 1.5}, "transaction_interval_ms must be a whole number"),
        ({"transform_timeout_ms": 0}, "transform_timeout_ms must be from 1"),
        ({"concurrency": 0}, "concurrency must be from 1"),
        ({"until_end": "yes"}, "until_end must be True or False"),
        ({"permanent_errors": [5]}, "permanent_errors must be classes of exceptions"),
        ({"writer": object()}, "writer must be a started oncelog.recipes.DualWriter"),
        ({"writer": WRITER}, "writer must be a writer of the same kind, .*: here oncelog.recipes.DualWriter"),
        ({"dead_letter_topic": b"dead"}, "dead_letter_topic must be text"),
        (
            {"dead_letter_topic": "in.dead letters"},
            "dead_letter_topic='in.dead letters' can be no topic's name: .*ASCII",
        ),
        ({"into": ""}, "into='' can be no topic's name: the empty string"),
        ({"group_id": None}, "group_id must be text"),
    ],
)
def test_a_wrong_argument_is_told_before_anything_is_opened(options, says):
    with pytest.raises(InvalidArgument, match=says):
        made(**options)


def test_dotted_keys_are_kafkas():
    processor = Processor.from_config({"group.id": "g", "max.poll.records": 3}, "in", transform=lambda record: None)
    assert processor.metrics().group_id == "g"


def test_neither_dead_letters_nor_results_go_where_they_are_read_again():
    with pytest.raises(InvalidArgument, match="dead_letter_topic='in' is read, too"):
        made(dead_letter_topic="in")
    with pytest.raises(InvalidArgument, match="into='in' is read, too"):
        made(into="in")
    with pytest.raises(InvalidArgument, match="stats_cb must be a function"):
        made(stats_cb=5)

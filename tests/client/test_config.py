"""Keys in both spellings, values as text, and errors that name the nearest key."""

import logging

import pytest

from oncelog.client.config import ConsumerConfig, ProducerConfig, ShareConsumerConfig
from oncelog.errors import ConfigurationError
from oncelog.wire.compression import Codec


def test_dotted_keys_and_text_values():
    config = ProducerConfig.of_dotted(
        {
            "bootstrap.servers": "a:1, [::1]:2",
            "linger.ms": "7",
            "enable.idempotence": "true",
            "compression.type": "zstd",
        }
    )
    assert (config.linger_ms, config.is_idempotent, config.compression) == (7, True, (Codec.ZSTD, 3))
    assert config.bootstrap_addresses() == [("a", 1), ("::1", 2)]


def test_what_a_bootstrap_server_speaks_may_stand_before_it_as_in_kafka():
    config = ProducerConfig.of({"bootstrap_servers": "PLAINTEXT://a:1,SSL://[::1]:2,::1:3"})
    assert config.bootstrap_addresses() == [("a", 1), ("::1", 2), ("::1", 3)]


def test_bootstrap_servers_may_be_a_list():
    assert ProducerConfig.of({"bootstrap_servers": ["a:1", "b:2"]}).bootstrap_addresses() == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"linger.s": 1}, "did you mean 'linger_ms'"),
        ({"isolation.level": "read_committed"}, "unknown option 'isolation_level'"),
        ({"linger.ms": "soon"}, "linger_ms='soon': expected int"),
        ({"linger.ms": "1_0"}, "linger_ms='1_0': expected int"),
        ({"linger.ms": 1.5}, "expected int"),
        ({"enable.idempotence": "perhaps"}, "expected bool"),
        ({"bootstrap.servers": "nowhere"}, "expected HOST:PORT"),
        ({"bootstrap.servers": "a:99999"}, "expected HOST:PORT"),
        ({"bootstrap.servers": ""}, "expected HOST:PORT"),
        ({"bootstrap.servers": "a b:1"}, "expected HOST:PORT"),
        ({"bootstrap.servers": "://:1"}, "expected HOST:PORT"),
        ({"compression.type": "rar"}, "expected one of none, gzip"),
        ({"acks": "2"}, "expected all, 1 or 0"),
        ({"acks": "1"}, "needs enable_idempotence=False"),
        ({"transactional.id": ""}, "must not be empty"),
        ({"transactional.id": "t", "enable.idempotence": False}, "transactions need"),
        ({"max.in.flight.requests.per.connection": 6}, "must be 1 to 5"),
        ({"security.protocol": "TLS"}, "expected one of PLAINTEXT"),
        ({"batch.size": -1}, "must be from 0"),
        ({"compression.type": 7}, "expected one of none, gzip"),
        ({"max.in.flight.requests.per.connection": 0, "enable.idempotence": False}, "must be more than 0"),
        ({"metadata.max.age.ms": 0}, "must be more than 0"),
        ({"delivery.timeout.ms": 1000}, "at least linger_ms"),
        ({"transaction.two.phase.commit.enable": True}, "needs a transactional_id"),
        (
            {"transaction.two.phase.commit.enable": True, "transactional.id": "t", "transaction.timeout.ms": 60000},
            "has no meaning with",
        ),
    ],
)
def test_producer_refuses(values, says):
    with pytest.raises(ConfigurationError, match="producer|" + says) as refused:
        ProducerConfig.of_dotted(values)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"isolation.level": "committed"}, "expected one of read_uncommitted, read_committed"),
        ({"auto.offset.reset": "first"}, "expected one of latest"),
        ({"order": "time"}, "expected one of offset, transaction"),
        ({"group.id": ""}, "must not be empty"),
        ({"max.poll.records": 0}, "must be more than 0"),
        ({"fetch.min.bytes": -1}, "must be from 0 to 2147483647"),
        ({"fetch.max.bytes": 2**31}, "must be from 0 to 2147483647"),
        ({"metadata.max.age.ms": 2**63}, f"must be from 0 to {2**63 - 1}"),
        ({"heartbeat.interval.ms": 45000}, "must be less than session_timeout_ms=45000"),
        ({"partition.assignment.strategy": "range, fair"}, "partition_assignment_strategy=fair: expected one of range"),
        ({"partition.assignment.strategy": [None]}, "expected str"),
        ({"bootstrap.servers": ["a:1", 5.5]}, "expected str"),
        ({"client.id": "\ud800"}, "no Unicode text of at most 32767 bytes"),
        ({"group.id": "x" * 40_000}, "xxx: it is no Unicode text of at most 32767 bytes"),
        ({"bootstrap.servers": "a:1,"}, "bootstrap_servers='a:1,': a server is empty, is there a comma too many?"),
        ({"bootstrap.servers": "2001:db8::1"}, "an address of IPv6 stands in brackets"),
        ({"max.poll.records": None}, "expected int"),
        ({"max.poll.records": float("inf")}, "expected int"),
        ({"max.poll.records": [5]}, "expected int"),
    ],
)
def test_consumer_refuses(values, says):
    with pytest.raises(ConfigurationError) as refused:
        ConsumerConfig.of_dotted(values)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 1000, "it was all of a text that is too long"


def test_numbers_of_64_bits_and_strategies_by_name():
    config = ConsumerConfig.of(
        {"metadata_max_age_ms": 2**40, "partition_assignment_strategy": "cooperative-sticky, range"}
    )
    assert (config.metadata_max_age_ms, config.assignment_strategies) == (2**40, ("cooperative-sticky", "range"))


def test_kafkas_keys_without_meaning_are_taken_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        ProducerConfig.of_dotted({"metrics.num.samples": 3})
    assert "metrics_num_samples has no meaning" in caplog.text


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ProducerConfig, "key_serializer"),
        (ProducerConfig, "value_serializer"),
        (ConsumerConfig, "key_deserializer"),
        (ConsumerConfig, "value_deserializer"),
        (ShareConsumerConfig, "value_deserializer"),
    ],
)
def test_a_text_where_a_function_is_expected_is_a_mistake(kind, name, caplog):
    """It was ignored with a warning: only a properties file names Java's classes."""
    with pytest.raises(ConfigurationError, match=f"{name}='json': expected a function"):
        kind.of({"group_id": "g", name: "json"} if kind is not ProducerConfig else {name: "json"})
    with pytest.raises(ConfigurationError, match="expected a function"):
        kind.of_dotted({"group.id": "g", name: "json"} if kind is not ProducerConfig else {name: "json"})
    kind.of_dotted(({"group.id": "g"} if kind is not ProducerConfig else {}) | {name.replace("_", "."): "org.X"})
    assert f"{name} has no meaning" in caplog.text


def test_a_prepared_transaction_is_kept_by_default_with_two_phase_commit():
    two_phase = {"transactional_id": "t", "transaction_two_phase_commit_enable": True}
    assert ProducerConfig.of(two_phase).keeps_prepared
    assert not ProducerConfig.of(two_phase | {"keep_prepared_txn": False}).keeps_prepared
    assert not ProducerConfig.of({"transactional_id": "t"}).keeps_prepared


@pytest.mark.parametrize(
    ("given", "compression"),
    [
        ({}, (Codec.NONE, None)),
        ({"compression.type": "snappy"}, (Codec.SNAPPY, None)),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, (Codec.GZIP, 9)),
        ({"compression.type": "lz4", "compression.gzip.level": 9}, (Codec.LZ4, 0)),
        ({"compression.type": "zstd", "compression.zstd.level": -5}, (Codec.ZSTD, -5)),
    ],
)
def test_a_codec_has_a_level(given, compression):
    assert ProducerConfig.of_dotted({"bootstrap.servers": "h:1", **given}).compression == compression


@pytest.mark.parametrize(
    ("name", "value"), [("gzip", 10), ("gzip", -2), ("lz4", 18), ("lz4", -1), ("zstd", 23), ("zstd", -131_073)]
)
def test_a_level_that_its_codec_does_not_have(name, value):
    with pytest.raises(ConfigurationError, match=f"compression_{name}_level={value} must be from"):
        ProducerConfig.of({"bootstrap_servers": "h:1", f"compression_{name}_level": value})


@pytest.mark.parametrize(
    ("name", "near"),
    [("servers", "'bootstrap_servers'"), ("linger", "'linger_ms'"), ("api_version", None), ("loop", None)],
)
def test_the_nearest_option_is_named_where_one_is_near(name: str, near: str | None):
    with pytest.raises(ConfigurationError) as refused:
        ProducerConfig.of({name: "x"})
    assert str(refused.value).endswith(f"did you mean {near}?" if near else f"unknown option {name!r}")


@pytest.mark.parametrize("name", ["", ".", "a b", "x" * 250])
def test_a_static_members_name_keeps_the_rule_of_topics_names(name):
    with pytest.raises(ConfigurationError, match="group_instance_id="):
        ConsumerConfig.of({"group_id": "g", "group_instance_id": name})
    assert ConsumerConfig.of({"group_id": "g", "group_instance_id": "host-1.a_b"}).group_instance_id == "host-1.a_b"


def test_what_other_clients_say_for_no_batches_and_no_compression():
    config = ProducerConfig.of({"batch_size": 0, "compression_type": None})
    assert (config.batch_size_bytes, config.compression.codec.name) == (1, "NONE")
    assert ProducerConfig.of({"batch_size": 100}).batch_size_bytes == 100

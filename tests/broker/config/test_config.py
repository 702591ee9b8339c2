"""Kafka's keys: parsed, bounded, suggested; server.properties; addresses."""

import pytest

from oncelog.broker.assembly import NEAR_BACKOFF_MS, _gate_config
from oncelog.broker.config.addresses import Address, address_from, advertised_address, listen_addresses
from oncelog.broker.config.config import BrokerConfig, ConfigInvalid, config_from, properties_from, rules
from oncelog.broker.config.unhonoured_keys import is_known_to_kafka
from oncelog.broker.partitions.partition_settings import rules_config
from oncelog.core.access.listeners import NamedAddress
from oncelog.core.leader.gate import GateConfig
from oncelog.core.leader.partition import PartitionConfig
from oncelog.core.metadata.topic_configs import TOPIC_CONFIGS


def test_values_are_typed_and_bounded():
    config, warnings = config_from({"num.partitions": "3", "auto.create.topics.enable": False, "flush.policy": " os "})
    assert (config.num_partitions, config.auto_create_topics_enable, config.flush_policy) == (3, False, "os")
    assert warnings == []
    for values in (
        {"num.partitions": "0"},
        {"num.partitions": "three"},
        {"num.partitions": "9" * 5000},
        {"auto.create.topics.enable": "yes"},
        {"flush.policy": "never"},
        {"num.partitions": "1_0"},
        {"log.cleaner.min.cleanable.ratio": "0_0.5"},
        {
            "offsets.topic.segment.bytes": 4096
        },  # the topic's own rule refuses less than 1 MiB, so it could never be created
        {"transaction.state.log.segment.bytes": 4096},
        {"group.min.session.timeout.ms": 10, "group.max.session.timeout.ms": 5},
        {"journal": "on", "flush.policy": "os"},
        {"oncelog.journal.max.bytes": 0},
        {"journal": "yes"},
    ):
        with pytest.raises(ConfigInvalid, match=next(iter(values)).replace(".", r"\.")):
            config_from(values)


def test_an_unknown_key_gets_a_suggestion_and_a_foreign_one_a_warning():
    with pytest.raises(ConfigInvalid, match=r"did you mean num\.partitions"):
        config_from({"num.partition": 1})
    with pytest.raises(ConfigInvalid, match="unknown"):
        config_from({"num_partitions": 1})
    _, warnings = config_from({"num.io.threads": 8, "ssl.provider": "x"})
    assert len(warnings) == 2


def test_each_line_that_cannot_be_honoured_is_named_at_once():
    """Somebody else's distribution: what has to go should not be found out one start after the other."""
    values = {f"confluent.x{number}": "1" for number in range(30)}
    with pytest.raises(ConfigInvalid) as refused:
        config_from(
            {
                "tls.type": "JKS",
                "authorizer.class.name": "org.example.Authorizer",
                "principal.builder.class": "org.example.Builder",
                "num.partitions": "0",
                "num.partition": "1",
                **values,
            }
        )
    said = str(refused.value)
    for each in (
        "unknown config key 'tls.type': Kafka has none of this name either, take the line out",
        "authorizer.class.name='org.example.Authorizer'",
        "principal.builder.class: oncelog loads no classes",
        "num.partitions=0",
        "unknown config key 'num.partition' (did you mean num.partitions?)",
        "'confluent.x0'",
        "; and 15 more",
    ):
        assert each in said, said
    assert "\n" not in said


def test_broker_id_is_node_id():
    assert config_from({"broker.id": "11"})[0].node_id == 11
    assert config_from({"broker.id": "-1"})[0].node_id == 1
    assert config_from({"broker.id": "3", "node.id": "3"})[0].node_id == 3
    with pytest.raises(ConfigInvalid, match=r"node\.id=4 and broker\.id=3"):
        config_from({"broker.id": "3", "node.id": "4"})


def test_a_list_of_super_users_with_commas_is_named():
    _, warnings = config_from({"super.users": "User:CN=a,O=b;User:c"})
    assert warnings == []
    _, warnings = config_from({"super.users": "User:admin, User:bob"})
    assert warnings == ["super.users: 'User:admin, User:bob' is one user: several are separated by ;"]


def test_no_key_is_both_honoured_and_foreign():
    assert [key for key in rules() if is_known_to_kafka(key)] == []


def test_topic_defaults_come_from_the_brokers_keys():
    config, _ = config_from({"log.retention.hours": 2, "log.roll.ms": 5})
    assert config.topic_default("log.retention.ms") == "7200000"
    assert config.topic_default("log.roll.ms") == "5"
    config, _ = config_from({"log.retention.minutes": 3, "log.retention.hours": 2})
    assert config.retention_ms == 180_000
    assert config_from({"log.retention.ms": -1})[0].retention_ms == -1
    defaults = BrokerConfig()
    differing = {
        entry.name: defaults.topic_default(entry.synonym)
        for entry in TOPIC_CONFIGS.values()
        if entry.synonym and defaults.topic_default(entry.synonym) not in (None, entry.default)
    }
    assert differing == {}


def test_the_rules_own_defaults_are_the_configurations():
    assert _gate_config(BrokerConfig(), is_own=True) == GateConfig()
    assert (
        _gate_config(BrokerConfig(), is_own=False).retry_backoff_ms == NEAR_BACKOFF_MS < GateConfig().retry_backoff_ms
    )
    assert rules_config(BrokerConfig()) == PartitionConfig()


def test_properties():
    text = "# a comment\n! another\n\na.b = 1\nc:x=y\nlong = one,\\\n  two\nempty=\n"
    assert properties_from(text) == {"a.b": "1", "c": "x=y", "long": "one,two", "empty": ""}
    with pytest.raises(ConfigInvalid, match="line 2"):
        properties_from("a=1\nnonsense\n")
    assert properties_from("\ufeffrules=^CN=(.*)\\\\.x$\npath=\\u002fa\n") == {"rules": "^CN=(.*)\\.x$", "path": "/a"}


def test_a_key_pasted_without_backslashes_is_not_shown():
    with pytest.raises(ConfigInvalid, match="line 2") as refused:
        properties_from(
            "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0\n-----END PRIVATE KEY-----\n"
        )
    assert "MIIE" not in str(refused.value)


def test_addresses():
    assert address_from("PLAINTEXT://[::1]:9092") == Address("::1", 9092)
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert address_from(":9092") == Address("", 9092)
    for text in ("localhost", "SSL://a:1", "a:x", "a:99999"):
        with pytest.raises(ConfigInvalid):
            address_from(text)
    config, _ = config_from({"listeners": "PLAINTEXT://0.0.0.0:9,CONTROLLER://:10"})
    listening = listen_addresses(config, ["127.0.0.1:0"])
    assert listening == [NamedAddress("PLAINTEXT", "0.0.0.0", 9)]
    assert advertised_address(config, listening) == Address("localhost", 9)
    config, _ = config_from({"advertised.listeners": "PLAINTEXT://name:7"})
    assert advertised_address(config, listening) == Address("name", 7)
    assert listen_addresses(config, ["127.0.0.1:0"]) == [NamedAddress("PLAINTEXT", "127.0.0.1", 0)]
    both = [*listening, NamedAddress("IN", "::", 8)]
    config, _ = config_from({"advertised.listeners": "IN://name:7"})
    assert advertised_address(config, both, "IN") == Address("name", 7)
    assert advertised_address(config, both) == Address("localhost", 9)
    with pytest.raises(ConfigInvalid, match=r"advertised\.listeners"):
        advertised_address(config_from({"advertised.listeners": "IN"})[0], both)
    config, _ = config_from({"advertised.listeners": "PLAINTEXT://:7"})
    assert advertised_address(config, listening) == Address("localhost", 7)
    for nowhere in ("PLAINTEXT://0.0.0.0:7", "PLAINTEXT://[::]:7", "PLAINTEXT://0:0:0:0:0:0:0:0:7"):
        with pytest.raises(
            ConfigInvalid, match=r"advertised\.listeners: .* is no address that a client can connect to"
        ):
            advertised_address(config_from({"advertised.listeners": nowhere})[0], listening)
    with pytest.raises(ConfigInvalid, match="listeners: A and B have the same port 9"):
        listen_addresses(config_from({"listeners": "A://127.0.0.1:9,B://127.0.0.1:9"})[0], [])
    listen_addresses(config_from({"listeners": "A://127.0.0.1:9,B://[::1]:9,C://127.0.0.1:0,D://127.0.0.1:0"})[0], [])


@pytest.mark.parametrize(
    ("values", "has_journal"),
    [({}, True), ({"journal": "off"}, False), ({"flush.policy": "os"}, False), ({"flush.policy": "interval"}, False)],
)
def test_there_is_a_journal_where_somebody_waits_for_a_sync(values, has_journal):
    assert config_from(values)[0].has_journal is has_journal

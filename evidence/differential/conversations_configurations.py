"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs in every version."""

from __future__ import annotations

from typing import Any

from evidence.differential.conversation import Conversation, error_name
from evidence.differential.scenario import family, scenario
from oncelog.errors import ErrorCode

TOPIC, BROKER = 2, 4
KEYS = ["cleanup.policy", "max.message.bytes", "retention.ms"]


def resource(kind: int, name: str, **more: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name} | more


@family("core", range(1, 5))
def describe_configs(x: Conversation, v: int) -> None:
    t = x.topic("a", cleanup_policy="compact")
    for more in ({}, {"include_synonyms": True}):
        asked = [resource(TOPIC, t, configuration_keys=KEYS)]
        reply = x.call("DescribeConfigs", v, resources=asked, **more)
        for found in sorted(reply.results[0].configs, key=lambda each: str(each.name)):
            synonyms = [f"{each.name}={each.value}:{each.source}" for each in found.synonyms]
            kind = f" type={found.config_type}" if v >= 3 else ""
            x.say(f"v{v} {more or ''}", found.name, found.value, f"source={found.config_source}", *synonyms, kind)
    x.ask(
        "DescribeConfigs", v, " unknown topic", resources=[resource(TOPIC, x.name("nosuch"), configuration_keys=KEYS)]
    )
    x.ask("DescribeConfigs", v, " bad name", resources=[resource(TOPIC, "bad name!", configuration_keys=KEYS)])
    x.ask("DescribeConfigs", v, " bad type", resources=[resource(99, "x", configuration_keys=KEYS)])
    x.ask("DescribeConfigs", v, " other broker", resources=[resource(BROKER, "99", configuration_keys=KEYS)])
    x.ask("DescribeConfigs", v, " no number", resources=[resource(BROKER, "x", configuration_keys=KEYS)])
    x.ask("DescribeConfigs", v, " unknown key", resources=[resource(TOPIC, t, configuration_keys=["no.such"])])


@family("core", range(3))
def alter_configs(x: Conversation, v: int) -> None:
    """The old way: what is not named is reset."""
    t = x.topic("a", retention_ms=1000, cleanup_policy="compact")

    def ask(label: str, name: str, *pairs: tuple[str, str | None], **more: Any) -> None:
        configs = [{"name": key, "value": value} for key, value in pairs]
        x.ask("AlterConfigs", v, label, resources=[resource(TOPIC, name, configs=configs)], **more)

    ask(" validate", t, ("retention.ms", "5"), validate_only=True)
    ask("", t, ("retention.ms", "2000"))
    ask(" nonsense", t, ("retention.ms", "abc"))
    ask(" unknown key", t, ("no.such", "1"))
    ask(" null", t, ("retention.ms", None))
    ask(" unknown topic", x.name("nosuch"), ("retention.ms", "1"))
    asked = [resource(TOPIC, t, configuration_keys=KEYS)]

    def altered() -> Any:
        found = {c.name: c.value for c in x.call("DescribeConfigs", 4, resources=asked).results[0].configs}
        return found if found["retention.ms"] == "2000" else None

    x.say("then", sorted(x.until(altered).items()))


@family("core", range(2))
def incremental_alter_configs(x: Conversation, v: int) -> None:
    t = x.topic("a")
    for key, how, value in (
        ("retention.ms", 0, "2000"),
        ("retention.ms", 1, None),
        ("cleanup.policy", 2, "compact"),
        ("cleanup.policy", 3, "delete"),
        ("retention.ms", 2, "1"),
        ("no.such", 0, "1"),
        ("no.such", 1, None),
        ("retention.ms", 0, "abc"),
    ):
        configs = [{"name": key, "config_operation": how, "value": value}]
        x.ask("IncrementalAlterConfigs", v, f" {key} {how} {value}", resources=[resource(TOPIC, t, configs=configs)])
    two = [
        resource(TOPIC, name, configs=[{"name": "retention.ms", "config_operation": 0, "value": "7"}])
        for name in (t, t)
    ]
    x.ask("IncrementalAlterConfigs", v, " a topic twice", resources=two)
    x.ask("IncrementalAlterConfigs", v, " nothing", resources=[])


@scenario("core")
def configs_take_effect_on_what_is_produced(x: Conversation) -> None:
    """max.message.bytes, altered while records come."""
    t = x.topic("a")
    x.produce(t, 0, [b"v" * 5000], label=" 5000")
    configs = [{"name": "max.message.bytes", "config_operation": 0, "value": "1000"}]
    x.ask("IncrementalAlterConfigs", 1, resources=[resource(TOPIC, t, configs=configs)])

    def refused() -> Any:
        found = x.produce(t, 0, [b"v" * 5000], quiet=True)
        return True if found.error_code == 10 else None

    x.until(refused)
    x.produce(t, 0, [b"v" * 500], label=" 500", quiet=True)
    configs = [{"name": "max.message.bytes", "config_operation": 1, "value": None}]
    x.ask("IncrementalAlterConfigs", 1, resources=[resource(TOPIC, t, configs=configs)])


@family("core", range(2))
def list_config_resources(x: Conversation, v: int) -> None:
    t = x.topic("a")
    if v == 0:
        x.ask("ListConfigResources", v)
        return
    reply = x.call("ListConfigResources", v, resource_types=[TOPIC])
    x.say("topics have it", (TOPIC, t) in [(each.resource_type, each.resource_name) for each in reply.config_resources])
    x.ask("ListConfigResources", v, " brokers", resource_types=[BROKER])
    x.ask("ListConfigResources", v, " nonsense", resource_types=[99])


@scenario("core")
def subscriptions_to_client_metrics(x: Conversation) -> None:
    """Their keys, bounds and patterns; described with defaults; listed while they have a config (KIP-714)."""
    kind, name = 16, x.name("m")

    def ask(key: str, how: int, value: str | None) -> None:
        configs = [{"name": key, "config_operation": how, "value": value}]
        found = x.call("IncrementalAlterConfigs", 1, resources=[resource(kind, name, configs=configs)]).responses[0]
        x.say(f"{key} {how} {value}", error_name(found.error_code), found.error_message)

    def described() -> Any:
        return x.call("DescribeConfigs", 4, resources=[resource(kind, name, configuration_keys=None)]).results[0]

    def describe(match: str) -> None:
        """When the last change has come through."""
        x.until(lambda: match in [each.value for each in described().configs if each.name == "match"] or None)
        found = described()
        values = sorted((each.name, each.value, each.config_source, each.config_type) for each in found.configs)
        x.say("described", error_name(found.error_code), *values)

    def is_listed() -> bool:
        listed = x.call("ListConfigResources", 0).config_resources
        return name in [each.resource_name for each in listed]

    describe("")
    for value in ("1000", "99", "100", "3600000", "3600001", "abc", ""):
        ask("interval.ms", 0, value)
    for value in ("", "*", "org.apache.kafka.producer.,a b"):
        ask("metrics", 0, value)
    for selector in ("id", "instance_id", "software_name", "software_version", "source_address", "source_port"):
        ask("match", 0, f"client_{selector}=a.*[0-9]")
    for value in (
        "client_id",
        "client_id=",
        "=a",
        "who=a",
        "client_id=(",
        "client_id=a=b",
        "client_id=a==",
        "client_id = b",
    ):
        ask("match", 0, value)
    ask("no.such", 0, "1")
    ask("no.such", 1, None)
    describe("client_id = b")
    x.say("listed", is_listed())
    for key in ("interval.ms", "metrics", "match", "match"):
        ask(key, 1, None)
    describe("")
    x.say("listed", is_listed())


@scenario("core")
def operations_on_configs_that_do_not_exist(x: Conversation) -> None:
    """What the controller cannot read it refuses whole; what the broker looks at itself has its own error."""
    t, other, group, metrics, logger, unknown = x.topic("a"), x.topic("b"), 32, 16, 8, 99

    def ask(label: str, *wanted: tuple[int, str, str, int, str | None], **more: Any) -> None:
        resources: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for kind, name, key, operation, value in wanted:
            change = {"name": key, "config_operation": operation, "value": value}
            resources.setdefault((kind, name), []).append(change)
        asked = [resource(kind, name, configs=configs) for (kind, name), configs in resources.items()]
        found = x.call("IncrementalAlterConfigs", 1, resources=asked, **more).responses
        codes = {(each.resource_type, each.resource_name): ErrorCode(each.error_code).name for each in found}
        x.say(label, *(codes[key] for key in resources))

    for operation in (4, 9, -1, 127):
        ask(f"a topic's, {operation}", (TOPIC, t, "retention.ms", operation, "1"))
    ask("only checked", (TOPIC, t, "retention.ms", 9, "1"), validate_only=True)
    ask("without value", (TOPIC, t, "retention.ms", 9, None))
    ask("a key twice", (TOPIC, t, "retention.ms", 9, "1"), (TOPIC, t, "retention.ms", 9, "2"))
    ask("with others", (TOPIC, t, "retention.ms", 9, "1"), (TOPIC, other, "retention.ms", 0, "12345"))
    ask("unknown topic", (TOPIC, x.name("nosuch"), "retention.ms", 9, "1"))
    ask("no topic", (TOPIC, "", "retention.ms", 9, "1"))
    ask("a group", (group, x.name("g"), "consumer.session.timeout.ms", 9, "1"))
    ask("a subscription", (metrics, x.name("m"), "metrics", 9, "1"))
    ask("a broker", (BROKER, "1", "log.cleaner.backoff.ms", 9, "1"))
    ask("all brokers", (BROKER, "", "log.cleaner.backoff.ms", 9, "1"))
    ask("a broker and a topic", (BROKER, "1", "a", 9, "1"), (TOPIC, t, "retention.ms", 9, "1"))
    ask("another broker", (BROKER, "77", "a", 9, "1"))
    ask("a logger", (logger, "1", "root", 9, "INFO"))
    ask("a logger without value", (logger, "1", "root", 9, None))
    ask("another broker's logger", (logger, "77", "root", 9, "INFO"))
    ask("an unknown type", (unknown, "x", "a", 9, "1"))
    ask("a list of a subscription", (metrics, x.name("m"), "metrics", 2, "a"))
    key = "leader.replication.throttled.replicas"
    for first in (0, 4000):
        value = ",".join(f"{index}:1" for index in range(first, first + 4000))
        ask(f"a list from {first}", (TOPIC, t, key, 2, value))
    found = x.call("DescribeConfigs", 4, resources=[resource(TOPIC, other, configuration_keys=["retention.ms"])])
    x.say("the other topic", [each.value for each in found.results[0].configs])


DYNAMIC = {
    "sasl.kerberos.min.time.before.relogin": ("-1", "58000", "x", ""),
    "sasl.kerberos.ticket.renew.jitter": ("0.1", "2", "x"),
    "sasl.kerberos.kinit.cmd": ("/usr/bin/kinit",),
    "sasl.kerberos.principal.to.local.rules": ("DEFAULT",),
    "sasl.kerberos.service.name": ("kafka",),
    "sasl.login.refresh.window.factor": ("0.8",),
    "sasl.login.refresh.buffer.seconds": ("-1", "300", "40000", "x"),
    "sasl.mechanism.inter.broker.protocol": ("GSSAPI",),
    "ssl.client.auth": ("none", "x"),
    "ssl.endpoint.identification.algorithm": ("https", ""),
    "ssl.keymanager.algorithm": ("SunX509",),
    "ssl.provider": ("x",),
    "ssl.secure.random.implementation": ("x",),
    "ssl.trustmanager.algorithm": ("PKIX",),
    "background.threads": ("0", "10"),
    "num.io.threads": ("0", "8"),
    "log.cleaner.threads": ("0", "1"),
    "log.flush.interval.messages": ("0", "1"),
    "log.flush.interval.ms": ("-1", "1000"),
    "log.local.retention.bytes": ("-3", "-2", "-1"),
    "log.local.retention.ms": ("-3", "-2"),
    "group.consumer.assignment.interval.ms": ("-1", "0", "1000"),
    "group.coordinator.cached.buffer.max.bytes": ("0", "1000000"),
    "remote.fetch.max.wait.ms": ("0", "1"),
    "compression.type": ("gzip",),
    "advertised.listeners": ("PLAINTEXT://h:1",),
    "node.id": ("1",),
    "auto.create.topics.enable": ("true",),
    "offsets.topic.num.partitions": ("50",),
}


@scenario("core")
def broker_keys_that_may_be_changed_while_it_runs(x: Conversation) -> None:
    """Of one broker and of all; only checked, so that nothing of it stays."""
    for key, values in DYNAMIC.items():
        for value in values:
            codes = []
            for name in ("1", ""):
                configs = [{"name": key, "config_operation": 0, "value": value}]
                asked = [resource(BROKER, name, configs=configs)]
                found = x.call("IncrementalAlterConfigs", 1, resources=asked, validate_only=True).responses[0]
                codes.append(ErrorCode(found.error_code).name)
            x.say(f"{key}={value!r} of one broker, of all", *codes)


def stored_value(x: Conversation, key: str, value: str) -> Any:
    """The broker's config once it has that value."""
    asked = [resource(BROKER, "1", configuration_keys=[key])]
    found = x.call("DescribeConfigs", 4, resources=asked, include_synonyms=True).results[0].configs
    return found[0] if found and found[0].value == value else None


@scenario("core")
def a_key_without_effect_is_stored(x: Conversation) -> None:
    """librdkafka's test 0081 alters this one."""
    key = "sasl.kerberos.min.time.before.relogin"
    for api, version in (("AlterConfigs", 2), ("IncrementalAlterConfigs", 1)):
        config: dict[str, Any] = {"name": key, "value": "58000"}
        if version == 1:
            config["config_operation"] = 0
        x.ask(api, version, resources=[resource(BROKER, "1", configs=[config])])
        found = x.until(lambda: stored_value(x, key, "58000"))
        synonyms = [f"{each.name}={each.value}:{each.source}" for each in found.synonyms][:1]
        x.say(key, found.value, f"source={found.config_source} type={found.config_type} {found.read_only}", *synonyms)
        gone = [{"name": key, "config_operation": 1, "value": None}]
        x.ask("IncrementalAlterConfigs", 1, " taken back", resources=[resource(BROKER, "1", configs=gone)])

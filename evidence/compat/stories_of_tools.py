"""What an operator does with Apache Kafka's command-line tools, command by command; each story runs on two brokers.

`say` runs a tool and writes down what it printed, without what differs from run to run (ids, times, ports, paths).
`leave_out` drops lines that are meant to differ; the reason stands beside it.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import re
import threading
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from evidence.compat.make_kafka_streams_group import committed, gone, grown
from evidence.compat.tool_runner import Ran, ToolRunner
from evidence.world.broker import Client
from oncelog import sync

TOOLS = "org.apache.kafka.tools."
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "consumer.group.ConsumerGroupCommand"
STREAMS = "streams.StreamsGroupCommand"
MASKED = (
    (re.compile(r"(TopicId|topicId|topic_id)(: |\":\")[\w-]{22}"), r"\1\2ID"),
    (re.compile(r"\b1[78]\d{11}\b"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,:]\d+"), "DATE"),
    (re.compile(r"(console-consumer|consumer|VerifiableConsumer|console-group)-[\w-]*[0-9a-f]{8}-[\w-]+"), r"\1-ID"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST"),
    (re.compile(r"\bEpoch: \d+$"), "Epoch: N"),
    (re.compile(r"(?:WORK|/tmp)/[\w./-]+"), "PATH"),
    (re.compile(r"@[0-9a-f]{5,8}\b"), "@HASH"),
    (re.compile(r"\"previousProducerId\":-?\d+,"), ""),  # Kafka's is the id before, oncelog's the id that asked
)
# Apache Kafka 4.3 stores it for every broker of a new cluster; it is oncelog's default, and not stored.
_MIN_INSYNC = re.compile(r"min\.insync\.replicas=1,?")
STORIES: dict[str, Callable[[Story], None]] = {}


def story(function: Callable[[Story], None]) -> Callable[[Story], None]:
    """Register under the function's name."""
    STORIES[function.__name__] = function
    return function


class Story:
    """One broker's telling."""

    def __init__(self, run: ToolRunner, bootstrap_servers: str, data: pathlib.Path, work: pathlib.Path) -> None:
        self._run = run
        self.bootstrap_servers = bootstrap_servers
        self.data = data
        self.work = work
        self.lines: list[str] = []

    def do(self, tool: str, *arguments: object, text: str = "", bootstrap: str = "--bootstrap-server") -> Ran:
        """Run a tool, write nothing down."""
        name = tool if tool.startswith(("kafka.", "org.")) else TOOLS + tool
        where = [bootstrap, self.bootstrap_servers] if bootstrap else []
        last = [] if tool == "ClusterTool" else where
        first = where if tool == "ClusterTool" else []
        return self._run(name, *last, *arguments, *first, text=text)

    def say(
        self,
        tool: str,
        *arguments: object,
        text: str = "",
        leave_out: str = "",
        only: str = "",
        shape: bool = False,
        gone: str | None = None,
        bootstrap: str = "--bootstrap-server",
    ) -> None:
        """Run a tool and write down what it printed, its lines in order of the alphabet (Kafka's order is a hash's).

        `only` keeps the lines that match; `shape` writes # for every number; while the line `gone` is printed it is asked
        again, a few times: what Apache's controller has deleted, its broker may list a moment longer.
        """
        ran = self.do(tool, *arguments, text=text, bootstrap=bootstrap)
        for _ in range(20):
            if gone is None or gone not in ran.lines:
                break
            ran = self.do(tool, *arguments, text=text, bootstrap=bootstrap)
        # The formatters end no line; the order of records of several partitions is that of their fetches.
        printed = "\n".join(ran.lines).replace("}{", "}\n{").splitlines()
        shown = [*printed, *(f"! {line}" for line in ran.errors if not line.lstrip().startswith("at "))]
        if leave_out:
            shown = [line for line in shown if not re.search(leave_out, line)]
        if only:
            shown = [line for line in shown if re.search(only, line)]
        named = " ".join(str(each).replace(str(self.work), "WORK") for each in arguments)
        self.lines.append(f"$ {tool.rpartition('.')[2]} {self._same(named)} -> {ran.status}")
        self.lines += sorted(_ordered(self._same(line, shape=shape)) for line in shown)

    def _same(self, line: str, *, shape: bool = False) -> str:
        line = (
            line.replace(self.bootstrap_servers, "HOST").replace(str(self.data), "DATA").replace(str(self.work), "WORK")
        )
        line = _MIN_INSYNC.sub("", line)
        for pattern, instead in MASKED:
            line = pattern.sub(instead, line)
        if shape:
            line = re.sub(r"-?\d+([.,]\d+)*(E-?\d+)?|NaN|Infinity", "#", line)
        return re.sub(r"[ \t]+", " ", line).strip()

    def create(self, topic: str, partitions: int = 1, *options: object) -> None:
        """A topic, silently."""
        made = self.do("TopicCommand", "--create", "--topic", topic, "--partitions", partitions, *options)
        assert made.status == 0, made

    def produce(self, topic: str, *lines: str) -> None:
        """Records, silently."""
        done = self.do("ConsoleProducer", "--topic", topic, text="".join(f"{line}\n" for line in lines))
        assert done.status == 0, done

    def fill(self, topic: str, partition: int, count: int) -> None:
        """So many records in a partition, silently."""
        with sync.Producer(bootstrap_servers=self.bootstrap_servers) as producer:
            for index in range(count):
                producer.send_and_wait(topic, f"r{index}".encode(), partition=partition)

    def consume(self, topic: str, count: int, *options: object) -> None:
        """As a consumer, written down."""
        self.say(
            "consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", count, "--timeout-ms",
            15000, *options, leave_out="Processed a total",
        )  # fmt: skip


def _ordered(line: str) -> str:
    """A list of key=value in order: Kafka's is a hash's."""
    head, are, rest = line.partition(" are ")
    return f"{head} are {', '.join(sorted(rest.split(', ')))}" if are and "=" in rest else line


def _json_file(x: Story, name: str, content: object) -> pathlib.Path:
    path = x.work / name
    # Both brokers' stories are told at once, and write the same files: whoever reads one finds it whole.
    whole = path.with_name(f"{path.name}.{threading.get_ident()}")
    whole.write_text(json.dumps(content))
    whole.replace(path)
    return path


@story
def topics(x: Story) -> None:
    t = "TopicCommand"
    x.say(t, "--create", "--topic", "plain", "--partitions", 3, "--replication-factor", 1)
    x.say(t, "--create", "--topic", "plain")
    x.say(t, "--create", "--topic", "plain", "--if-not-exists")
    x.say(t, "--create", "--topic", "with.dot", "--config", "cleanup.policy=compact", "--config", "retention.ms=5000")
    x.say(t, "--create", "--topic", "with_dot")
    x.say(t, "--create", "--topic", "bad name")
    x.say(t, "--create", "--topic", "odd", "--config", "no.such=1")
    x.say(t, "--create", "--topic", "odd", "--config", "retention.ms=soon")
    x.say(t, "--create", "--topic", "odd", "--replication-factor", 3)
    x.say(t, "--create", "--topic", "odd", "--partitions", 0)
    x.say(t, "--create", "--topic", "placed", "--replica-assignment", "1,1")
    x.say(t, "--create", "--topic", "misplaced", "--replica-assignment", "1,7")
    x.say(t, "--list", "--exclude-internal")
    x.say(t, "--describe", "--topic", "plain")
    x.say(t, "--describe", "--topic", "with.dot,placed")
    x.say(t, "--describe", "--topic", "nosuch")
    x.say(t, "--describe", "--topic", "nosuch", "--if-exists")
    x.say(t, "--describe", "--under-replicated-partitions")
    x.say(t, "--describe", "--unavailable-partitions")
    x.say(t, "--describe", "--at-min-isr-partitions", "--topic", "plain")
    x.say(t, "--describe", "--topics-with-overrides", "--exclude-internal", only="with.dot")  # see _MIN_INSYNC
    x.say(t, "--alter", "--topic", "plain", "--partitions", 5)
    x.say(t, "--alter", "--topic", "plain", "--partitions", 2)
    x.say(t, "--alter", "--topic", "plain", "--partitions", 5)
    x.say(t, "--alter", "--topic", "nosuch", "--partitions", 5)
    x.say(t, "--describe", "--topic", "plain", "--partition-size-limit-per-response", 2)
    x.say(t, "--delete", "--topic", "plain")
    x.say(t, "--delete", "--topic", "nosuch")
    x.say(t, "--delete", "--topic", "nosuch", "--if-exists")
    x.say(t, "--delete", "--topic", "with.dot,placed")


@story
def topic_configs(x: Story) -> None:
    x.create("configured")
    where = ("--entity-type", "topics", "--entity-name", "configured")
    x.say(CONFIGS, "--describe", *where)
    x.say(CONFIGS, "--alter", *where, "--add-config", "retention.ms=60000,cleanup.policy=[compact,delete]")
    x.say(CONFIGS, "--describe", *where)
    x.say(CONFIGS, "--describe", *where, "--all", leave_out="min.insync.replicas")
    x.say(CONFIGS, "--alter", *where, "--add-config", "no.such=1")
    x.say(CONFIGS, "--alter", *where, "--add-config", "segment.bytes=1")
    x.say(CONFIGS, "--alter", *where, "--delete-config", "retention.ms")
    x.say(CONFIGS, "--alter", *where, "--delete-config", "retention.bytes")
    x.say(CONFIGS, "--describe", *where)
    x.say(CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "nosuch")
    x.say(CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", "nosuch", "--add-config", "retention.ms=1")


@story
def broker_configs(x: Story) -> None:
    one = ("--entity-type", "brokers", "--entity-name", 1)
    every = ("--entity-type", "brokers", "--entity-default")
    x.say(CONFIGS, "--describe", *one)
    x.say(CONFIGS, "--alter", *one, "--add-config", "log.retention.ms=7000000")
    x.say(CONFIGS, "--alter", *every, "--add-config", "log.retention.ms=8000000,max.connections=5000")
    x.say(CONFIGS, "--describe", *one)
    x.say(CONFIGS, "--describe", *every, leave_out="min.insync.replicas|=.$|synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:}")
    x.create("inheriting")
    x.say(
        CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "inheriting", "--all", only="retention.ms="
    )
    x.say(CONFIGS, "--alter", *one, "--add-config", "node.id=7")
    x.say(CONFIGS, "--alter", *one, "--add-config", "log.retention.ms=soon")
    x.say(CONFIGS, "--alter", "--entity-type", "brokers", "--entity-name", 9, "--add-config", "log.retention.ms=1")
    x.say(CONFIGS, "--alter", *one, "--delete-config", "log.retention.ms")
    x.say(CONFIGS, "--alter", *every, "--delete-config", "log.retention.ms,max.connections")
    x.say(CONFIGS, "--describe", *one)
    shown = (
        r"^ *(num\.partitions|log\.(retention|segment|roll|cleaner)\.|transaction|group\.(min|max)|fetch\.max|socket)"
    )
    # the cleaner's buffers and threads and the socket's buffers are Java's business
    java = r"log\.cleaner\.(dedupe|io|threads|min\.cleanable)|socket\.(listen|send|receive)|load\.buffer|replication\.factor"
    own = r"num\.partitions|state\.log\.min\.isr|socket\.connection|jitter"  # set by the launcher, or not honoured
    x.say(CONFIGS, "--describe", *one, "--all", only=shown, leave_out=f"{java}|{own}")


@story
def broker_loggers(x: Story) -> None:
    where = ("--entity-type", "broker-loggers", "--entity-name", 1)
    x.say(CONFIGS, "--alter", *where, "--add-config", "root=WARN")
    x.say(CONFIGS, "--describe", *where, only=r"^ *root=")
    x.say(CONFIGS, "--alter", *where, "--add-config", "root=LOUD")
    x.say(CONFIGS, "--alter", *where, "--delete-config", "root")
    x.say(CONFIGS, "--alter", *where, "--add-config", "root=INFO")


@story
def group_and_client_metrics_configs(x: Story) -> None:
    group = ("--entity-type", "groups", "--entity-name", "somegroup")
    x.say(CONFIGS, "--alter", *group, "--add-config", "consumer.session.timeout.ms=50000")
    x.say(CONFIGS, "--alter", *group, "--add-config", "consumer.session.timeout.ms=1")
    x.say(CONFIGS, "--alter", *group, "--add-config", "no.such=1")
    x.say(CONFIGS, "--describe", *group)
    x.say(CONFIGS, "--alter", *group, "--delete-config", "consumer.session.timeout.ms")
    x.say(CONFIGS, "--describe", *group)
    c = "ClientMetricsCommand"
    x.say(c, "--list")
    x.say(c, "--alter", "--name", "m", "--metrics", "org.apache.kafka.producer.", "--interval", 5000)
    x.say(c, "--alter", "--name", "m", "--match", "nonsense")
    x.say(c, "--list")
    x.say(c, "--describe", "--name", "m")
    x.say(c, "--delete", "--name", "m")
    x.say(c, "--list", gone="m")


@story
def quotas_and_credentials(x: Story) -> None:
    alice = ("--entity-type", "users", "--entity-name", "alice")
    x.say(CONFIGS, "--alter", *alice, "--add-config", "producer_byte_rate=1048576,request_percentage=150.5")
    x.say(
        CONFIGS,
        "--alter",
        *alice,
        "--entity-type",
        "clients",
        "--entity-name",
        "c",
        "--add-config",
        "consumer_byte_rate=5",
    )
    x.say(
        CONFIGS, "--alter", "--entity-type", "users", "--entity-default", "--add-config", "controller_mutation_rate=9.5"
    )
    x.say(
        CONFIGS,
        "--alter",
        "--entity-type",
        "ips",
        "--entity-name",
        "10.1.2.3",
        "--add-config",
        "connection_creation_rate=7",
    )
    x.say(CONFIGS, "--alter", *alice, "--add-config", "producer_byte_rate=0.5")
    x.say(CONFIGS, "--alter", *alice, "--add-config", "no_such_rate=5")
    x.say(CONFIGS, "--alter", *alice, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    x.say(CONFIGS, "--alter", *alice, "--add-config", "SCRAM-SHA-512=[iterations=4096,password=secret]")
    x.say(CONFIGS, "--alter", *alice, "--add-config", "SCRAM-SHA-256=[iterations=100,password=secret]")
    x.say(CONFIGS, "--describe", *alice)
    x.say(CONFIGS, "--describe", "--entity-type", "users")
    x.say(CONFIGS, "--describe", "--entity-type", "clients")
    x.say(CONFIGS, "--describe", "--entity-type", "ips")
    x.say(CONFIGS, "--alter", *alice, "--delete-config", "producer_byte_rate,request_percentage,SCRAM-SHA-256")
    x.say(CONFIGS, "--alter", *alice, "--delete-config", "SCRAM-SHA-256")
    x.say(CONFIGS, "--describe", *alice)
    x.say(CONFIGS, "--alter", *alice, "--delete-config", "SCRAM-SHA-512")
    x.say(
        CONFIGS,
        "--alter",
        "--entity-type",
        "ips",
        "--entity-name",
        "10.1.2.3",
        "--delete-config",
        "connection_creation_rate",
    )


@story
def features(x: Story) -> None:
    f = "FeatureCommand"
    both = r"(group|streams)\.version"  # transaction.version goes to 3 here, and share groups, ELR are not there
    x.say(f, "describe", only=both)
    x.do(f, "downgrade", "--feature", "transaction.version=2")  # where it is 3
    x.say(f, "downgrade", "--feature", "transaction.version=1")
    x.say(f, "upgrade", "--feature", "transaction.version=2", "--dry-run")
    x.say(f, "upgrade", "--feature", "transaction.version=2")
    x.say(f, "downgrade", "--feature", "transaction.version=0", "--unsafe", "--dry-run")
    x.say(f, "disable", "--feature", "transaction.version")
    x.say(f, "upgrade", "--feature", "transaction.version=2")
    x.say(f, "upgrade", "--feature", "transaction.version=1")
    x.say(f, "downgrade", "--feature", "transaction.version=2")
    x.say(f, "upgrade", "--feature", "no.such=2")
    x.say(f, "upgrade", "--feature", "group.version=9")
    x.say(f, "upgrade", "--feature", "transaction.version=nine")
    x.say(f, "version-mapping", "--release-version", "4.0")
    x.say(f, "feature-dependencies", "--feature", "transaction.version=2")


@story
def access_rules(x: Story) -> None:
    a = "org.apache.kafka.tools.AclCommand"
    x.say(a, "--list")
    x.say(a, "--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "ruled")
    x.say(
        a,
        "--add",
        "--deny-principal",
        "User:bob",
        "--deny-host",
        "10.0.0.9",
        "--operation",
        "Write",
        "--topic",
        "ruled",
    )
    x.say(a, "--add", "--allow-principal", "User:*", "--producer", "--transactional-id", "tx", "--topic", "made")
    x.say(a, "--add", "--allow-principal", "User:eve", "--consumer", "--group", "*", "--topic", "pre",
          "--resource-pattern-type", "prefixed")  # fmt: skip
    x.say(a, "--add", "--allow-principal", "User:op", "--operation", "Alter", "--cluster")
    x.say(a, "--add", "--allow-principal", "nobody", "--operation", "Read", "--topic", "ruled")
    x.say(a, "--list")
    x.say(a, "--list", "--topic", "ruled")
    x.say(a, "--list", "--topic", "prefix-of", "--resource-pattern-type", "match")
    x.say(a, "--list", "--principal", "User:eve")
    x.say(a, "--remove", "--force", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "ruled")
    x.say(a, "--list", "--topic", "ruled")
    x.say(a, "--remove", "--force", "--topic", "ruled")
    x.say(a, "--remove", "--force", "--topic", "pre", "--resource-pattern-type", "any")
    for more in (("--topic", "made"), ("--transactional-id", "tx"), ("--cluster",), ("--group", "*")):
        x.say(a, "--remove", "--force", *more)
    x.say(a, "--list")


@story
def console(x: Story) -> None:
    x.create("said")
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    x.say("ConsoleProducer", "--topic", "said", *keyed, text="k1:one\nk2:two\nk1:three\n")
    x.say(
        "ConsoleProducer",
        "--topic",
        "said",
        "--command-property",
        "acks=all",
        "--compression-codec",
        "zstd",
        text="four\n",
    )
    shown = [f"--formatter-property=print.{each}=true" for each in ("key", "offset", "partition", "headers")]
    x.consume("said", 4, *(part for each in shown for part in each.split("=", 1)))
    x.consume("said", 2, "--partition", 0, "--isolation-level", "read_committed")
    x.say("consumer.ConsoleConsumer", "--topic", "said", "--partition", 0, "--offset", 2, "--max-messages", 2,
          "--timeout-ms", 15000)  # fmt: skip


@story
def groups(x: Story) -> None:
    x.create("grouped", 2)
    for partition in (0, 1):
        x.fill("grouped", partition, 4)
    x.do("consumer.ConsoleConsumer", "--topic", "grouped", "--from-beginning", "--max-messages", 8, "--group", "crowd",
         "--timeout-ms", 20000)  # fmt: skip
    one = (GROUPS, "--group", "crowd")
    x.say(GROUPS, "--list", only="crowd")
    x.say("GroupsCommand", "--list", only="crowd|GROUP")
    x.say("GroupsCommand", "--list", "--consumer", only="crowd|GROUP")
    x.say(*one, "--describe")
    x.say(*one, "--describe", "--members")
    x.say(*one, "--describe", "--state")
    x.say(*one, "--describe", "--offsets", "--verbose")
    for how in (
        ("--to-earliest",), ("--to-latest",), ("--shift-by", -1), ("--to-offset", 1), ("--to-current",),
        ("--by-duration", "P1D"), ("--to-datetime", "2020-01-01T00:00:00.000"), ("--to-offset", 99),
    ):  # fmt: skip
        x.say(*one, "--reset-offsets", "--topic", "grouped", *how, "--dry-run")
    x.say(*one, "--reset-offsets", "--topic", "grouped:0", "--to-earliest", "--execute")
    x.say(*one, "--reset-offsets", "--all-topics", "--to-current", "--export", "--dry-run")
    x.say(*one, "--describe")
    x.say(*one, "--reset-offsets", "--topic", "nosuch", "--to-earliest", "--dry-run")
    x.say(*one, "--delete-offsets", "--topic", "grouped:0")
    x.say(*one, "--delete-offsets", "--topic", "nosuch")
    x.say(*one, "--describe")
    x.say(*one, "--delete")
    x.say(*one, "--describe")
    x.say(*one, "--delete")


@story
def streams_groups(x: Story) -> None:
    """An application of two processes, by raw requests: `a` has been asked for a task, `b` waits for it."""
    host, _, port = x.bootstrap_servers.partition(":")

    async def ask(*steps: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        client = await Client.connect_to(host, int(port))
        for step in steps:
            await step(client)
        client.close()

    for topic in ("words", "by-word", "counts"):
        x.create(topic, 2)
    for partition in (0, 1):
        x.fill("words", partition, 4)
    positions = (partial(committed, member_id="a", topic="words", partition=0, offset=3),)
    asyncio.run(ask(partial(grown, must_create=False), *positions))
    one = (STREAMS, "--group", "application")
    x.say(STREAMS, "--list", only="application")
    x.say(STREAMS, "--list", "--state", only="application|GROUP")
    x.say(STREAMS, "--list", "--state", "Stable", only="application|GROUP")
    x.say("GroupsCommand", "--list", "--streams", only="application|GROUP")
    x.say(GROUPS, "--list", only="application")
    for how in ((), ("--members",), ("--members", "--verbose"), ("--state",), ("--state", "--verbose")):
        x.say(*one, "--describe", *how)
    x.say(*one, "--describe", "--offsets", "--verbose")
    x.say(*one, "--reset-offsets", "--all-input-topics", "--to-earliest", "--dry-run")
    x.say(*one, "--delete")
    asyncio.run(ask(gone))
    x.say(*one, "--describe")
    x.say(*one, "--reset-offsets", "--all-input-topics", "--to-earliest", "--dry-run")
    x.say(*one, "--reset-offsets", "--input-topic", "words", "--to-latest", "--execute")
    x.say(*one, "--reset-offsets", "--all-input-topics", "--to-latest", "--execute")
    x.say(*one, "--describe")
    x.say(*one, "--delete-offsets", "--input-topic", "words:0")
    x.say(*one, "--describe", "--offsets", "--verbose")
    x.say(*one, "--delete")
    x.say(*one, "--describe")
    x.say(*one, "--delete")


@story
def offsets_and_deleting_records(x: Story) -> None:
    x.create("counted", 2)
    for partition in (0, 1):
        x.fill("counted", partition, 5 + partition)
    total = r"counted:\d"
    for at in ("earliest", "latest", "max-timestamp", "-1", "-2", "1"):
        x.say("GetOffsetShell", "--topic", "counted", "--time", at, only=total)
    x.say("GetOffsetShell", "--topic-partitions", "counted:0", "--time", "earliest")
    x.say("GetOffsetShell", "--topic", "nosuch.*")
    x.create("shortened")
    x.produce("shortened", *"abcdef")
    wanted = _json_file(
        x, "delete.json", {"partitions": [{"topic": "shortened", "partition": 0, "offset": 4}], "version": 1}
    )
    x.say("DeleteRecordsCommand", "--offset-json-file", wanted)
    x.say("GetOffsetShell", "--topic", "shortened", "--time", "earliest")
    too_far = _json_file(
        x, "far.json", {"partitions": [{"topic": "shortened", "partition": 0, "offset": 99}], "version": 1}
    )
    x.say("DeleteRecordsCommand", "--offset-json-file", too_far)
    x.consume("shortened", 2)


@story
def replicas(x: Story) -> None:
    x.create("replicated", 2)
    e = "LeaderElectionCommand"
    x.say(e, "--election-type", "preferred", "--topic", "replicated", "--partition", 0)
    x.say(e, "--election-type", "unclean", "--topic", "replicated", "--partition", 1)
    x.say(e, "--election-type", "preferred", "--topic", "nosuch", "--partition", 0)
    x.say(e, "--election-type", "preferred", "--all-topic-partitions")
    r = "reassign.ReassignPartitionsCommand"
    x.say(r, "--list")
    moved = _json_file(x, "topics.json", {"topics": [{"topic": "replicated"}], "version": 1})
    x.say(r, "--generate", "--topics-to-move-json-file", moved, "--broker-list", "1")

    def plan(name: str, *brokers: int) -> pathlib.Path:
        partitions = [{"topic": "replicated", "partition": index, "replicas": list(brokers)} for index in (0, 1)]
        return _json_file(x, name, {"version": 1, "partitions": partitions})

    x.say(r, "--execute", "--reassignment-json-file", plan("stay.json", 1))
    x.say(r, "--verify", "--reassignment-json-file", plan("stay.json", 1))
    x.say(r, "--execute", "--throttle", 1000000, "--reassignment-json-file", plan("stay.json", 1))
    x.say(r, "--verify", "--reassignment-json-file", plan("stay.json", 1))
    x.say(r, "--execute", "--reassignment-json-file", plan("away.json", 7))
    x.say(r, "--cancel", "--reassignment-json-file", plan("stay.json", 1))
    x.say("LogDirsCommand", "--describe", "--topic-list", "replicated", shape=True)
    x.say("LogDirsCommand", "--describe", "--broker-list", "7")


@story
def cluster(x: Story) -> None:
    x.say("ClusterTool", "cluster-id", shape=True, only="Cluster ID", leave_out="^$")
    x.lines.pop()  # the id itself
    x.say("ClusterTool", "list-endpoints", shape=True)
    x.say("ClusterTool", "unregister", "--id", 77)
    x.say("MetadataQuorumCommand", "describe", "--status", shape=True, leave_out="ClusterId")
    x.say("MetadataQuorumCommand", "describe", "--replication", shape=True)
    ours_differ = (
        r"(Share|Streams)\w*\(|Telemetry|InitProducerId|^HOST|127.0.0.1"  # not served or optional; KIP-939; address
    )
    x.say("BrokerApiVersionsCommand", leave_out=ours_differ)


def _open_transaction(x: Story, topic: str, transactional_id: str) -> sync.Producer:
    producer = sync.Producer(bootstrap_servers=x.bootstrap_servers, transactional_id=transactional_id)
    producer.start()
    producer.begin_transaction()
    producer.send_and_wait(topic, b"open", partition=0)
    return producer


@story
def transactions(x: Story) -> None:
    x.create("transacted")
    t = "TransactionsCommand"
    where = ("--topic", "transacted", "--partition", 0)
    x.say(t, "list", only="TransactionalId")
    producer = _open_transaction(x, "transacted", "tools-1")
    try:
        x.say(t, "list", shape=True, only="tools-")
        x.say(t, "list", "--duration-filter", 86400000, only="tools-")
        x.say(t, "list", "--transactional-id-pattern", "tools-.*", shape=True, only="tools-")
        x.say(t, "describe", "--transactional-id", "tools-1", shape=True)
        x.say(t, "describe", "--transactional-id", "nosuch")
        x.say(t, "describe-producers", *where, shape=True)
        x.say(t, "describe-producers", "--topic", "transacted", "--partition", 0, "--broker-id", 1, shape=True)
        x.say(t, "find-hanging", "--topic", "transacted", "--partition", 0)
        x.say(t, "find-hanging", "--broker-id", 1)
        x.say(t, "abort", *where, "--start-offset", 99)
        x.say(t, "abort", *where, "--start-offset", 0)
        x.say(t, "describe-producers", *where, shape=True)
        x.say(t, "forceTerminateTransaction", "--transactionalId", "tools-1")
        x.say(t, "describe", "--transactional-id", "tools-1", shape=True, leave_out="PrepareAbort|CompleteAbort")
    finally:
        producer.stop()


@story
def internal_topics_formatted(x: Story) -> None:
    x.create("formatted")
    with sync.Producer(bootstrap_servers=x.bootstrap_servers, transactional_id="formatted-1") as producer:
        producer.begin_transaction()
        producer.send_and_wait("formatted", b"v", partition=0)
        producer.commit_transaction()
    log = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
    x.say("consumer.ConsoleConsumer", "--topic", "__transaction_state", "--from-beginning", "--formatter", log,
          "--timeout-ms", 4000, only=r"formatted-1.*\"transactionStatus\":(2|4)", shape=True)  # fmt: skip
    x.do("consumer.ConsoleConsumer", "--topic", "formatted", "--from-beginning", "--max-messages", 1, "--group", "fg",
         "--timeout-ms", 20000)  # fmt: skip
    offsets = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
    x.say("consumer.ConsoleConsumer", "--topic", "__consumer_offsets", "--from-beginning", "--formatter", offsets,
          "--timeout-ms", 4000, only='"fg"', shape=True)  # fmt: skip


@story
def dump_log(x: Story) -> None:
    x.create("dumped")
    x.fill("dumped", 0, 3)
    with sync.Producer(bootstrap_servers=x.bootstrap_servers, transactional_id="dumped-1") as producer:
        for decide in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.send_and_wait("dumped", b"in a transaction", partition=0)
            decide()
    x.say("consumer.ConsoleConsumer", "--topic", "dumped", "--from-beginning", "--isolation-level", "read_committed",
          "--max-messages", 4, "--timeout-ms", 15000)  # fmt: skip
    file = x.data / "dumped-0" / "00000000000000000000"
    d = "DumpLogSegments"
    x.say(d, "--deep-iteration", "--print-data-log", "--files", f"{file}.log", bootstrap="", shape=True)
    x.say(d, "--files", f"{file}.txnindex", bootstrap="", shape=True)


@story
def performance_and_verifiable(x: Story) -> None:
    x.create("measured")
    options = ("--topic", "measured", "--num-records", 2000, "--record-size", 50, "--throughput", -1)
    props = ("--command-property", f"bootstrap.servers={x.bootstrap_servers}")
    x.say("ProducerPerformance", *options, *props, bootstrap="", shape=True, only="records sent.*99.9th")
    x.say("ProducerPerformance", *options, *props, "--transactional-id", "perf-1", "--transaction-duration-ms", 20,
          bootstrap="", shape=True, only="records sent.*99.9th")  # fmt: skip
    x.say("ConsumerPerformance", "--topic", "measured", "--num-records", 4000, "--timeout", 20000, shape=True,
          leave_out="WARNING")  # fmt: skip
    x.create("verified")
    x.say("VerifiableProducer", "--topic", "verified", "--max-messages", 20, shape=True)
    x.say("VerifiableConsumer", "--topic", "verified", "--group-id", "vg", "--max-messages", 20, "--reset-policy",
          "earliest", shape=True, leave_out="partitions_revoked|shutdown|offsets_committed|records_consumed")  # fmt: skip
    x.say("EndToEndLatency", "--topic", "measured", "--num-records", 5, "--producer-acks", "all", "--record-size", 10,
          shape=True, only="^(Avg|Percentiles)")  # fmt: skip


def told(x: Story, names: Iterable[str]) -> dict[str, list[str]]:
    """Tell each story; its lines, by name."""
    found = {}
    for name in names:
        x.lines = []
        STORIES[name](x)
        found[name] = x.lines
    return found

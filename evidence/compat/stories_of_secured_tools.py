"""What an operator does with Apache Kafka's tools and `--command-config` on secured listeners; each story runs on two brokers.

A story fails where a command ends with another status than it wants; what was printed is compared afterwards.
"""

from __future__ import annotations

import json
import pathlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evidence.compat.stories_of_tools import CONFIGS, GROUPS, Story
from evidence.compat.tool_runner import Ran, ToolRunner
from oncelog import sync

ACLS = "AclCommand"
TOKENS = "DelegationTokenCommand"
TRANSACTIONS = "TransactionsCommand"
TRIES = 20
PAUSE_S = 0.25
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SAM = "the-password-of-sam"
MASKED = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d\b"), "DATE"),
    (re.compile(r"salt=[^,\s]+|stored_key=[^,\s]+"), "SECRET"),
    # Both name the mechanism and never what was wrong; Apache Kafka has other words around it.
    (
        re.compile(r"[Aa]uthentication failed(?: during authentication due to|:) (?=[Ii]nvalid)"),
        "Authentication failed: ",
    ),
    (
        re.compile(r"[Ii]nvalid (user ?name or password|credentials with SASL|credentials for SASL)"),
        "invalid credentials",
    ),
    # Apache Kafka tells the client how the broker's request object looks from inside
    (re.compile(r"(ClusterAuthorizationException): .*"), r"\1"),
)


@dataclass(frozen=True)
class Told:
    """A story, and how it stands on the page."""

    tool: str
    what: str
    tell: Callable[[SecuredStory], None]


SECURED_STORIES: dict[str, Told] = {}


def story(tool: str, what: str) -> Callable[[Callable[[SecuredStory], None]], Callable[[SecuredStory], None]]:
    """Register under the function's name."""

    def register(function: Callable[[SecuredStory], None]) -> Callable[[SecuredStory], None]:
        SECURED_STORIES[function.__name__] = Told(tool, what, function)
        return function

    return register


class SecuredStory(Story):
    """One broker's telling. `come` says who asks, and by which listener."""

    def __init__(
        self,
        run: ToolRunner,
        work: pathlib.Path,
        addresses: dict[str, str],
        logins: dict[tuple[str, str], str],
        options: dict[str, str],
    ) -> None:
        """`addresses` by a way's name; `logins` are files of properties by a way and who comes; `options` are our clients'."""
        super().__init__(run, "", work / "none", work)
        self._addresses, self.logins, self.options = addresses, logins, options
        self._hidden: dict[str, str] = {}
        self.come("SASL_SSL SCRAM-SHA-512", "admin")

    def come(self, way: str, user: str, properties: str = "") -> None:
        """From here on commands come by this way, with the properties given or those of the user."""
        self.bootstrap_servers = self._addresses[way]
        self._config = self.work / f"{user}.properties"
        self._config.write_text(properties or self.logins[way, user])
        self._config.chmod(0o600)

    def hide(self, text: str, shown: str) -> None:
        """What differs from run to run."""
        self._hidden[text] = shown

    def do(self, tool: str, *arguments: object, text: str = "", bootstrap: str = "--bootstrap-server") -> Ran:
        """Run a tool with the command config."""
        if tool == "ClusterTool":  # its options stand behind the subcommand
            name, *rest = arguments
            return super().do(tool, name, "--config", self._config, *rest, text=text, bootstrap=bootstrap)
        return super().do(tool, "--command-config", self._config, *arguments, text=text, bootstrap=bootstrap)

    def wants(self, status: int, tool: str, *arguments: object, says: str = "", **more: Any) -> list[str]:
        """`say`, asked again a few times until it ends with this status and says so: Apache Kafka's brokers hear of what
        its controller decided a moment later. What it printed. Raises AssertionError."""
        before = len(self.lines)
        for _ in range(TRIES):
            del self.lines[before:]
            self.say(tool, *arguments, **more)
            told = self.lines[before:]
            if told[0].endswith(f"-> {status}") and any(says in line for line in told[1:] or [""]):
                return told[1:]
            time.sleep(PAUSE_S)
        raise AssertionError(f"wanted {status} {says}: " + " / ".join(told[:4]))

    def _same(self, line: str, *, shape: bool = False) -> str:
        for text, shown in self._hidden.items():
            line = line.replace(text, shown)
        line = super()._same(line, shape=shape)
        for pattern, instead in MASKED:
            line = pattern.sub(instead, line)
        return line


REFUSED = "[Aa]uthentication failed|AuthenticationException|AuthorizationException|Not authorized|not authorized"


def _sam(x: SecuredStory, mechanism: str = "SCRAM-SHA-512", password: str = SAM) -> str:
    """The properties of a user whom the stories make."""
    line = f'sasl.jaas.config={SCRAM_MODULE} required username="sam" password="{password}";'
    base = x.logins["SASL_SSL SCRAM-SHA-512", "admin"].splitlines()
    kept = [each for each in base if not each.startswith(("sasl.jaas", "sasl.mechanism"))]
    return "\n".join([*kept, f"sasl.mechanism={mechanism}", line, ""])


def _make_sam(x: SecuredStory) -> None:
    entity = ("--entity-type", "users", "--entity-name", "sam")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        x.do(CONFIGS, "--alter", *entity, "--add-config", f"{mechanism}=[password={SAM}]")


@story(
    "kafka-configs",
    "SCRAM users: added, shown, who comes in by each mechanism, changed, deleted and refused from then on",
)
def scram_users(x: SecuredStory) -> None:
    entity = ("--entity-type", "users", "--entity-name", "sam")
    x.wants(0, CONFIGS, "--alter", *entity, "--add-config", f"SCRAM-SHA-512=[password={SAM}]")
    x.wants(0, CONFIGS, "--alter", *entity, "--add-config", f"SCRAM-SHA-256=[iterations=8192,password={SAM}]")
    x.wants(0, CONFIGS, "--describe", *entity, says="SCRAM-SHA-256=iterations=8192")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        x.come("SASL_SSL SCRAM-SHA-512", "sam", _sam(x, mechanism))
        x.wants(0, "TopicCommand", "--list", only="^never")
    x.come("SASL_SSL SCRAM-SHA-512", "admin")
    x.wants(0, CONFIGS, "--alter", *entity, "--add-config", "SCRAM-SHA-512=[password=another-password]")
    x.come("SASL_SSL SCRAM-SHA-512", "sam", _sam(x))
    x.wants(1, "TopicCommand", "--list", only=REFUSED)
    x.come("SASL_SSL SCRAM-SHA-512", "sam", _sam(x, password="another-password"))
    x.wants(0, "TopicCommand", "--list", only="^never")
    x.come("SASL_SSL SCRAM-SHA-512", "admin")
    x.wants(0, CONFIGS, "--alter", *entity, "--delete-config", "SCRAM-SHA-256")
    x.wants(0, CONFIGS, "--alter", *entity, "--delete-config", "SCRAM-SHA-512")
    x.come("SASL_SSL SCRAM-SHA-512", "sam", _sam(x, "SCRAM-SHA-256"))
    x.wants(1, "TopicCommand", "--list", only=REFUSED)


@story("kafka-configs", "configs of a topic, a quota of a user, a broker's configs; refused to who has no right")
def configs_of_all_kinds(x: SecuredStory) -> None:
    x.create("secured-configs")
    topic = ("--entity-type", "topics", "--entity-name", "secured-configs")
    x.wants(0, CONFIGS, "--alter", *topic, "--add-config", "retention.ms=123456")
    x.wants(0, CONFIGS, "--describe", *topic, says="retention.ms=123456")
    user = ("--entity-type", "users", "--entity-name", "rated")
    x.wants(0, CONFIGS, "--alter", *user, "--add-config", "producer_byte_rate=1048576")
    x.wants(0, CONFIGS, "--describe", *user, says="producer_byte_rate")
    x.wants(
        0, CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", 1, "--all", only="transactional.id.exp"
    )
    x.come("SASL_SSL SCRAM-SHA-512", "alice")
    x.wants(1, CONFIGS, "--alter", *topic, "--add-config", "retention.ms=1", only=REFUSED)


@story("kafka-acls", "rules added, listed, obeyed at once, removed")
def access_rules(x: SecuredStory) -> None:
    _make_sam(x)
    rule = ("--allow-principal", "User:sam", "--operation", "Create", "--operation", "Describe", "--topic", "sams-",
            "--resource-pattern-type", "prefixed")  # fmt: skip
    x.come("SASL_SSL SCRAM-SHA-512", "sam", _sam(x))
    x.wants(1, "TopicCommand", "--create", "--topic", "sams-first", only=REFUSED)
    x.wants(1, ACLS, "--list", only=REFUSED)
    x.come("SASL_SSL SCRAM-SHA-512", "admin")
    x.wants(0, ACLS, "--add", *rule)
    x.wants(0, ACLS, "--list", "--topic", "sams-", "--resource-pattern-type", "prefixed", says="User:sam")
    x.wants(0, ACLS, "--list", "--principal", "User:sam", says="sams-")
    x.come("SASL_SSL SCRAM-SHA-512", "sam", _sam(x))
    x.wants(0, "TopicCommand", "--create", "--topic", "sams-first")
    x.come("SASL_SSL SCRAM-SHA-512", "admin")
    x.wants(0, ACLS, "--remove", "--force", *rule)
    x.come("SASL_SSL SCRAM-SHA-512", "sam", _sam(x))
    x.wants(1, "TopicCommand", "--create", "--topic", "sams-second", only=REFUSED)


@story("kafka-topics", "create, list, describe, more partitions, delete; each refused to who has no right")
def topics(x: SecuredStory) -> None:
    x.wants(0, "TopicCommand", "--create", "--topic", "secured-topic", "--partitions", 2)
    x.wants(0, "TopicCommand", "--list", only="^secured-topic", says="secured-topic")
    x.wants(0, "TopicCommand", "--describe", "--topic", "secured-topic", says="PartitionCount: 2")
    x.wants(0, "TopicCommand", "--alter", "--topic", "secured-topic", "--partitions", 3)
    x.wants(0, "TopicCommand", "--describe", "--topic", "secured-topic", says="PartitionCount: 3")
    x.come("SASL_SSL SCRAM-SHA-512", "alice")
    x.wants(1, "TopicCommand", "--alter", "--topic", "secured-topic", "--partitions", 4, only=REFUSED)
    x.wants(1, "TopicCommand", "--delete", "--topic", "secured-topic", only=REFUSED)
    x.come("SASL_SSL SCRAM-SHA-512", "admin")
    x.wants(0, "TopicCommand", "--delete", "--topic", "secured-topic")


@story(
    "kafka-console-producer, kafka-console-consumer, kafka-get-offsets, kafka-delete-records",
    "records written, read in a group, counted, deleted",
)
def records(x: SecuredStory) -> None:
    x.create("secured-records")
    x.come("SASL_SSL SCRAM-SHA-512", "alice")
    x.wants(0, "ConsoleProducer", "--topic", "secured-records", text="one\ntwo\n", only="^never")
    x.wants(0, "consumer.ConsoleConsumer", "--topic", "secured-records", "--from-beginning", "--max-messages", 2,
            "--group", "secured-readers", "--timeout-ms", 15000, "--isolation-level", "read_committed",
            leave_out="Processed", says="two")  # fmt: skip
    x.come("SASL_SSL SCRAM-SHA-512", "admin")
    x.wants(0, "GetOffsetShell", "--topic", "secured-records", says=":2")
    file = x.work / "offsets.json"
    file.write_text(
        json.dumps({"partitions": [{"topic": "secured-records", "partition": 0, "offset": 1}], "version": 1})
    )
    x.wants(0, "DeleteRecordsCommand", "--offset-json-file", file, says="low_watermark: 1")


@story("kafka-consumer-groups", "list, describe, state, reset offsets, delete; refused to who has no right")
def groups(x: SecuredStory) -> None:
    x.create("secured-grouped")
    x.wants(0, "ConsoleProducer", "--topic", "secured-grouped", text="one\ntwo\n", only="^never")
    x.wants(0, "consumer.ConsoleConsumer", "--topic", "secured-grouped", "--from-beginning", "--max-messages", 2,
            "--group", "secured-group", "--timeout-ms", 15000, leave_out="Processed", says="two")  # fmt: skip
    group = ("--group", "secured-group")
    x.wants(0, GROUPS, "--list", only="^secured-group", says="secured-group")
    x.wants(0, GROUPS, "--describe", *group, says="secured-grouped")
    x.wants(0, GROUPS, "--describe", "--state", *group, says="Empty")
    x.come("SASL_SSL SCRAM-SHA-512", "alice")
    x.wants(0, GROUPS, "--delete", *group, says="Group authorization failed")  # its exit status says nothing of it
    x.come("SASL_SSL SCRAM-SHA-512", "admin")
    x.wants(0, GROUPS, "--reset-offsets", *group, "--topic", "secured-grouped", "--to-earliest", "--execute")
    x.wants(0, GROUPS, "--delete", *group)


@story(
    "kafka-transactions",
    "list, describe, describe-producers, find-hanging, abort, forceTerminateTransaction; refused to who has no right",
)
def transactions(x: SecuredStory) -> None:
    x.create("secured-written")
    where = ("--topic", "secured-written", "--partition", 0)
    producer = sync.Producer(bootstrap_servers=x.bootstrap_servers, transactional_id="secured-1", **x.options)
    producer.start()
    try:
        producer.begin_transaction()
        producer.send_and_wait("secured-written", b"open", partition=0)
        x.wants(0, TRANSACTIONS, "list", shape=True, only="secured", says="Ongoing")
        x.wants(0, TRANSACTIONS, "describe", "--transactional-id", "secured-1", shape=True, says="Ongoing")
        x.wants(0, TRANSACTIONS, "describe-producers", *where, shape=True)
        x.wants(0, TRANSACTIONS, "find-hanging", *where)
        x.come("SASL_SSL SCRAM-SHA-512", "alice")
        x.wants(1, TRANSACTIONS, "abort", *where, "--start-offset", 0, only=REFUSED)
        x.come("SASL_SSL SCRAM-SHA-512", "admin")
        x.wants(0, TRANSACTIONS, "abort", *where, "--start-offset", 0)
        x.wants(0, TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", "secured-1")
    finally:
        producer.stop()  # says that its transaction was ended by somebody else


@story(
    "kafka-delegation-tokens", "create, describe, renew, a login by the token's id and MAC, expire, the login refused"
)
def delegation_tokens(x: SecuredStory) -> None:
    x.come("SASL_SSL SCRAM-SHA-512", "alice")
    made = x.do(TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:admin")
    line = next(line for line in made.lines if "User:alice" in line)
    token_id, mac = line.split()[:2]
    x.hide(token_id, "TOKEN")
    x.hide(mac, "MAC")
    owner = ("--owner-principal", "User:alice")
    x.wants(0, TOKENS, "--describe", *owner, says="TOKEN", only="TOKEN")
    x.wants(0, TOKENS, "--renew", "--renew-time-period", "-1", "--hmac", mac, says="Completed renew", only="Completed")
    by_token = _sam(x, "SCRAM-SHA-256").replace('username="sam"', f'username="{token_id}"').replace(SAM, mac)
    x.come("SASL_SSL SCRAM-SHA-512", "token", by_token.replace('";', '" tokenauth="true";'))
    x.wants(0, "TopicCommand", "--create", "--topic", "secured-by-token")
    x.wants(1, TOKENS, "--create", "--max-life-time-period", "-1", only="not allowed|UnsupportedByAuthentication")
    x.come("SASL_SSL SCRAM-SHA-512", "alice")
    x.wants(
        0, TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", mac, says="Completed expire", only="Completed"
    )
    x.come("SASL_SSL SCRAM-SHA-512", "token", by_token.replace('";', '" tokenauth="true";'))
    x.wants(1, "TopicCommand", "--list", only=REFUSED)


@story("kafka-cluster, kafka-features, kafka-log-dirs, kafka-broker-api-versions", "asked over TLS with a login")
def cluster(x: SecuredStory) -> None:
    line = next(each for each in x.do("ClusterTool", "cluster-id").lines if "Cluster ID" in each)
    x.hide(line.removeprefix("Cluster ID: "), "CLUSTER")
    x.wants(0, "ClusterTool", "cluster-id", says="Cluster ID: CLUSTER")
    x.wants(0, "FeatureCommand", "describe", only=r"group\.version")
    x.wants(0, "LogDirsCommand", "--describe", "--topic-list", "none", says="Received log directory", only="Received")
    x.wants(0, "BrokerApiVersionsCommand", only="SaslHandshake|SaslAuthenticate", says="SaslAuthenticate")


@story(
    "kafka-topics",
    "by every way: PLAINTEXT, SSL, mTLS, SASL_PLAINTEXT and SASL_SSL with each mechanism and a delegation token",
)
def every_way(x: SecuredStory) -> None:
    x.create("secured-seen")
    for way, user in x.logins:
        if user == "alice":
            x.come(way, user)
            x.wants(0, "TopicCommand", "--list", only="^secured-seen", says="secured-seen")


@story("kafka-topics", "by every way with a wrong secret: refused with Java's own error")
def every_way_with_a_wrong_secret(x: SecuredStory) -> None:
    for way, user in x.logins:
        if user == "wrong":
            x.come(way, user)
            x.wants(1, "TopicCommand", "--list", only="Error while executing", says="Error while executing")

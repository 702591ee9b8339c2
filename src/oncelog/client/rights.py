"""What to do about a refusal. Of the authorizer: which right is missing, whose, and the command that gives it; of others, where
the code alone says what helps.

A broker answers with a code alone (29, 30, 31, 53); whoever reads the error is seldom who may change the rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.core.producer.manager_config import AND, WRITE_PREPARED
from oncelog.core.shell_words import quoted
from oncelog.errors import ErrorCode, KafkaError, error_for
from oncelog.lazy_dataclass import dataclass

_OPTIONS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("topic", "--topic", ""),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("group", "--group", "read"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ("transactional id", "--transactional-id", "write"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ("the cluster", "--cluster", "idempotent-write"),
}
OF_TOPICS = {"consumer": "read", "share consumer": "read", "producer": "write", "admin": "describe"}
RIGHTS = frozenset(_OPTIONS)
_TOPIC, _GROUP, _ID, _CLUSTER = _OPTIONS

# What is looked at before an admin's request is answered. Who asks for the coordinator of a group or an id needs DESCRIBE, which
# each right of these to it brings along; so that one rule is enough, the request behind the question decides.
NEEDED: Mapping[str, Mapping[ErrorCode, str]] = {
    "MetadataRequest": {_TOPIC: "describe"},
    "CreateTopicsRequest": {_TOPIC: "create"},
    "DeleteTopicsRequest": {_TOPIC: "delete"},
    "CreatePartitionsRequest": {_TOPIC: "alter"},
    "DeleteRecordsRequest": {_TOPIC: "delete"},
    "ListOffsetsRequest": {_TOPIC: "describe"},
    "FetchRequest": {_TOPIC: "read"},
    "DescribeProducersRequest": {_TOPIC: "read"},
    "DescribeGroupsRequest": {_GROUP: "describe", _TOPIC: "describe"},
    "ConsumerGroupDescribeRequest": {_GROUP: "describe", _TOPIC: "describe"},
    "ShareGroupDescribeRequest": {_GROUP: "describe", _TOPIC: "describe"},
    "StreamsGroupDescribeRequest": {_GROUP: "describe", _TOPIC: "describe"},
    "DeleteGroupsRequest": {_GROUP: "delete"},
    "OffsetFetchRequest": {_GROUP: "describe", _TOPIC: "describe"},
    "OffsetCommitRequest": {_GROUP: "read", _TOPIC: "read"},
    "OffsetDeleteRequest": {_GROUP: "delete", _TOPIC: "read"},
    "DescribeShareGroupOffsetsRequest": {_GROUP: "describe", _TOPIC: "describe"},
    "AlterShareGroupOffsetsRequest": {_GROUP: "read", _TOPIC: "read"},
    "DeleteShareGroupOffsetsRequest": {_GROUP: "delete", _TOPIC: "read"},
    "DescribeTransactionsRequest": {_ID: "describe"},
    "InitProducerIdRequest": {_ID: "write", _CLUSTER: "idempotent-write"},
    "EndTxnRequest": {_ID: "write"},
    "WriteTxnMarkersRequest": {_CLUSTER: "alter"},
    "DescribeAclsRequest": {_CLUSTER: "describe"},
    "CreateAclsRequest": {_CLUSTER: "alter"},
    "DeleteAclsRequest": {_CLUSTER: "alter"},
    "DescribeConfigsRequest": {_CLUSTER: "describe-configs", _TOPIC: "describe-configs", _GROUP: "describe-configs"},
    "IncrementalAlterConfigsRequest": {_CLUSTER: "alter-configs", _TOPIC: "alter-configs", _GROUP: "alter-configs"},
    "ListConfigResourcesRequest": {_CLUSTER: "describe-configs"},
    "DescribeClientQuotasRequest": {_CLUSTER: "describe-configs"},
    "AlterClientQuotasRequest": {_CLUSTER: "alter-configs"},
    "DescribeUserScramCredentialsRequest": {_CLUSTER: "describe"},
    "AlterUserScramCredentialsRequest": {_CLUSTER: "alter"},
    "UpdateFeaturesRequest": {_CLUSTER: "alter"},
    "DescribeLogDirsRequest": {_CLUSTER: "describe"},
    "DescribeQuorumRequest": {_CLUSTER: "describe"},
    "ElectLeadersRequest": {_CLUSTER: "alter"},
}

_NEEDS, _NOBODY = " needs the right to ", "User:ANONYMOUS"
# A broker gives the same code for the one and the other (KIP-939); without an authorizer no right helps.
_BROKER_KEY = "; the broker must have transaction.two.phase.commit.enable=true"
_WITH_AUTHORIZER = "and where it has an authorizer, "

_NEXT_STEPS = {
    ErrorCode.NON_EMPTY_GROUP: "stop its members first",
    ErrorCode.GROUP_ID_NOT_FOUND: "`oncelog groups list` shows which groups there are, and of which type each is",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "its members are of another type (`oncelog groups list`) or assign otherwise: choose another group_id, or stop them first"
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read that topic: stop them first",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "transaction_timeout_ms may be no more than transaction.max.timeout.ms of the broker (15 minutes by default)"
    ),
}


def next_step(error_code: int) -> str:
    """To be put behind an error's text; "" where the code says nothing of what helps."""
    found = _NEXT_STEPS.get(ErrorCode(error_code)) if error_code in _NEXT_STEPS else None
    return f"; {found}" if found else ""


@dataclass(frozen=True, slots=True)
class Rights:
    """Of one client: what it does with topics, and its user's name where the client knows it."""

    of_topics: str  # the operation
    user: str = ""

    def operation_for(self, request: type[object] | None, error_code: int) -> str:
        """The right that an admin's request was refused for the lack of; "" where a client's kind says it."""
        if request is None or self.of_topics != OF_TOPICS["admin"] or error_code not in RIGHTS:
            return ""
        return NEEDED.get(request.__name__, {}).get(ErrorCode(error_code), "")

    def no_coordinator(self, error_code: int, key: str, request: type[object] | None) -> KafkaError:
        """Why nobody is known to coordinate this group or transactional id, of which such a request is to be asked."""
        why = "may not be asked for" if error_code in RIGHTS else "was not found"
        return self.refusal(error_code, f"the coordinator of {key!r} {why}", key, request)

    def refusal(self, error_code: int, text: str, name: str, request: type[object] | None) -> KafkaError:
        """The error of such a refused request, with the way out."""
        return error_for(error_code, text + self.way_out(error_code, name, self.operation_for(request, error_code)))

    def way_out(self, error_code: int, name: str, operation: str = "", *, prefix: str = "") -> str:
        """To be put behind an error's text; "" where nothing is known to help. Of rights, `name`: the topic's, group's or
        transactional id's; `operation` (default: what such a client does with it) is the right that is missing, or
        `WRITE_PREPARED`. `prefix`: of many names, at a broker that prepares where that is asked for; the rule is one of all."""
        found = _OPTIONS.get(ErrorCode(error_code)) if error_code in _OPTIONS else None
        if found is None:
            return next_step(error_code)
        kind, option, usual = found
        if not name and option != "--cluster":
            return ""  # the broker does not say of which
        operation = operation or usual or self.of_topics
        resource = kind if option == "--cluster" else f"{kind} {name!r}"
        argument = "" if option == "--cluster" else f" {quoted(name)}"
        if prefix:
            resource, argument = f"each {kind} that begins with {prefix!r}", f" {quoted(prefix)} --prefixed"
        who = f"User:{self.user}" if self.user else "its user"
        may_be_made = option == "--topic" and "describe" not in (operation, self.of_topics)
        also = " (create too where it does not exist yet)" if may_be_made else ""
        if option == "--transactional-id" and self.of_topics == OF_TOPICS["producer"] and not prefix:
            also = " (this producer is over: make a new one then)"
        first = f"{_BROKER_KEY}; {_WITH_AUTHORIZER}" if operation == WRITE_PREPARED and not prefix else "; "
        return (
            f"{first}{who}{_NEEDS}{operation} {resource}{also}: oncelog acls add {option}{argument} "
            f"--principal {quoted(f'User:{self.user}') if self.user else 'User:NAME'} "
            + " ".join(f"--operation {each}" for each in operation.split(AND))
        )


def named_user(text: str) -> str:
    """Whose right an error's text names; "" where it names nobody."""
    head, found, _ = text.partition(_NEEDS)
    who = head.rpartition("; ")[2].removeprefix(_WITH_AUTHORIZER)
    return who.removeprefix("User:") if found and who.startswith("User:") else ""


def without_right(text: str) -> str:
    """An error's text before the right that it names, if it names one."""
    head, found, _ = text.partition(_NEEDS)
    return head.rpartition("; ")[0].removesuffix(_BROKER_KEY) if found else text


def as_second_reason(text: str) -> str:
    """An error's text, where another reason than a missing right is likelier: the right comes second, and nowhere where nobody is
    logged in, as there are hardly any rights then."""
    head, found, tail = text.partition(_NEEDS)
    said, _, who = head.rpartition("; ")
    if not found or not said:
        return text
    said, who = said.removesuffix(_BROKER_KEY), who.removeprefix(_WITH_AUTHORIZER)
    return said if who == _NOBODY else f"{said}; or, where it is so already, {who}{_NEEDS}{tail}"

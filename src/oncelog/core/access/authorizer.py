"""Who may do what: the decisions of Kafka's StandardAuthorizer over the cluster's access rules.

Denials win. A right to read, write, delete or alter is also one to describe, and to alter configs one to describe them;
a denial implies nothing. Where no rule is about a resource, `allow.everyone.if.no.acl.found` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from ipaddress import ip_address

from oncelog.core.metadata.acl import ANYBODY, SUPPORTED_OPERATIONS, WILDCARD, AclBinding
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
FORMER_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
ANONYMOUS = "User:ANONYMOUS"

_IMPLIED_BY: dict[int, frozenset[int]] = {
    Operation.DESCRIBE: frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
_NOTHING: frozenset[int] = frozenset()
# Kafka asks about a topic of this name to learn what a principal may do that no rule mentions.
_NOBODYS_NAME = "hardcode"
_DECISIONS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks: the principal ("User:alice") and the address it comes from."""

    principal: str = ANONYMOUS
    host: str = ""


class Authorizer:
    """Decides with the rules as they are now: `acls` is the metadata's own mapping, `acls_version` grows with its changes.

    Decisions are remembered until a rule changes: a reader asks about the same partitions again and again.
    """

    def __init__(
        self,
        acls: Mapping[bytes, AclBinding],
        *,
        super_users: Collection[str] = (),
        allows_without_acl: bool = False,
        acls_version: Callable[[], int] = lambda: 0,
    ) -> None:
        self._acls = acls
        self._super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self._acls_version = acls_version
        self._decided: dict[tuple[str, str, int, int, str], bool] = {}
        self._decided_with = acls_version()

    def allows(self, who: Identity, operation: int, resource_type: int, name: str) -> bool:
        """Whether `who` may do `operation` on the resource."""
        if who.principal in self._super_users:
            return True
        if self._decided_with != self._acls_version() or len(self._decided) >= _DECISIONS_MAX:
            self._decided.clear()
            self._decided_with = self._acls_version()
        question = (who.principal, who.host, operation, resource_type, name)
        decided = self._decided.get(question)
        if decided is None:
            decided = self._decided[question] = self._decide(who, operation, resource_type, name)
        return decided

    def _decide(self, who: Identity, operation: int, resource_type: int, name: str) -> bool:
        is_about_it = is_allowed = False
        for acl in self._acls.values():
            if not acl.covers(resource_type, name):
                continue
            is_about_it = True
            if not _is_for(acl, who):
                continue
            if acl.permission_type == Permission.DENY:
                if acl.operation in (Operation.ALL, operation):
                    return False
            elif acl.operation in (Operation.ALL, operation) or acl.operation in _IMPLIED_BY.get(operation, _NOTHING):
                is_allowed = True
        return is_allowed or (not is_about_it and self._allows_without_acl)

    def allows_some(self, who: Identity, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of this type on which `who` may do `operation` (KIP-679)."""
        if self.allows(who, operation, resource_type, _NOBODYS_NAME):
            return True
        rules = [
            acl
            for acl in self._acls.values()
            if acl.resource_type == resource_type and _is_for(acl, who) and acl.operation in (Operation.ALL, operation)
        ]
        denied = [acl for acl in rules if acl.permission_type == Permission.DENY]
        return any(
            acl.permission_type == Permission.ALLOW and not any(_outweighs(denial, acl) for denial in denied)
            for acl in rules
        )

    def operations(self, who: Identity, resource_type: ResourceType, name: str) -> int:
        """What `who` may do on a resource, as the bits of AclOperation that responses carry."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.allows(who, operation, resource_type, name)
        )


def super_users_of(text: str) -> frozenset[str]:
    """The principals of `super.users`: "User:a;User:b". Raises ValueError for one that is not type:name."""
    names = frozenset(name for part in text.split(";") if (name := part.strip()))
    for name in names:
        if not all(name.partition(":")):
            raise ValueError(f"{name!r} is not written as type:name")
    return names


def _is_for(acl: AclBinding, who: Identity) -> bool:
    return acl.principal in (ANYBODY, who.principal) and (acl.host == WILDCARD or _is_same_host(acl.host, who.host))


def _is_same_host(named: str, host: str) -> bool:
    """An IPv6 address is spelled in many ways: 0:0:0:0:0:0:0:1 by Java, and so in Kafka's rules, ::1 by Python."""
    if named == host or ":" not in named or ":" not in host:
        return named == host
    try:
        return ip_address(named) == ip_address(host)
    except ValueError:
        return False


def _outweighs(denial: AclBinding, allowed: AclBinding) -> bool:
    """Whether nothing is left of what `allowed` grants."""
    if denial.pattern_type == PatternType.LITERAL:
        if denial.resource_name == WILDCARD:
            return True
        return allowed.pattern_type == PatternType.LITERAL and allowed.resource_name == denial.resource_name
    if allowed.pattern_type == PatternType.LITERAL and allowed.resource_name == WILDCARD:
        return False
    return allowed.resource_name.startswith(denial.resource_name)

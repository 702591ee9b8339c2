"""Access rules as values: whom they are for, on what, and which filters match them (KIP-11, KIP-290).

Deciding with rules is in `core/access/authorizer.py`, changing them in `acls.py`; the numbers are `wire/access_rules.py`'s.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType

WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"
ANYBODY = "User:*"


_O = Operation
SUPPORTED_OPERATIONS: dict[ResourceType, frozenset[Operation]] = {
    ResourceType.TOPIC: frozenset(
        (_O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS)
    ),
    ResourceType.GROUP: frozenset((_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS)),
    ResourceType.CLUSTER: frozenset(
        (
            _O.CREATE,
            _O.CLUSTER_ACTION,
            _O.DESCRIBE_CONFIGS,
            _O.ALTER_CONFIGS,
            _O.IDEMPOTENT_WRITE,
            _O.ALTER,
            _O.DESCRIBE,
        )
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset((_O.DESCRIBE, _O.WRITE, _O.TWO_PHASE_COMMIT)),
}


class AclBinding(NamedTuple):
    """One rule: `principal` ("User:alice") from `host` may or may not do `operation` on the resources of the pattern."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def covers(self, resource_type: int, name: str) -> bool:
        """Whether the rule is about the resource of this type and name."""
        if resource_type != self.resource_type:
            return False
        if self.pattern_type == PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)


class AclFilter(NamedTuple):
    """Which rules are meant; None for a name, principal or host stands for every one."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @property
    def is_unknown(self) -> bool:
        """Whether it has a number that no rule can have: a newer client's, or a mistake."""
        return not (
            ResourceType.ANY <= self.resource_type <= ResourceType.USER
            and PatternType.ANY <= self.pattern_type <= PatternType.PREFIXED
            and Operation.ANY <= self.operation <= Operation.TWO_PHASE_COMMIT
            and Permission.ANY <= self.permission_type <= Permission.ALLOW
        )

    def matches(self, binding: AclBinding) -> bool:
        """Whether a rule is among those meant."""
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self._matches_pattern(binding)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (Operation.ANY, binding.operation)
            and self.permission_type in (Permission.ANY, binding.permission_type)
        )

    def _matches_pattern(self, binding: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, binding.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type == PatternType.MATCH:  # the rules that are about a resource of this name
            return binding.covers(binding.resource_type, self.resource_name)
        return self.resource_name == binding.resource_name

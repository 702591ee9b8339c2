"""Which access rules CreateAcls refuses, and why."""

from __future__ import annotations

import itertools

import pytest

from oncelog.core.metadata.acls import create_acls
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType
from oncelog.wire.messages.create_acls import AclCreation

RULE = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="t",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:a",
    host="*",
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)


def created(creation):
    return create_acls({}, [creation], itertools.count().__next__)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"resource_type": ResourceType.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_pattern_type": PatternType.MATCH}, "Invalid pattern type MATCH"),
        ({"resource_type": ResourceType.ANY}, "Invalid resource type ANY"),
        ({"principal": "a"}, "Could not parse principal from `a`"),
        ({"operation": Operation.ANY}, "Invalid operation type ANY"),
        ({"permission_type": Permission.ANY}, "Invalid permission type ANY"),
    ],
)
def test_what_could_never_hold_is_no_rule(change, says):
    records, [result] = created(RULE)
    assert (len(records), result.error_code) == (1, ErrorCode.NONE)
    records, [result] = created(RULE.replace(**change))
    assert (records, result.error_code) == ([], ErrorCode.INVALID_REQUEST)
    assert result.error_message.startswith(says)

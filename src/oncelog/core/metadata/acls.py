"""What CreateAcls, DeleteAcls and DescribeAcls answer and write, as decisions over the cluster's access rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oncelog.core.metadata.acl import CLUSTER_NAME, AclBinding, AclFilter
from oncelog.core.metadata.cluster import acl_record
from oncelog.core.metadata.refusal import Refusal, limit_refusal
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType
from oncelog.wire.log_records.cluster_metadata import AclRecord, RemoveAclRecord
from oncelog.wire.messages.create_acls import AclCreation, AclCreationResult
from oncelog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl
from oncelog.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

Acls = Mapping[bytes, AclBinding]
DEFAULT_COUNT_MAX = 10_000
SWITCHED_OFF = Refusal(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
UNKNOWN_NUMBERS = Refusal(ErrorCode.INVALID_REQUEST, "The rules or filters contain elements that are not known here.")


def binding_of(creation: AclCreation) -> AclBinding:
    """The rule that a request asks for."""
    return AclBinding(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def has_unknown_numbers(creation: AclCreation) -> bool:
    """Whether a rule has a number that this broker does not know; Kafka refuses the whole request for one of them."""
    return not (
        ResourceType.ANY <= creation.resource_type <= ResourceType.USER
        and PatternType.ANY <= creation.resource_pattern_type <= PatternType.PREFIXED
        and Operation.ANY <= creation.operation <= Operation.TWO_PHASE_COMMIT
        and Permission.ANY <= creation.permission_type <= Permission.ALLOW
    )


def create_acls(
    acls: Acls, creations: Sequence[AclCreation], new_id: Callable[[], bytes], count_max: int = DEFAULT_COUNT_MAX
) -> tuple[list[AclRecord], list[AclCreationResult]]:
    """The records of the rules that are new, and one result for each rule asked for; one that is there is fine.

    Rules beyond `count_max` are refused, POLICY_VIOLATION.
    """
    over = limit_refusal("oncelog.max.acls", count_max, "access rules")
    known = set(acls.values())
    records: list[AclRecord] = []
    results: list[AclCreationResult] = []
    for creation in creations:
        binding = binding_of(creation)
        fault = _fault(binding)
        code = ErrorCode.INVALID_REQUEST if fault else ErrorCode.NONE
        if fault is None and binding not in known:
            if len(known) >= count_max:
                code, fault = over.error_code, over.message
            else:
                known.add(binding)
                records.append(acl_record(new_id(), binding))
        results.append(AclCreationResult(error_code=code, error_message=fault or ""))
    return records, results


def _fault(binding: AclBinding) -> str | None:
    if binding.resource_type == ResourceType.CLUSTER and binding.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not binding.resource_name:
        return "Invalid empty resource name"
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid pattern type {PatternType(binding.pattern_type).name}"
    if binding.resource_type == ResourceType.ANY:
        return "Invalid resource type ANY"
    kind, colon, _ = binding.principal.partition(":")
    if not colon:
        return (
            f"Could not parse principal from `{binding.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if not kind:
        return f"Could not parse principal from `{binding.principal}` (nothing is before the colon)"
    if binding.operation == Operation.ANY:
        return "Invalid operation type ANY"
    if binding.permission_type == Permission.ANY:
        return "Invalid permission type ANY"
    return None


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter that a request carries."""
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def describe_acls(acls: Acls, asked: DescribeAclsRequest) -> DescribeAclsResponse:
    """The rules that match, by what they are about."""
    wanted = filter_of(asked)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in sorted(each for each in acls.values() if wanted.matches(each)):
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        found = resources.setdefault(
            key, DescribeAclsResource(resource_type=key[0], resource_name=key[1], pattern_type=key[2], acls=[])
        )
        found.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))


def delete_acls(
    acls: Acls, filters: Sequence[DeleteAclsFilter]
) -> tuple[list[RemoveAclRecord], list[DeleteAclsFilterResult]]:
    """The records that remove what matches, and per filter what it matched; a rule is removed once."""
    removed: dict[bytes, RemoveAclRecord] = {}
    results = []
    for asked in filters:
        wanted = filter_of(asked)
        matching = {acl_id: acl for acl_id, acl in acls.items() if wanted.matches(acl) and acl_id not in removed}
        removed |= {acl_id: RemoveAclRecord(acl_id=acl_id) for acl_id in matching}
        results.append(DeleteAclsFilterResult(matching_acls=[_matching(acl) for acl in matching.values()]))
    return list(removed.values()), results


def _matching(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )

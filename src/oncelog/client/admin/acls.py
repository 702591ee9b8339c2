"""Access rules: who may do what on which resources (KIP-11, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from oncelog.client import arguments
from oncelog.client.admin.session import AdminSession
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog.wire.messages.describe_acls import DescribeAclsRequest
from oncelog.wire.schema import Struct

ANY = "any"


def _number(kind: type[Any], name: str) -> int:
    known = {_name(each): int(each) for each in kind if each.value}
    return known[arguments.one_of(kind.__name__.lower(), name.lower() if isinstance(name, str) else name, known)]


def _name(value: Any) -> str:
    return str(value.name).lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Acl:
    """One rule. Names are Kafka's in lower case: resource_type "topic", "group", "cluster" (resource_name is then
    "kafka-cluster"), "transactional-id"; pattern_type "literal" or "prefixed"; operation "read", "write", "all" ...;
    permission "allow" or "deny". `principal` is "User:name" or "User:*", `host` an address or "*".
    """

    resource_type: str
    resource_name: str
    principal: str
    operation: str
    permission: str = "allow"
    pattern_type: str = "literal"
    host: str = "*"

    @classmethod
    def _of(cls, resource: Any, rule: Any) -> Self:
        return cls(
            _name(ResourceType(resource.resource_type)),
            resource.resource_name,
            rule.principal,
            _name(Operation(rule.operation)),
            _name(Permission(rule.permission_type)),
            _name(PatternType(resource.pattern_type)),
            rule.host,
        )


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which rules are meant; None and "any" stand for every one, pattern_type "match" for those about a name."""

    resource_type: str = ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: str = ANY
    permission: str = ANY
    pattern_type: str = ANY
    host: str | None = None

    def _of_request(self) -> dict[str, Any]:
        return {
            "resource_type_filter": _number(ResourceType, self.resource_type),
            "resource_name_filter": arguments.text_or_none("resource_name", self.resource_name),
            "pattern_type_filter": _number(PatternType, self.pattern_type),
            "principal_filter": arguments.text_or_none("principal", self.principal),
            "host_filter": arguments.text_or_none("host", self.host),
            "operation": _number(Operation, self.operation),
            "permission_type": _number(Permission, self.permission),
        }


class AdminAcls(AdminSession):
    """What an admin can do with access rules. Raises SecurityDisabled where the broker has no authorizer."""

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The rules that match (default: all)."""
        wanted = AclFilter() if wanted is None else arguments.instance("wanted", wanted, AclFilter)
        message = DescribeAclsRequest(**wanted._of_request())
        response = await self._ask_any("describe access rules", message, is_question=True)
        return [Acl._of(resource, rule) for resource in response.resources for rule in resource.acls]

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Add rules; one that is there is fine. All are tried; then the first error is raised."""
        creations = [
            AclCreation(
                resource_type=_number(ResourceType, acl.resource_type),
                resource_name=arguments.text("resource_name", acl.resource_name),
                resource_pattern_type=_number(PatternType, acl.pattern_type),
                principal=arguments.text("principal", acl.principal),
                host=arguments.text("host", acl.host),
                operation=_number(Operation, acl.operation),
                permission_type=_number(Permission, acl.permission),
            )
            for acl in (
                arguments.instance("an access rule", each, Acl) for each in arguments.items("acls", acls, of="Acls")
            )
        ]

        def check(response: Any) -> None:
            self._raise_first_of_rules(CreateAclsRequest, response.results, "create access rules")

        await self._ask_controller("create access rules", CreateAclsRequest(creations=creations), check)

    async def delete_acls(self, filters: Iterable[AclFilter]) -> list[Acl]:
        """Remove what matches one of the filters; gives what was removed."""
        wanted = [
            arguments.instance("a filter", each, AclFilter)
            for each in arguments.items("filters", filters, of="AclFilters")
        ]
        message = DeleteAclsRequest(filters=[DeleteAclsFilter(**each._of_request()) for each in wanted])

        def check(response: Any) -> None:
            self._raise_first_of_rules(DeleteAclsRequest, response.filter_results, "delete access rules")

        response = await self._ask_controller("delete access rules", message, check)
        return [Acl._of(acl, acl) for result in response.filter_results for acl in result.matching_acls]

    def _raise_first_of_rules(self, request: type[Struct], results: Iterable[Any], what: str) -> None:
        for each in results:
            if each.error_code:
                raise self._refusal(request, each.error_code, what, told=each.error_message)

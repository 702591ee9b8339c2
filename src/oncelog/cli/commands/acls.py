"""`oncelog acls`: who may do what, where the broker has an authorizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from ipaddress import ip_address
from typing import Any

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Group, Settings
from oncelog.cli.output import columns, counted
from oncelog.client.admin.acls import ANY, Acl, AclFilter
from oncelog.errors import ErrorCode, error_for

CLUSTER_NAME = "kafka-cluster"
COLUMNS = columns("resource_type", "resource_name", "pattern_type", "principal", "host", "permission", "operation")

OPERATIONS_OF = {  # Kafka's AclEntry.supportedOperations
    "topic": ("read", "write", "create", "describe", "delete", "alter", "describe-configs", "alter-configs", "all"),
    "group": ("read", "describe", "delete", "describe-configs", "alter-configs", "all"),
    "transactional-id": ("describe", "write", "two-phase-commit", "all"),
    "cluster": (
        *("create", "cluster-action", "describe-configs", "alter-configs", "idempotent-write", "alter", "describe"),
        "all",
    ),
}
OPERATIONS = frozenset(name for names in OPERATIONS_OF.values() for name in names)


@click.group(cls=Group)
def acls() -> None:
    """Access rules: list, add, remove.

    \b
    A principal is User:name, or User:* for everybody. Denials win over allowances. A right to read, write, delete or
    alter is also one to describe. A resource that no rule is about follows allow.everyone.if.no.acl.found.
    """


def _of_a_resource(body: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option("--transactional-id", metavar="ID", help="A transactional id; '*' is every one."),
        click.option("--group", metavar="NAME", help="A group; '*' is every one."),
        click.option("--topic", metavar="NAME", help="A topic; '*' is every one."),
    ):
        body = option(body)
    return body


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> tuple[str, str] | None:
    given = [
        (kind, name)
        for kind, name in (
            ("topic", topic),
            ("group", group),
            ("transactional-id", transactional_id),
            ("cluster", CLUSTER_NAME if cluster else None),
        )
        if name
    ]
    if len(given) > 1:
        raise click.UsageError("one resource at a time: --topic, --group, --transactional-id or --cluster")
    return given[0] if given else None


def _check_operations(kind: str, operations: tuple[str, ...]) -> None:
    """A rule about what nobody can do with such a resource would look like protection."""
    for operation in operations:
        if operation.lower() in OPERATIONS and operation.lower() not in OPERATIONS_OF[kind]:
            known = ", ".join(OPERATIONS_OF[kind])
            raise click.UsageError(f"a {kind} has no operation {operation!r}: it has {known}")


def _check_host(host: str) -> None:
    """Clients are told apart by their address: a rule for anything else would be one for nobody, and look like protection."""
    try:
        if host != "*":
            ip_address(host)
    except ValueError:
        told = "an address, such as 10.0.0.1, or '*' (rules know no names and no networks)"
        raise click.UsageError(f"--host {host}: {told}") from None


def _check_principal(principal: str) -> None:
    """As the broker does. Raises InvalidRequest."""
    kind, colon, _ = principal.partition(":")
    if not (kind and colon):
        text = f"Could not parse principal from `{principal}`: it is written TYPE:NAME, as User:alice"
        raise error_for(ErrorCode.INVALID_REQUEST, text)


def _rows(settings: Settings, found: list[Acl], empty: str) -> None:
    settings.out.rows(COLUMNS, [asdict(acl) for acl in found], empty=empty)


@acls.command("list", watchable=True)
@_of_a_resource
@click.option("--principal", metavar="TYPE:NAME", help="Rules for this principal only.")
@click.option("--matching", is_flag=True, help="All rules about a resource of this name: prefixes and '*', too.")
@click.pass_obj
async def list_acls(
    settings: Settings,
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    principal: str | None,
    matching: bool,
) -> None:
    """The rules, all or those about one resource."""
    kind, name = _resource(topic, group, transactional_id, cluster) or (ANY, None)
    if matching and name is None:
        raise click.UsageError("--matching needs a resource: --topic, --group, --transactional-id or --cluster")
    wanted = AclFilter(kind, name, principal, pattern_type="match" if matching else ANY)
    async with open_admin(settings) as admin:
        found = await admin.describe_acls(wanted)
    _rows(settings, found, "there are no such rules")


@acls.command("add", changes=True)
@_of_a_resource
@click.option("--principal", required=True, metavar="TYPE:NAME", help="Whom the rule is for: User:name or User:*.")
@click.option("--operation", "operations", multiple=True, required=True, metavar="NAME", help="read, write, all, ...")
@click.option("--deny", is_flag=True, help="Deny instead of allow.")
@click.option("--host", default="*", metavar="ADDRESS", help="From this address only.")
@click.option("--prefixed", is_flag=True, help="Every resource whose name begins so.")
@click.pass_obj
async def add_acls(
    settings: Settings,
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    principal: str,
    operations: tuple[str, ...],
    deny: bool,
    host: str,
    prefixed: bool,
) -> None:
    """Add one rule per operation."""
    resource = _resource(topic, group, transactional_id, cluster)
    if resource is None:
        raise click.UsageError("say of what: --topic, --group, --transactional-id or --cluster")
    _check_operations(resource[0], operations)
    _check_host(host)
    permission, pattern = "deny" if deny else "allow", "prefixed" if prefixed else "literal"
    made = [Acl(*resource, principal, operation, permission, pattern, host) for operation in operations]
    async with open_admin(settings) as admin:
        if settings.dry_run:
            await admin.describe_acls(AclFilter(*resource))  # who has no authorizer refuses this, too
            _check_principal(principal)
        else:
            await admin.create_acls(made)
    _rows(settings, made, "")


@acls.command("remove", changes=True)
@_of_a_resource
@click.option("--principal", metavar="TYPE:NAME", help="Rules for this principal only.")
@click.option("--operation", default=ANY, metavar="NAME", help="Rules about this operation only.")
@click.option("--prefixed", is_flag=True, help="Rules for names that begin so, instead of the very name.")
@click.pass_obj
async def remove_acls(
    settings: Settings,
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    principal: str | None,
    operation: str,
    prefixed: bool,
) -> None:
    """Remove the rules that match; shows them."""
    resource = _resource(topic, group, transactional_id, cluster)
    if resource is None and principal is None:
        raise click.UsageError("say which: a resource (--topic ...), or --principal")
    if operation.lower() not in OPERATIONS | {ANY}:
        raise click.UsageError(f"--operation {operation}: one of {', '.join(sorted(OPERATIONS))}")
    kind, name = resource or (ANY, None)
    pattern = ANY if resource is None else "prefixed" if prefixed else "literal"
    wanted = AclFilter(kind, name, principal, operation, pattern_type=pattern)
    async with open_admin(settings) as admin:
        found = await admin.describe_acls(wanted)
        if (
            found
            and settings.confirm(f"remove {counted(len(found), 'access rule')}", "remove")
            and not settings.dry_run
        ):
            found = await admin.delete_acls([wanted])
    _rows(settings, found, "there are no such rules")

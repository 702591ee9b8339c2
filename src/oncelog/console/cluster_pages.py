"""Topics, configurations, access rules, quotas, brokers: rows of `oncelog topics | configs | acls | quotas ... -o json`.

Lists are cut here, not in the browser: a cluster may have ten thousand topics. Sensitive values are never asked for in clear.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from starlette.requests import Request

from oncelog.cli.commands.topics import NO_BOUNDS, partition_bounds
from oncelog.cli.hidden import TOPICS
from oncelog.cli.numbers import is_number
from oncelog.cli.unreadable import unread_row
from oncelog.client.admin.acls import ANY, AclFilter
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.configs import ConfigResource
from oncelog.console.answers import exact
from oncelog.console.pages import admin_of
from oncelog.console.unseen import as_row, unseen
from oncelog.errors import InvalidArgument, KafkaError
from oncelog.host.clock import RealClock
from oncelog.types import TopicPartition

ROWS_MAX = 200
ROWS_OF_ALL_MAX = 2_000
CONFIG_KINDS = ("topic", "broker", "group", "client-metrics")


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "") or "0"
    if not is_number(text) or int(text) >= 2**31:
        raise InvalidArgument(f"{name}={text}: a number")
    return int(text)


async def topics(request: Request) -> dict[str, Any]:
    """A page of the list, or with `topic` the partitions of one: `topics list` and `topics describe`."""
    admin, asked = await admin_of(request), request.query_params
    first = _number(request, "first")
    if asked.get("topic"):
        return await _topic(admin, asked["topic"], first)
    known = await request.app.state.watch.known_topics(admin)
    part = asked.get("contains", "")
    internal = asked.get("internal") == "1"
    names = sorted(each for each in known if part in each and (internal or not known[each].is_internal))
    rows = []
    for name in names[first : first + ROWS_MAX]:
        view = known[name]
        row: dict[str, Any] = {"topic": name, "partitions": len(view.partitions), "internal": view.is_internal}
        row |= {"replication": max((len(p.replica_nodes) for p in view.partitions.values()), default=0)}
        row |= {"offline": [number for number, each in sorted(view.partitions.items()) if each.is_offline][:ROWS_MAX]}
        rows.append(row | {"topic_id": view.topic_id.hex()})
    count = sum(len(known[name].partitions) for name in names)
    missing = [as_row(each) for each in await unseen(admin, TOPICS)]
    more = {"not_read": missing, "now_ms": RealClock().now_ms()}
    return {"rows": rows, "first": first, "count": len(names), "partitions": count, **more}


async def _topic(admin: Admin, name: str, first: int) -> dict[str, Any]:
    view = (await admin.describe_topics([name]))[name]
    numbers = sorted(view.partitions)[first : first + ROWS_MAX]
    unreadable: dict[TopicPartition, KafkaError] = {}
    bounds = await partition_bounds(admin, [TopicPartition(name, each) for each in numbers], unreadable=unreadable)
    rows = []
    for number in numbers:
        part, at = view.partitions[number], TopicPartition(name, number)
        row: dict[str, Any] = {"partition": number, "leader": part.leader_id, "leader_epoch": part.leader_epoch}
        row |= {"replicas": list(part.replica_nodes), "in_sync": list(part.isr_nodes)}
        row["state"] = "unreadable" if at in unreadable else "offline" if part.is_offline else "ok"
        rows.append(row | {key: exact(value) for key, value in bounds.get(at, NO_BOUNDS).items()})
    missing = [unread_row(at, e) for at, e in unreadable.items()]
    more = {"rows": rows, "first": first, "count": len(view.partitions), "not_read": missing}
    return {"topic": name, "now_ms": RealClock().now_ms(), **more}


async def configs(request: Request) -> dict[str, Any]:
    """`configs describe`: what is set of one resource, with `all=1` every key."""
    admin, asked = await admin_of(request), request.query_params
    kind, name = asked.get("kind", "") or "broker", asked.get("name", "")
    if kind not in CONFIG_KINDS or (kind != "broker" and not name):
        raise InvalidArgument(f"say whose: kind={'|'.join(CONFIG_KINDS)}&name=NAME")
    if kind == "broker" and name and not is_number(name):
        raise InvalidArgument(f"broker {name!r}: a broker's id is a number; none is what holds for every broker")
    if kind == "topic":
        await admin.describe_topics([name])
    resource = ConfigResource(kind, name)
    entries = (await admin.describe_configs([resource]))[resource]
    shown = [each for each in entries.values() if asked.get("all") == "1" or not each.is_default]
    rows = [
        {
            "key": each.name,
            "value": None if each.is_sensitive else each.value,
            "source": each.source,
            "read_only": each.is_read_only,
            "sensitive": each.is_sensitive,
        }
        for each in shown[:ROWS_OF_ALL_MAX]
    ]
    command = request.app.state.settings.repair(
        "configs", "set", f"--{kind}", name or "default", "KEY=VALUE", "--dry-run"
    )
    answer = {"kind": kind, "name": name, "rows": rows, "count": len(entries), "command": command}
    return answer | {"now_ms": RealClock().now_ms()}


async def access(request: Request) -> dict[str, Any]:
    """`acls list`: the rules, all or a principal's."""
    admin = await admin_of(request)
    part = request.query_params.get("contains", "")
    found = [dataclasses.asdict(each) for each in await admin.describe_acls(AclFilter(ANY))]
    rows = [each for each in found if any(part in str(value) for value in each.values())]
    return {"rows": rows[:ROWS_OF_ALL_MAX], "count": len(rows), "now_ms": RealClock().now_ms()}


async def quotas(request: Request) -> dict[str, Any]:
    """`quotas list`; a name of null is the default of its kind."""
    admin = await admin_of(request)
    found = await admin.describe_client_quotas({})
    rows = [
        {"entity": {kind: each.entity[kind] for kind in sorted(each.entity)}, "quota": key, "value": value}
        for each in found
        for key, value in each.values.items()
    ]
    return {"rows": rows[:ROWS_OF_ALL_MAX], "count": len(rows), "now_ms": RealClock().now_ms()}


async def brokers(request: Request) -> dict[str, Any]:
    """Brokers, their data directories, features. What cannot be asked is named and hides nothing else."""
    admin = await admin_of(request)
    cluster = await admin.describe_cluster()
    missing: list[dict[str, str]] = []
    directories: list[dict[str, Any]] = []
    features: list[dict[str, Any]] = []
    try:
        for each in await admin.describe_log_dirs():
            row = {"broker": each.node_id, "path": each.path, "partitions": len(each.partition_sizes)}
            sizes = {"size": sum(each.partition_sizes.values()), "total": each.total_bytes, "usable": each.usable_bytes}
            directories.append(row | {key: exact(value) for key, value in sizes.items()})
    except KafkaError as error:
        missing.append(unread_row("log directories", error))
    try:
        told = await admin.describe_features()
        features = [
            {"feature": name, "finalized": told.finalized.get(name), "supported": list(span)}
            for name, span in sorted(told.supported.items())
        ]
    except KafkaError as error:
        missing.append(unread_row("features", error))
    return {
        "cluster": cluster.cluster_id,
        "controller": cluster.controller_id,
        "rows": [{"id": each.node_id, "host": each.host, "port": each.port} for each in cluster.nodes],
        "directories": directories,
        "features": features,
        "not_read": missing,
        "now_ms": RealClock().now_ms(),
    }

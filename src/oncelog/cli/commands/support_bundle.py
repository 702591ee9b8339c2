"""`oncelog support-bundle`: what somebody who helps from afar needs to see, in one file, without secrets and records."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import platform
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

import oncelog
from oncelog.cli.clients import open_admin_that_looks, patient
from oncelog.cli.command import Settings, command, hint_for
from oncelog.cli.commands.doctor import examine
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.hidden import GROUPS, TOPICS, TRANSACTIONAL_IDS, why_not_all
from oncelog.cli.output import EXIT_FAILURE, Failed, columns, error_name, error_row, json_text
from oncelog.cli.redaction import client_settings_told, setting_told
from oncelog.cli.transactions.show import transaction_row
from oncelog.cli.watch.looks import Looks
from oncelog.cli.watch.screen import document
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.configs import ConfigResource
from oncelog.client.admin.session import Unreachable
from oncelog.client.admin.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from oncelog.client.cluster.view import TopicView
from oncelog.core.diagnosis.watching import Watching
from oncelog.errors import KafkaError, RequestTimedOut
from oncelog.host.clock import RealClock
from oncelog.host.network import RealNetwork
from oncelog.host.web import UrlInvalid, WebFailed, fetch, web_address
from oncelog.types import TopicPartition

TOPICS_MAX, GROUPS_MAX, IDS_MAX = 1_000, 200, 1_000
OLDER_THAN_MS = 10_000
PART_WAIT_S = 30.0
NOT_ALL, IN_PART, NOT_READ = "not_all", "read in part", "not read"
Part = Callable[[Settings, Admin], Awaitable[Any]]


@command(name="support-bundle", shows=False)
@click.argument("path", metavar="FILE.zip", type=click.Path(dir_okay=False))
@click.option(
    "--metrics", "metrics_url", metavar="URL", help="Also the broker's numbers: http://127.0.0.1:9404/metrics."
)
@click.pass_context
async def support_bundle(ctx: click.Context, path: str, metrics_url: str | None) -> None:
    """Versions, features, settings, topics, transactions, groups and lags, and what is held back: one file to send.

    No records, no positions' metadata, no secrets: settings that may be secret are hidden. Names of topics, groups, ids,
    hosts and principals' clients are in it. What could not be read is in it with the reason, and on stderr; the exit status is 1
    then.
    """
    settings = ctx.ensure_object(Settings)
    if not path.endswith(".zip"):
        raise click.UsageError(f"{path!r}: name a new file that ends in .zip")
    address = None
    if metrics_url is not None:
        try:
            address = web_address(metrics_url)
        except UrlInvalid as error:
            raise click.UsageError(f"--metrics: {error}") from error
    with _new_file(path) as file:
        findings = await asyncio.to_thread(examine, os.path.dirname(path) or ".")
        found: dict[str, Any] = {"about.json": _about(settings)}
        found["doctor.json"] = [dataclasses.asdict(each) for each in findings]
        silence = await _ask(settings, found)
        if address is not None:
            try:
                found["metrics.txt"] = await fetch(RealNetwork(), address, headers={})
            except WebFailed as error:
                found["metrics.txt"] = _NotRead(f"not read: {error}\n".encode())
        size_bytes = await asyncio.to_thread(_write, file, found)
    rows = [{"file": name, "result": _result(each)} for name, each in found.items()]
    settings.out.rows(columns("file", "result"), rows)
    for name, each in found.items():
        if _result(each) == IN_PART:
            settings.out.note(f"{name}: {'; '.join(each[NOT_ALL])}: there may be more than is in it")
    settings.out.note(f"{path}: {size_bytes} bytes; look into it before you send it: names are in it")
    failed = {name: _why_not_read(each) for name, each in found.items() if _result(each) == NOT_READ}
    for name, why in failed.items():
        if silence is None or name not in PARTS:
            settings.out.note(f"error: {name} was not read: {why}")
    if silence is not None:
        hint = hint_for(silence, settings)
        settings.out.note(f"error: {silence}" + (f" ({hint})" if hint else ""), "only what needs no broker is in it")
    if failed:
        ctx.exit(EXIT_FAILURE)


async def _ask(settings: Settings, found: dict[str, Any]) -> KafkaError | None:
    """Put what the brokers say into `found`, or why they do not. The error where none answered."""
    try:
        async with open_admin_that_looks(patient(settings)) as admin:
            answers = await asyncio.gather(*(_asked(part, settings, admin) for part in PARTS.values()))
            found.update(zip(PARTS, answers, strict=True))
    except KafkaError as error:
        found.update({name: error_row(error) for name in PARTS if name not in found})
        return error
    return None


def _about(settings: Settings) -> dict[str, Any]:
    return {
        "oncelog": oncelog.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "time_ms": RealClock().now_ms(),
        "client": client_settings_told(settings.client_config()),
    }


async def _asked(part: Part, settings: Settings, admin: Admin) -> Any:
    try:
        async with asyncio.timeout(PART_WAIT_S):
            return await part(settings, admin)
    except TimeoutError:
        return error_row(RequestTimedOut(f"it was not all answered in {PART_WAIT_S:.0f} s"))
    except KafkaError as error:
        return error_row(error)


class _NotRead(bytes):
    """What stands in a text file instead of what it should have."""


def _result(part: Any) -> str:
    if not isinstance(part, dict):
        return NOT_READ if isinstance(part, _NotRead) else "read"
    return NOT_READ if "error" in part else IN_PART if part.get(NOT_ALL) else "read"


def _why_not_read(part: Any) -> str:
    if isinstance(part, dict):
        return f"{part['error']}: {part['message']}" if part.get("message") else str(part["error"])
    return bytes(part).decode().removeprefix("not read: ").rstrip()


async def _why_not_all(admin: Admin, kind: str, topic: str, unreachable: Unreachable) -> list[str]:
    """Why there may be more of that kind: rights, coordinators that say nothing, and those that are offline."""
    silent = [f"broker {node.node_id} did not answer" for node in sorted(unreachable)]
    offline = [f"{each} is offline" for each in await admin.offline_coordinators() if each.topic == topic]
    hidden = await why_not_all(admin, kind)
    return [*silent, *offline, *([hidden] if hidden else [])]


async def _held_back(settings: Settings, admin: Admin) -> Any:
    return document(settings, await Looks((), Watching(OLDER_THAN_MS)).look(admin, 0), OLDER_THAN_MS)


async def _cluster(_: Settings, admin: Admin) -> dict[str, Any]:
    cluster, features = await admin.describe_cluster(), await admin.describe_features()
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "brokers": [node._asdict() for node in cluster.nodes],
        "features": dict(features.finalized),
        "supported_features": {name: list(span) for name, span in features.supported.items()},
    }


async def _told(admin: Admin, resources: list[ConfigResource]) -> dict[str, dict[str, str | None]]:
    """What was set, and by nobody's default: redacted."""
    found = await admin.describe_configs(resources)
    return {
        f"{where.kind} {where.name}": {
            each.name: setting_told(each.name, each.value, is_sensitive=each.is_sensitive)
            for each in entries.values()
            if not each.is_default or each.is_sensitive
        }
        for where, entries in found.items()
    }


async def _settings_of_brokers(_: Settings, admin: Admin) -> Any:
    nodes = (await admin.describe_cluster()).nodes
    resources = [ConfigResource("broker", str(node.node_id)) for node in nodes]
    answers = await asyncio.gather(*(_told(admin, [each]) for each in resources), return_exceptions=True)
    if all(isinstance(each, KafkaError) for each in answers):
        raise next(each for each in answers if isinstance(each, KafkaError))
    found: dict[str, Any] = {}
    for resource, answer in zip(resources, answers, strict=True):
        if isinstance(answer, KafkaError):
            found[f"broker {resource.name}"] = error_row(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found |= answer
    return found


async def _topics(_: Settings, admin: Admin) -> Any:
    views = await admin.list_topics(include_internal=True)
    some = dict(sorted(views.items())[:TOPICS_MAX])
    where = [TopicPartition(view.name, number) for view in some.values() for number in sorted(view.partitions)]
    unreadable: dict[TopicPartition, KafkaError] = {}
    bounds = await partition_bounds(admin, where, unreadable=unreadable)
    configs = await _told(admin, [ConfigResource("topic", name) for name in some])
    return {
        "count": len(views),
        NOT_ALL: [reason] if (reason := await why_not_all(admin, TOPICS)) else [],
        "topics": [_topic(view, bounds, unreadable, configs.get(f"topic {view.name}", {})) for view in some.values()],
    }


def _topic(view: TopicView, bounds: Any, unreadable: dict[TopicPartition, KafkaError], configs: Any) -> dict[str, Any]:
    partitions = []
    for number, each in sorted(view.partitions.items()):
        at = TopicPartition(view.name, number)
        error = error_name(unreadable[at]) if at in unreadable else None
        partitions.append({**dataclasses.asdict(each), **bounds.get(at, {}), "error": error})
    return {"topic": view.name, "internal": view.is_internal, "settings": configs, "partitions": partitions}


async def _transactions(_: Settings, admin: Admin) -> Any:
    unreachable: Unreachable = {}
    listed = await admin.list_transactions(unreachable=unreachable)
    not_all = await _why_not_all(admin, TRANSACTIONAL_IDS, TRANSACTIONS_TOPIC, unreachable)
    states: dict[str, int] = {}
    for each in listed:
        states[each.state] = states.get(each.state, 0) + 1
    opened = [each.transactional_id for each in listed if each.state in ("Ongoing", "PrepareCommit", "PrepareAbort")]
    described = await admin.describe_transactions(opened[:IDS_MAX], unreachable={}) if opened else {}
    return {"states": states, NOT_ALL: not_all, "open": [transaction_row(each) for each in described.values()]}


async def _groups(_: Settings, admin: Admin) -> Any:
    unreachable: Unreachable = {}
    listed = await admin.list_groups(unreachable=unreachable)
    not_all = await _why_not_all(admin, GROUPS, OFFSETS_TOPIC, unreachable)
    groups = []
    for each in listed[:GROUPS_MAX]:
        row: dict[str, Any] = {"group": each.group_id, "state": each.state, "type": each.group_type}
        try:
            positions = await admin.list_consumer_group_offsets(each.group_id)
            unreadable: dict[TopicPartition, KafkaError] = {}
            bounds = await partition_bounds(admin, sorted(positions), unreadable=unreadable) if positions else {}
            row["positions"] = [
                {"partition": str(at), "position": stored.offset, **bounds.get(at, {})}
                for at, stored in positions.items()
            ]
        except KafkaError as error:
            row["error"] = error_name(error)
        groups.append(row)
    return {"count": len(listed), NOT_ALL: not_all, "groups": groups}


PARTS: dict[str, Part] = {  # what is asked, each by itself
    "cluster.json": _cluster,
    "settings.json": _settings_of_brokers,
    "topics.json": _topics,
    "transactions.json": _transactions,
    "groups.json": _groups,
    "held-back.json": _held_back,
}


@contextmanager
def _new_file(path: str) -> Iterator[IO[bytes]]:
    """A new file that only its owner reads, and none where the block fails. Raises Failed."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Failed(f"{path}: {reason}", "name a new file in a folder that there is") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
    except BaseException:
        os.unlink(path)
        raise


def _write(file: IO[bytes], found: dict[str, Any]) -> int:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in found.items():
            archive.writestr(name, each if isinstance(each, bytes) else json_text(each, indent=2) + "\n")
    file.flush()
    return os.fstat(file.fileno()).st_size

"""docs/compatibility.md: the hand-written part (page.md) with the tables of the last saved run (results.json) in it."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from typing import Any

from evidence.compat.clients.checks import CHECKS
from evidence.compat.clients.security import tables as security
from evidence.compat.stories_of_tools import STORIES
from oncelog.wire.api import APIS, ApiKey

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results.json"
TEMPLATE = HERE / "page.md"
PAGE = HERE.parent.parent.parent / "docs" / "compatibility.md"
SERVERS = ("oncelog", "kafka")
KAFKA_TESTS = {  # suites of evidence/compat/kafka_tests
    "share-consumer": "`ShareConsumerTest` of 4.0 with the client of 4.3, records acknowledged by the next `poll`",
    "share-consumer-explicit": "`ShareConsumerTest` of 4.0 with the client of 4.3, records acknowledged one by one",
    "share-requests": "requests of share groups: `ShareFetchAcknowledgeRequestTest`, `ShareGroupHeartbeatRequestTest`, "
    "`ShareGroupDescribeRequestTest`",
    "streams-requests": "requests of streams groups: `StreamsGroupHeartbeatRequestTest`, `StreamsGroupDescribeRequestTest`",
    "streams-tools": "`kafka-streams-groups` beside running applications: `List`, `Describe`, `DeleteStreamsGroupTest`, "
    "`DeleteStreamsGroupOffsetTest`, `ResetStreamsGroupOffsetTest`",
}
# Apache Kafka sends these to itself, through the address it advertises
BETWEEN_BROKERS = {(ApiKey.ADD_PARTITIONS_TO_TXN, 4), (ApiKey.ADD_PARTITIONS_TO_TXN, 5)} | {
    (ApiKey.WRITE_TXN_MARKERS, version) for version in (1, 2)
}

Client = dict[str, Any]


def count(outcomes: dict[str, dict[str, Any]]) -> str:
    """ "18 passed, 1 failed, 1 absent" """
    counts = Counter(outcome["result"] for outcome in outcomes.values())
    return ", ".join(f"{counts[result]} {result}" for result in ("passed", "failed", "absent") if counts[result])


def count_failed(client: Client) -> int:
    """Of both servers."""
    return sum(outcome["result"] == "failed" for server in SERVERS for outcome in client.get(server, {}).values())


def save(kind: str, results: dict[str, Any]) -> None:
    """Put results over the saved ones, without their times, and write the page.

    `kind` is "clients", "security", "tools", "drills" or "kafka_tests", the results are by name.
    """
    saved = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, result in results.items():
        entry = saved.setdefault(kind, {}).setdefault(name, {})
        entry.pop("missing", None)
        if kind == "security":
            for key, value in security.kept(result).items():
                entry[key] = over(entry.get(key), value)
        else:
            entry |= _kept(result) if kind == "clients" else result
    RESULTS.write_text(json.dumps(saved, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(render())


def over(held: Any, new: Any) -> Any:
    """Ways that were not asked this time keep what they had, and so do their steps."""
    if not isinstance(new, dict) or not isinstance(held, dict):
        return new
    return held | {way: held.get(way, {}) | steps for way, steps in new.items()}


def _kept(client: Client) -> Client:
    kept: Client = {}
    for key, value in client.items():
        if key in SERVERS:
            kept[key] = {
                check: outcome["result"] + (f": {outcome['detail']}" if outcome["detail"] else "")
                for check, outcome in value.items()
            }
        elif key.startswith("requests-"):
            pairs = [tuple(pair) for pair in value if tuple(pair) not in BETWEEN_BROKERS]
            kept[key] = {str(api): sorted(v for k, v in pairs if k == api) for api in sorted({k for k, _ in pairs})}
        else:
            kept[key] = value
    return kept


def render() -> str:
    """The page, from the committed result file."""
    saved = json.loads(RESULTS.read_text())
    clients: dict[str, Client] = saved["clients"]
    ordered = {name: clients[name] for name in _order(clients)}
    secured = {name: saved.get("security", {})[name] for name in _order(saved.get("security", {}))}
    text = TEMPLATE.read_text()
    for name, table in (
        ("summary", _summary(ordered)),
        ("checks", _checks(ordered)),
        ("absent", _remarks(ordered)),
        ("versions", _versions(ordered)),
        ("drills", _drills(saved["drills"])),
        ("kafka-tests", _kafka_tests(saved["kafka_tests"])),
        ("stories", str(len(STORIES))),
        ("security", security.matrix(secured, "oncelog")),
        ("security-kafka", security.matrix(secured, "kafka")),
        ("refusals", security.refusals(secured)),
        ("security-remarks", security.remarks(secured)),
        ("secured-tools", security.tools(saved.get("tools", {}))),
    ):
        assert f"@{name}@" in text, name
        text = text.replace(f"@{name}@", table)
    return text


def _order(clients: dict[str, Client]) -> list[str]:
    return sorted(clients, key=lambda name: (name == "oncelog", name.lower()))


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows))


def _results(outcomes: dict[str, str]) -> Counter[str]:
    return Counter(outcome.partition(":")[0] for outcome in outcomes.values())


def _summary(clients: dict[str, Client]) -> str:
    rows = []
    for name, client in clients.items():
        if "missing" in client:
            rows.append([name, "not run", client["missing"], ""])
            continue
        cells = []
        for server in SERVERS:
            counts = _results(client.get(server, {}))
            asked = counts["passed"] + counts["failed"]
            cells.append(f"{counts['passed']} of {asked}" if asked else "not run")
        rows.append([name, client["version"], *cells, str(_results(client.get("oncelog", {}))["absent"])])
    return _table(["client", "version", "with oncelog", "with Apache Kafka 4.3", "not in this client"], rows)


def _checks(clients: dict[str, Client]) -> str:
    signs = {"passed": "✓", "failed": "**✗**", "absent": "-", "": " "}
    rows = []
    for check, what in CHECKS.items():
        results = [client.get("oncelog", {}).get(check, "").partition(":")[0] for client in clients.values()]
        rows.append([what, *(signs[result] for result in results)])
    return _table(["", *clients], rows)


def _remarks(clients: dict[str, Client]) -> str:
    lines: dict[str, list[str]] = {}
    for name, client in clients.items():
        for server in SERVERS:
            for check, outcome in client.get(server, {}).items():
                result, _, detail = outcome.partition(": ")
                where = "" if server == "oncelog" else " with Apache Kafka"
                if result == "failed" or (result == "absent" and server == "oncelog"):
                    lines.setdefault(f"{detail}{' (FAILED)' if result == 'failed' else ''}", []).append(
                        f"{name} `{check}`{where}"
                    )
    return "\n".join(f"* {', '.join(who)}: {detail}" for detail, who in sorted(lines.items())) or "* none"


def _versions(clients: dict[str, Client]) -> str:
    used = {name: client.get("requests-oncelog", {}) for name, client in clients.items()}
    keys = sorted({int(key) for requests in used.values() for key in requests} & set(APIS))
    rows = []
    for key in keys:
        api = APIS[key]
        served = (
            f"{api.min_version} to {api.max_version}" if api.min_version != api.max_version else str(api.min_version)
        )
        rows.append([api.name, served, *(_spans(used[name].get(str(key), [])) for name in clients)])
    return _table(["request", "served", *clients], rows)


def _drills(drills: dict[str, dict[str, Any]]) -> str:
    rows = [
        [drill["what"], drill["with"], drill["figures"], "exact" if drill["passed"] else "**FAILED**"]
        for _, drill in sorted(drills.items())
    ]
    return _table(["drill", "with", "figures of the last saved run", "result"], rows)


def _kafka_tests(suites: dict[str, dict[str, Any]]) -> str:
    rows = [
        [KAFKA_TESTS[name], suites[name]["kafka"], suites[name]["oncelog"], str(suites[name]["skipped"])]
        for name in KAFKA_TESTS
        if name in suites
    ]
    return _table(["tests", "Apache Kafka 4.3", "oncelog", "skipped"], rows)


def _spans(versions: list[int]) -> str:
    return ", ".join(map(str, versions))


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"written: {PAGE}")

"""What both brokers did with each test: the table that is printed, and the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from evidence.compat.kafka_tests.runs import Result
from evidence.compat.servers import KAFKA, ONCELOG

REASON_SHOWN_MAX = 600
# What oncelog does otherwise, with the reason (docs/differences-from-kafka.md).
ON_PURPOSE = {
    "StreamsGroupHeartbeatRequestTest.testDynamicGroupConfig": (
        "a member that still has what it had before it was told its tasks may have missed that answer, and is told again; "
        "the test's members say at all times that they have nothing, and take the repeated answer for a new one"
    ),
    "StreamsGroupHeartbeatRequestTest.testStreamsGroupHeartbeatIsInaccessibleWhenOffsetTopicNotExist": (
        "the first request that needs `__consumer_offsets` makes it; "
        "Apache Kafka says NOT_COORDINATOR until somebody has asked for a coordinator"
    ),
}
SERVER_NAMES = {KAFKA: "Apache Kafka", ONCELOG: "oncelog"}


def worse(found: Mapping[str, Sequence[Result]]) -> list[str]:
    """Tests that Apache Kafka passes and oncelog fails, but not on purpose; all that it fails where it was asked alone."""
    if ONCELOG not in found:
        return []
    ours = {each.test: each.status for each in found[ONCELOG]}
    theirs = found.get(KAFKA, [Result("passed", 0, test, "") for test in ours])
    lost = [each.test for each in theirs if each.status == "passed" and ours.get(each.test, "failed") == "failed"]
    return [test for test in lost if test not in ON_PURPOSE]


def summary(found: Mapping[str, Sequence[Result]], seconds: float) -> str:
    parts = []
    for server, results in found.items():
        counted = Counter(each.status for each in results)
        ran = counted["passed"] + counted["failed"]
        parts.append(f"{SERVER_NAMES[server]} {counted['passed']} of {ran} passed, {counted['skipped']} skipped")
    lost = len(worse(found))
    return f"kafka-tests: {'; '.join(parts)}; {lost} that only oncelog fails ({seconds:.0f} s)"


def skipped(found: Mapping[str, Sequence[Result]]) -> dict[str, list[str]]:
    """Tests that did not run with some broker, by the reason."""
    by_reason: dict[str, dict[str, set[str]]] = {}
    for server, results in found.items():
        for each in results:
            if each.status == "skipped":
                by_reason.setdefault(each.reason, {}).setdefault(each.test, set()).add(SERVER_NAMES[server])
    return {
        reason: [
            test if len(servers) == len(found) else f"{test} (with {min(servers)})" for test, servers in tests.items()
        ]
        for reason, tests in by_reason.items()
    }


def show(found: Mapping[str, Sequence[Result]], seconds: float) -> list[str]:
    """Print all of it: what oncelog fails and Apache Kafka passes."""
    by_test: dict[str, dict[str, Result]] = {}
    for server, results in found.items():
        for each in results:
            by_test.setdefault(each.test, {})[server] = each
    width = max((len(test) for test in by_test), default=0)
    print(" ".join([f"{'test':{width}}", *(f"{SERVER_NAMES[server]:13}" for server in found)]).rstrip())
    for test, answers in by_test.items():
        cells = [f"{answers[server].status if server in answers else 'not there':13}" for server in found]
        print(" ".join([f"{test:{width}}", *cells]).rstrip())
    print()
    for test, answers in by_test.items():
        for server, each in answers.items():
            if each.status == "failed":
                why = ON_PURPOSE.get(test) if server == ONCELOG else None
                said = f"on purpose: {why}" if why else each.reason[:REASON_SHOWN_MAX]
                print(f"failed with {SERVER_NAMES[server]}: {test}: {said}")
    for reason, tests in skipped(found).items():
        print(f"skipped, {reason}: {', '.join(tests)}")
    print(summary(found, seconds))
    return worse(found)


def counted(found: Mapping[str, Mapping[str, Sequence[Result]]]) -> dict[str, dict[str, object]]:
    """By suite, for docs/compatibility.md: what each broker passed of what it was asked, and what was skipped."""
    rows: dict[str, dict[str, object]] = {}
    for server, suites in found.items():
        for name, results in suites.items():
            status = Counter(each.status for each in results)
            row = rows.setdefault(name, {})
            row[server] = f"{status['passed']} of {status['passed'] + status['failed']}"
            row["skipped"] = status["skipped"]
    return rows

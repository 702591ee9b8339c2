"""What `journal=on` gives: the same transactions on a broker without a journal and on one with it, both synced, in turn."""

from __future__ import annotations

import contextlib
from statistics import median

from bench.brokers import transactions_of_eight, transactions_of_one
from bench.costs import cpu, figures
from bench.our_clients import transactions_of_ours
from bench.pairs import ROUNDS, in_turn
from bench.parts import ROWS
from bench.selection import Wanted
from bench.servers import oncelog
from bench.table import Row

WITH, WITHOUT = "oncelog, journal=on", "oncelog, journal=off"


def journal(with_kafka: bool, wanted: Wanted) -> list[Row]:  # noqa: ARG001
    """Transactions of one record: of 1 and 8 producers of ours, of 1 and 8 of librdkafka."""
    rows: list[Row] = []
    keys = wanted.of(ROWS["journal"])
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(oncelog(WITHOUT, journal="off")),
            stack.enter_context(oncelog(WITH, journal="on")),
        ]
        for count in (1, 8):
            key = f"producers-{count}"
            if key in keys:
                measured = in_turn(
                    servers, lambda server, i, n=count: transactions_of_ours(server, f"t{n}-{i}", n), what=key
                )
                found = figures(measured)
                rows.append(
                    Row(
                        f"journal=on: transactions/s of {count} producer{'s' * (count > 1)} of ours",
                        "/s",
                        median(found[WITH]),
                        median(found[WITHOUT]),
                        other_name="journal=off",
                        better="more",
                        note=f"median of {ROUNDS}",
                        cpu=cpu(measured, WITH, WITHOUT, "txn"),
                    )
                )
        if "librdkafka-8" in keys:
            eight = in_turn(
                servers, lambda server, i: transactions_of_eight(server, 3.0, f"e{i}").per_second, what="librdkafka-8"
            )
            rows.append(_pair("journal=on: transactions/s of 8 producers of librdkafka", "/s", eight, better="more"))
        if "librdkafka-1" in keys:
            one = in_turn(
                servers,
                lambda server, i: median(transactions_of_one(server, 200, f"o{i}").commits),
                what="librdkafka-1",
            )
            rows.append(_pair("journal=on: commit of 1 producer of librdkafka, p50", "ms", one, better="less"))
    return rows


def _pair(name: str, unit: str, measured: dict[str, list[float]], *, better: str) -> Row:
    return Row(
        name,
        unit,
        median(measured[WITH]),
        median(measured[WITHOUT]),
        other_name="journal=off",
        better=better,
        note=f"median of {ROUNDS}",
    )

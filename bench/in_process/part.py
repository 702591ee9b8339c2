"""`make bench ONLY=in-process`: the broker's CPU per operation beside what was recorded, as rows of the table."""

from __future__ import annotations

from bench.in_process.records import Held, NotRecorded, recorded
from bench.in_process.runs import best_of_runs, measured_apart
from bench.selection import Wanted
from bench.table import Row

RUNS = 6


def in_process(_with_kafka: bool, _wanted: Wanted) -> list[Row]:
    """One broker only: Apache Kafka cannot be asked without a socket."""
    figures = best_of_runs(measured_apart, lambda _: True, RUNS, RUNS)
    try:
        held = recorded().held(figures.ratios)
    except NotRecorded as error:
        held = Held({}, said=str(error))
    said = held.said and f"; {held.said}"
    return [
        Row(
            f"in process: {name}",
            "us",
            taken_us,
            held.kept[name] * figures.calibration_us if name in held.kept else None,
            other_name="as recorded",
            aim=f">= {1 / (1 + held.bound_percent / 100):.2f}x",
            note=f"{figures.ratio(name):.3f} calibration rounds of {figures.calibration_us:.0f} us{said}",
        )
        for name, taken_us in figures.operation_us.items()
    ]

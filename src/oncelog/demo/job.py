"""The Spark job: flights in, every flight enriched once to a topic, running totals to SQLite in the same decision.

Started again after each kill with the same checkpoint; it ends by itself once the loader is done and all is read.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from typing import TYPE_CHECKING

import sqlalchemy as sa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from oncelog.demo.flights import read_airlines
from oncelog.spark import dual_write
from oncelog.spark.java import prepare_java

if TYPE_CHECKING:
    from collections.abc import Callable

FLIGHT = (
    "id int, carrier string, flight int, origin string, dest string, month int, day int, "
    "dep_delay int, arr_delay int, distance int, air_time int, note string"
)
metadata = sa.MetaData()
totals = sa.Table(
    "delay_totals",
    metadata,
    sa.Column("carrier", sa.String, primary_key=True),
    sa.Column("origin", sa.String, primary_key=True),
    sa.Column("dest", sa.String, primary_key=True),
    sa.Column("flights", sa.Integer, nullable=False),
    sa.Column("delayed_flights", sa.Integer, nullable=False),
    sa.Column("delay_minutes", sa.Integer, nullable=False),
    sa.Column("delay_max", sa.Integer),
)
ADD_TO_TOTALS = sa.text(
    "INSERT INTO delay_totals VALUES (:carrier, :origin, :dest, :flights, :delayed_flights, :delay_minutes, :delay_max) "
    "ON CONFLICT (carrier, origin, dest) DO UPDATE SET flights = flights + excluded.flights, "
    "delayed_flights = delayed_flights + excluded.delayed_flights, "
    "delay_minutes = delay_minutes + excluded.delay_minutes, "
    "delay_max = CASE WHEN delay_max IS NULL THEN excluded.delay_max WHEN excluded.delay_max IS NULL THEN delay_max "
    "ELSE MAX(delay_max, excluded.delay_max) END"
)


def say(**event: object) -> None:
    print(json.dumps({"time_ms": int(time.time_ns() // 1_000_000), **event}), flush=True)


def parsed(frame: DataFrame) -> DataFrame:
    return frame.select(f.from_json(f.col("value").cast("string"), FLIGHT).alias("flight")).select("flight.*")


def enriched(frame: DataFrame) -> DataFrame:
    """What goes to the topic: the flight, the airline's name, the route, the speed, and a class of its delay."""
    names = f.create_map(*[f.lit(part) for pair in read_airlines().items() for part in pair])
    late = f.col("arr_delay")
    delay_class = (
        f.when(late.isNull(), "unknown").when(late <= 0, "on time").when(late <= 30, "late").otherwise("very late")
    )
    flights = (
        parsed(frame)
        .withColumn("airline", names[f.col("carrier")])
        .withColumn("route", f.concat_ws("-", "origin", "dest"))
        .withColumn("miles_per_hour", f.round(f.col("distance") / f.col("air_time") * 60, 1))
        .withColumn("delay_class", delay_class)
    )
    return flights.select(
        f.col("carrier").cast("binary").alias("key"),
        f.to_json(f.struct(*flights.columns)).cast("binary").alias("value"),
    )


def add_totals(connection: sa.Connection, frame: DataFrame, _batch_id: int) -> None:
    """The micro-batch's totals, added to the table inside the deciding transaction."""
    grouped = parsed(frame).groupBy("carrier", "origin", "dest")
    late = f.col("arr_delay")
    rows = grouped.agg(
        f.count("*").alias("flights"),
        f.sum(f.when(late > 0, 1).otherwise(0)).alias("delayed_flights"),
        f.coalesce(f.sum(late), f.lit(0)).alias("delay_minutes"),
        f.max(late).alias("delay_max"),
    ).collect()
    if rows:
        connection.execute(ADD_TO_TOTALS, [row.asDict() for row in rows])


def session() -> SparkSession:
    prepare_java()
    builder = SparkSession.builder.master("local[2,4]").appName("oncelog-demo")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def reporting(write: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    def batch(frame: DataFrame, batch_id: int) -> None:
        begun = time.time_ns() // 1_000_000
        write(frame, batch_id)
        say(event="batch", batch_id=batch_id, begun_ms=begun)

    return batch


def run(bootstrap: str, folder: pathlib.Path, records_per_batch: int) -> None:
    spark = session()
    say(event="session")
    database_url = f"sqlite:///{folder / 'demo.sqlite3'}"
    metadata.create_all(sa.create_engine(database_url))
    flights = (
        spark.readStream.format("oncelog")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", records_per_batch)
        .load()
    )
    write = dual_write(
        query_id="flights-demo",
        database_url=database_url,
        to_records=enriched,
        to_database=add_totals,
        options={"bootstrap.servers": bootstrap, "topic": "flights.enriched"},
    )
    query = (
        flights.writeStream.foreachBatch(reporting(write))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    while not (folder / "loader.done").exists():
        if query.awaitTermination(0.5):
            break
    query.processAllAvailable()
    query.stop()
    spark.stop()
    say(event="finished")


def main() -> None:
    parser = argparse.ArgumentParser(prog="oncelog.demo.job")
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--records-per-batch", type=int, required=True)
    options = parser.parse_args()
    run(options.bootstrap_server, options.folder.absolute(), options.records_per_batch)


if __name__ == "__main__":
    main()

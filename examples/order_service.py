"""An order service with FastAPI: an order's row and its event, together or not at all.

    pip install . fastapi uvicorn
    oncelog serve -c transaction.two.phase.commit.enable=true
    uvicorn --factory order_service:create_app

`PUT` with an id that the client chose: whoever got no answer sends the same again, and nothing is ordered twice.
"""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import anyio.to_thread
from fastapi import FastAPI, HTTPException, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, PositiveInt

from oncelog.errors import InstanceFenced, KafkaError, NotBegun, OutcomeUnknown
from oncelog.recipes import SqliteDatabase
from oncelog.recipes.sync import DualWriter

SCHEMA = """CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, pieces INTEGER NOT NULL CHECK (pieces >= 0));
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL REFERENCES stock, pieces INTEGER NOT NULL);
INSERT OR IGNORE INTO stock VALUES ('apple', 100), ('pear', 5)"""
TOPIC = "orders"
OrderId = Annotated[str, Path(min_length=1, max_length=64)]


class Order(BaseModel):
    """What is ordered."""

    item: str
    pieces: PositiveInt


def find(database: sqlite3.Connection, order_id: str) -> Order | None:
    row = database.execute("SELECT item, pieces FROM orders WHERE id = ?", (order_id,)).fetchone()
    return None if row is None else Order(item=row[0], pieces=row[1])


def place(writer: DualWriter[sqlite3.Connection], order_id: str, order: Order) -> Order:
    """Write row and event. Raises sqlite3.IntegrityError where there is not enough: then neither is there."""
    with writer.transaction() as tx:
        known = find(tx.database, order_id)
        if known is not None:
            return known  # ordered before: both transactions end empty
        taken = tx.database.execute(
            "UPDATE stock SET pieces = pieces - ? WHERE item = ?", (order.pieces, order.item)
        ).rowcount
        if not taken:
            raise sqlite3.IntegrityError(f"there is no item {order.item!r}")
        tx.database.execute("INSERT INTO orders VALUES (?, ?, ?)", (order_id, order.item, order.pieces))
        tx.send(TOPIC, key=order_id.encode(), value=order.model_dump_json().encode())
    return order


def create_app(file: str = "orders.sqlite3", bootstrap_servers: str = "127.0.0.1:9092") -> FastAPI:
    database = SqliteDatabase(file)
    writer = DualWriter(database, transactional_id="order-service", bootstrap_servers=bootstrap_servers)

    def start() -> None:
        with sqlite3.connect(file) as connection:
            connection.executescript(SCHEMA)
        database.migrate()
        writer.start()  # completes what an instance before this one left

    def stop() -> None:
        writer.stop()
        database.close()

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await anyio.to_thread.run_sync(start)
        yield
        await anyio.to_thread.run_sync(stop)

    app = FastAPI(title="orders", lifespan=life)

    @app.put("/orders/{order_id}", status_code=201)
    def put_order(order_id: OrderId, order: Order) -> Order:
        return place(writer, order_id, order)

    @app.get("/orders/{order_id}")
    def get_order(order_id: OrderId) -> Order:
        with sqlite3.connect(file) as connection:
            found = find(connection, order_id)
        if found is None:
            raise HTTPException(404, "no such order")
        return found

    @app.exception_handler(sqlite3.IntegrityError)
    def refused(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)}, 409)

    async def try_again(_: Request, error: Exception) -> Response:
        """Nothing was written, or (OutcomeUnknown) nobody knows: the same PUT again is right in both cases."""
        return JSONResponse({"detail": str(error)}, 503, headers={"Retry-After": "1"})

    handled: tuple[type[Exception], ...] = (
        KafkaError,
        NotBegun,
        OutcomeUnknown,
        InstanceFenced,
        sqlite3.OperationalError,
    )
    for kind in handled:
        app.add_exception_handler(kind, try_again)
    return app

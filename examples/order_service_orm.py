"""The order service with asyncio and SQLAlchemy's ORM: an AsyncSession's rows and their event, together or not at all.

    pip install '.[sql]' fastapi uvicorn
    oncelog serve -c transaction.two.phase.commit.enable=true
    DATABASE=postgresql+psycopg://... uvicorn --factory order_service_orm:create_app

The session joins the dual write's transaction: `session.commit()` would end a savepoint only, the DualWriter decides.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, HTTPException, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, PositiveInt
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from oncelog.errors import InstanceFenced, KafkaError, NotBegun, OutcomeUnknown
from oncelog.recipes import AsyncSqlAlchemyDatabase, DualWriter

TOPIC = "orm-orders"
OrderId = Annotated[str, Path(min_length=1, max_length=64)]


class Base(DeclarativeBase):
    """The tables."""


class OrderRow(Base):
    """An order as it is kept."""

    __tablename__ = "orm_orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    item: Mapped[str]
    pieces: Mapped[int]


class Order(BaseModel):
    """What is ordered."""

    item: str
    pieces: PositiveInt


class AnotherOrder(ValueError):
    """The id stands for something else."""


async def place(writer: DualWriter[AsyncConnection], order_id: str, order: Order) -> Order:
    """Write row and event; an order that is known already is not written again. Raises AnotherOrder: neither is there."""
    async with writer.transaction() as tx:
        session = AsyncSession(tx.database, join_transaction_mode="create_savepoint", expire_on_commit=False)
        async with session, session.begin():
            known = await session.get(OrderRow, order_id)
            if known is not None:
                if (known.item, known.pieces) != (order.item, order.pieces):
                    raise AnotherOrder(f"{order_id} is an order of {known.pieces} {known.item}")
                return order
            session.add(OrderRow(id=order_id, item=order.item, pieces=order.pieces))
        await tx.send(TOPIC, key=order_id.encode(), value=order.model_dump_json().encode())
    return order


def create_app(url: str = os.environ.get("DATABASE", ""), bootstrap_servers: str = "127.0.0.1:9092") -> FastAPI:
    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        database = AsyncSqlAlchemyDatabase(engine)
        await database.migrate()
        writer = DualWriter(database, transactional_id="order-service-orm", bootstrap_servers=bootstrap_servers)
        async with writer:  # completes what an instance before this one left
            app.state.writer, app.state.engine = writer, engine
            yield
        await engine.dispose()

    app = FastAPI(title="orders", lifespan=life)

    @app.put("/orders/{order_id}", status_code=201)
    async def put_order(order_id: OrderId, order: Order) -> Order:
        return await place(app.state.writer, order_id, order)

    @app.get("/orders/{order_id}")
    async def get_order(order_id: OrderId) -> Order:
        async with AsyncSession(app.state.engine) as session:
            found = await session.get(OrderRow, order_id)
        if found is None:
            raise HTTPException(404, "no such order")
        return Order(item=found.item, pieces=found.pieces)

    async def refused(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)}, 409)

    async def try_again(_: Request, error: Exception) -> Response:
        """Nothing was written, or (OutcomeUnknown) nobody knows: the same PUT again is right in both cases."""
        return JSONResponse({"detail": str(error)}, 503, headers={"Retry-After": "1"})

    refusals: tuple[type[Exception], ...] = (AnotherOrder, IntegrityError)
    passing: tuple[type[Exception], ...] = (
        KafkaError,
        NotBegun,
        OutcomeUnknown,
        InstanceFenced,
        OperationalError,
    )
    for kind in refusals:
        app.add_exception_handler(kind, refused)
    for kind in passing:
        app.add_exception_handler(kind, try_again)
    return app

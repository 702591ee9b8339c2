"""What a handler may ask for: `async def priced(order: Order, message: OncelogMessage)`."""

from __future__ import annotations

from typing import Annotated

from faststream.annotations import ContextRepo, Logger
from faststream.params import Context, NoCast

from oncelog.faststream import broker, message

__all__ = ["ContextRepo", "Logger", "NoCast", "OncelogBroker", "OncelogMessage"]

OncelogMessage = Annotated[message.OncelogMessage, Context("message")]
OncelogBroker = Annotated[broker.OncelogBroker, Context("broker")]

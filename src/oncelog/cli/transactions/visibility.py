"""Waiting until a transaction that was decided is visible: its markers are written after the answer to EndTxn.

A script that produces and then reads to the end must find its records.
"""

from __future__ import annotations

import asyncio

from oncelog.client.admin.admin import Admin
from oncelog.errors import KafkaError

LOOK_AGAIN_SECONDS = 0.005
WAIT_SECONDS_MAX = 5


async def wait_until_visible(admin: Admin, transactional_id: str) -> None:
    """Return when its coordinator is done with the last transaction, or after 5 seconds: it is decided either way."""
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while True:
                found = (await admin.describe_transactions([transactional_id]))[transactional_id]
                if not found.state.startswith("Prepare"):
                    return
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
    except (TimeoutError, KafkaError):
        return  # nobody asked for this answer: the decision stands

"""A FastStream broker whose handlers take effect exactly once; `pip install '.[faststream]'`.

What a handler gives, what it publishes, and the position behind its message are one transaction (`oncelog.process`).
"""

from oncelog.errors import missing

try:
    import faststream
except ImportError as error:
    raise missing("oncelog.faststream", error, faststream="faststream") from error

from faststream.__about__ import __version__ as _version

if _version.split(".")[:2] != ["0", "7"]:
    # A broker is made of FastStream's own parts, which change from minor version to minor version.
    raise ImportError(
        f"oncelog.faststream is made for FastStream 0.7, and {_version} is installed: pip install 'oncelog[faststream]'"
    )

from oncelog.faststream.annotations import OncelogMessage
from oncelog.faststream.broker import OncelogBroker
from oncelog.faststream.response import OncelogPublishCommand, OncelogResponse
from oncelog.faststream.router import OncelogPublisher, OncelogRoute, OncelogRouter
from oncelog.faststream.testing import TestOncelogBroker

__all__ = [
    "OncelogBroker",
    "OncelogMessage",
    "OncelogPublishCommand",
    "OncelogPublisher",
    "OncelogResponse",
    "OncelogRoute",
    "OncelogRouter",
    "TestOncelogBroker",
]

del faststream

"""oncelog: Kafka's transactions, end to end, in Python.

The public names are those in `__all__`; they load on first use, so that `import oncelog` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from oncelog.version import __version__ as __version__

if TYPE_CHECKING:
    from oncelog import errors as errors
    from oncelog import sync as sync
    from oncelog.broker.broker import Broker as Broker
    from oncelog.client.admin.admin import Admin as Admin
    from oncelog.client.consumer.consumer import Consumer as Consumer
    from oncelog.client.consumer.group import RebalanceListener as RebalanceListener
    from oncelog.client.delivery import Delivery as Delivery
    from oncelog.client.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from oncelog.client.interceptors import ProducerInterceptor as ProducerInterceptor
    from oncelog.client.interceptors import ProducerRecord as ProducerRecord
    from oncelog.client.metrics import ConsumerMetrics as ConsumerMetrics
    from oncelog.client.metrics import ProcessMetrics as ProcessMetrics
    from oncelog.client.metrics import ProducerMetrics as ProducerMetrics
    from oncelog.client.option_types import AdminOptions as AdminOptions
    from oncelog.client.option_types import ConsumerOptions as ConsumerOptions
    from oncelog.client.option_types import ProcessOptions as ProcessOptions
    from oncelog.client.option_types import ProducerOptions as ProducerOptions
    from oncelog.client.option_types import ShareConsumerOptions as ShareConsumerOptions
    from oncelog.client.processing.processor import Processor as Processor
    from oncelog.client.processing.processor import process as process
    from oncelog.client.producer.producer import Producer as Producer
    from oncelog.client.records import ConsumerRecord as ConsumerRecord
    from oncelog.client.records import RecordMetadata as RecordMetadata
    from oncelog.client.records import ShareRecord as ShareRecord
    from oncelog.client.sharing.share_consumer import ShareConsumer as ShareConsumer
    from oncelog.types import OffsetAndMetadata as OffsetAndMetadata
    from oncelog.types import PreparedTxnState as PreparedTxnState
    from oncelog.types import TopicPartition as TopicPartition

_HOME = {
    "Admin": "oncelog.client.admin.admin",
    "AdminOptions": "oncelog.client.option_types",
    "Broker": "oncelog.broker.broker",
    "Consumer": "oncelog.client.consumer.consumer",
    "ConsumerInterceptor": "oncelog.client.interceptors",
    "ConsumerMetrics": "oncelog.client.metrics",
    "ConsumerOptions": "oncelog.client.option_types",
    "ConsumerRecord": "oncelog.client.records",
    "Delivery": "oncelog.client.delivery",
    "OffsetAndMetadata": "oncelog.types",
    "PreparedTxnState": "oncelog.types",
    "ProcessMetrics": "oncelog.client.metrics",
    "ProcessOptions": "oncelog.client.option_types",
    "Processor": "oncelog.client.processing.processor",
    "Producer": "oncelog.client.producer.producer",
    "ProducerInterceptor": "oncelog.client.interceptors",
    "ProducerMetrics": "oncelog.client.metrics",
    "ProducerOptions": "oncelog.client.option_types",
    "ProducerRecord": "oncelog.client.interceptors",
    "RebalanceListener": "oncelog.client.consumer.group",
    "RecordMetadata": "oncelog.client.records",
    "ShareConsumer": "oncelog.client.sharing.share_consumer",
    "ShareConsumerOptions": "oncelog.client.option_types",
    "ShareRecord": "oncelog.client.records",
    "TopicPartition": "oncelog.types",
    "process": "oncelog.client.processing.processor",
}
_MODULES = ("errors", "sync")

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"oncelog.{name}")
    else:
        raise AttributeError(f"module 'oncelog' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """For who completes names: those that load on first use, too."""
    return sorted({*globals(), *__all__})

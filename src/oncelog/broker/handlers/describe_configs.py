"""DescribeConfigs: of topics and of this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.config_view import broker_results, topic_results
from oncelog.broker.request import Request
from oncelog.core.cluster_metadata import BROKER_RESOURCE, TOPIC_RESOURCE
from oncelog.core.topic_configs import topic_name_fault
from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

_BROKER_LOGGER = 8


def handle(broker: Broker, request: Request) -> DescribeConfigsResponse:
    """One result per resource asked for."""
    message: DescribeConfigsRequest = request.message
    results = [_describe(broker, asked, with_synonyms=message.include_synonyms) for asked in message.resources]
    return DescribeConfigsResponse(results=results)


def _describe(broker: Broker, asked: DescribeConfigsResource, *, with_synonyms: bool) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=None
    )
    if asked.resource_type == TOPIC_RESOURCE:
        topic = broker.metadata.topics.get(asked.resource_name)
        if topic is None:
            is_bad = topic_name_fault(asked.resource_name)
            code = ErrorCode.INVALID_TOPIC_EXCEPTION if is_bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_code, result.error_message = code, is_bad or "This server does not host this topic-partition."
        else:
            result.configs = topic_results(
                topic, broker.config, broker.static_keys, keys=asked.configuration_keys, with_synonyms=with_synonyms
            )
    elif asked.resource_type == BROKER_RESOURCE and asked.resource_name in ("", str(broker.node_id)):
        cluster_wide = broker.metadata.broker_configs.get("", {})
        result.configs = broker_results(
            broker.config,
            broker.static_keys,
            broker.metadata.broker_configs.get(asked.resource_name, {}) if asked.resource_name else {},
            cluster_wide,
            keys=asked.configuration_keys if asked.resource_name else list(cluster_wide),
            with_synonyms=with_synonyms,
        )
    elif asked.resource_type == _BROKER_LOGGER and asked.resource_name == str(broker.node_id):
        result.configs = []
    else:
        result.error_code = ErrorCode.INVALID_REQUEST
        result.error_message = f"Unsupported resource type {asked.resource_type} or name {asked.resource_name!r}"
    return result

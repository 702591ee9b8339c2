"""DescribeConfigs: of topics, of this broker, of groups, of client-metrics subscriptions, of loggers."""

from __future__ import annotations

from oncelog.broker.config.config_view import (
    Wanted,
    broker_results,
    default_broker_results,
    resource_results,
    topic_results,
)
from oncelog.broker.config.loggers import logger_results
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.cluster import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from oncelog.core.metadata.refusal import Refusal
from oncelog.core.topic_names import topic_name_fault
from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

_NOT_A_RESOURCE = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
Outcome = list[DescribeConfigsResourceResult] | Refusal


def handle(node: Node, request: Request) -> DescribeConfigsResponse:
    """One result per resource asked for."""
    message: DescribeConfigsRequest = request.message
    results = []
    for asked in message.resources:
        wanted = Wanted(asked.configuration_keys, message.include_synonyms, message.include_documentation)
        outcome = _describe(node, asked, wanted)
        result = DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name)
        if isinstance(outcome, Refusal):
            result.error_code, result.error_message = outcome.error_code, outcome.message
        else:
            result.configs = outcome
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _describe(node: Node, asked: DescribeConfigsResource, wanted: Wanted) -> Outcome:
    kind, name = asked.resource_type, asked.resource_name
    if kind == TOPIC_RESOURCE:
        return _topic(node, name, wanted)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return _node(node, kind, name, wanted)
    if kind == GROUP_RESOURCE:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        configs = node.metadata.group_configs.get(name, {})
        return resource_results(kind, configs, node.config_values(), wanted)
    if kind == CLIENT_METRICS_RESOURCE:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        configs = node.metadata.client_metrics_configs.get(name, {})
        return resource_results(kind, configs, node.config_values(), wanted)
    return Refusal(ErrorCode.INVALID_REQUEST, _NOT_A_RESOURCE)


def _topic(node: Node, name: str, wanted: Wanted) -> Outcome:
    topic = node.metadata.topics.get(name)
    if topic is not None:
        return topic_results(topic, node.config_values(), wanted)
    fault = topic_name_fault(name)
    if fault:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")


def _node(node: Node, kind: int, name: str, wanted: Wanted) -> Outcome:
    is_logger = kind == BROKER_LOGGER_RESOURCE
    if not name:
        if is_logger:
            return Refusal(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        return default_broker_results(node.config_values(), wanted)
    if name != str(node.node_id):
        if not name.removeprefix("-").isdecimal():
            return Refusal(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        expected = f"{node.node_id} but" if is_logger else f"{node.node_id} or empty string, but"
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected} received {name}")
    return logger_results(wanted) if is_logger else broker_results(node.config_values(), wanted)

"""The admin client: topics, configurations, groups, and everything about transactions.

Use it as `async with Admin(bootstrap_servers=...)`. Each call works against Apache Kafka 4 as well.
"""

from __future__ import annotations

from oncelog.client.admin_configs import AdminConfigs, ConfigEntry, ConfigResource
from oncelog.client.admin_groups import AdminGroups, GroupDescription, GroupListing, GroupMember
from oncelog.client.admin_hanging import AdminHanging
from oncelog.client.admin_session import ClusterDescription, Features
from oncelog.client.admin_topics import NewTopic
from oncelog.client.transaction_listing import (
    HangingTransaction,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)


class Admin(AdminHanging, AdminConfigs, AdminGroups):
    """Everything an operator can do; keyword arguments are Kafka's admin keys in snake case."""


__all__ = [
    "Admin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "Features",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "HangingTransaction",
    "NewTopic",
    "ProducerDescription",
    "TransactionDescription",
    "TransactionListing",
]

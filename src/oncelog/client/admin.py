"""The admin client: topics, configurations, groups, and everything about transactions.

Use it as `async with Admin(bootstrap_servers=...)`. Each call works against Apache Kafka 4 as well.
"""

from __future__ import annotations

from oncelog.client.admin_acls import Acl, AclFilter, AdminAcls
from oncelog.client.admin_clients import AdminClients, Quotas, ScramCredential
from oncelog.client.admin_configs import AdminConfigs, ConfigEntry, ConfigResource
from oncelog.client.admin_groups import AdminGroups, GroupDescription, GroupListing, GroupMember
from oncelog.client.admin_hanging import AdminHanging
from oncelog.client.admin_nodes import AdminNodes, LogDirectory, QuorumDescription, QuorumVoter
from oncelog.client.admin_session import ClusterDescription, Features
from oncelog.client.admin_topics import NewTopic
from oncelog.client.transaction_listing import (
    HangingTransaction,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)


class Admin(AdminHanging, AdminConfigs, AdminGroups, AdminAcls, AdminClients, AdminNodes):
    """Everything an operator can do; keyword arguments are Kafka's admin keys in snake case."""


__all__ = [
    "Acl",
    "AclFilter",
    "Admin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "Features",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "HangingTransaction",
    "LogDirectory",
    "NewTopic",
    "ProducerDescription",
    "QuorumDescription",
    "QuorumVoter",
    "Quotas",
    "ScramCredential",
    "TransactionDescription",
    "TransactionListing",
]

"""The admin client: topics, configurations, groups, and everything about transactions.

Use it as `async with Admin(bootstrap_servers=...)`. Each call works against Apache Kafka 4 as well.
"""

from __future__ import annotations

from oncelog.client.admin.acls import Acl, AclFilter, AdminAcls
from oncelog.client.admin.clients import AdminClients, Quotas, ScramCredential
from oncelog.client.admin.configs import AdminConfigs, ConfigEntry, ConfigResource
from oncelog.client.admin.groups import AdminGroups, GroupDescription, GroupListing, GroupMember
from oncelog.client.admin.lanes import AdminLanes
from oncelog.client.admin.nodes import AdminNodes, LogDirectory, QuorumDescription, QuorumVoter
from oncelog.client.admin.session import ClusterDescription, Features
from oncelog.client.admin.share_groups import AdminShareGroups, SharePosition
from oncelog.client.admin.tokens import AdminTokens, DelegationToken
from oncelog.client.admin.topics import NewTopic
from oncelog.client.admin.transaction_listing import (
    HangingTransaction,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from oncelog.core.lanes.lanes import Lanes


class Admin(AdminLanes, AdminConfigs, AdminGroups, AdminShareGroups, AdminAcls, AdminClients, AdminTokens, AdminNodes):
    """Everything an operator can do; keyword arguments are Kafka's admin keys in snake case."""


__all__ = [
    "Acl",
    "AclFilter",
    "Admin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "DelegationToken",
    "Features",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "HangingTransaction",
    "Lanes",
    "LogDirectory",
    "NewTopic",
    "ProducerDescription",
    "QuorumDescription",
    "QuorumVoter",
    "Quotas",
    "ScramCredential",
    "TransactionDescription",
    "TransactionListing",
    "SharePosition",
]

"""Handlers of the cluster's metadata: topics, configs, features, quotas, access rules."""

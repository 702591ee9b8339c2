"""The cluster's metadata: topics, configs, features, quotas, credentials, access rules, as decisions over records."""

"""The group coordinator: offsets and queries of all groups; each protocol's own rules in `classic` and `consumer`."""

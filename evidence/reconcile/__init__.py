"""Faults planted into data directories of both brokers: `oncelog reconcile` must name each, and call nothing healthy faulty."""

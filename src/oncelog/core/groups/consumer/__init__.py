"""Groups of KIP-848: heartbeats, targets, reconciliation, and members that migrate."""

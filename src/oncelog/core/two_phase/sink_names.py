"""Names that the exactly-once sink takes where nobody says another: who looks for its traces looks there, too."""

from __future__ import annotations

TRANSACTIONAL_ID_PREFIX = "oncelog-spark"
DECISION_TOPIC = "__oncelog_decisions"

"""Names that the Spark format takes where nobody says another: who looks for its traces looks there, too."""

from __future__ import annotations

TRANSACTIONAL_ID_PREFIX = "oncelog-spark"
DECISION_TOPIC = "__oncelog_decisions"
POSITION_METADATA = "of a Spark query, which joins no group"  # of the positions that its source stores in a group

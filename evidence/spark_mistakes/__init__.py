"""What users of format `oncelog` do wrong, and the line that each gets: docs/spark-mistakes.md is made of it."""

"""The version of this package: here and nowhere else. pyproject.toml reads it; clients tell it to brokers (KIP-511)."""

__version__ = "0.1.0"
"""`MAJOR.MINOR.PATCH`, as SemVer counts; what may change with which number is in docs/policy.md."""

"""Our serializers against a running schema registry and Confluent's own serializers (docs/schemas.md)."""

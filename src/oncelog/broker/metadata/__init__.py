"""The cluster's metadata on disk, and topics as they come and go."""

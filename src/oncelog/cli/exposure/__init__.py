"""What of a broker's configuration is open, expired or soon expiring, weak, or readable by others."""

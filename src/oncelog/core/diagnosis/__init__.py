"""What holds readers back: facts that were seen become causes, the first to mend first."""

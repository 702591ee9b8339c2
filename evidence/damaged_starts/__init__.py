"""Starts of data directories of which one file is damaged: all is served, or the file is named and nothing is lost."""

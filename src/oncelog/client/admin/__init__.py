"""The admin client, one file per kind of thing."""

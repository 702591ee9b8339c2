"""The main job on real data: flights of 2013 through a real log, Spark and a database, with processes killed on the way."""

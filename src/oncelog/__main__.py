"""`python -m oncelog ...` is the command `oncelog ...`."""

from oncelog.cli.entry_points import oncelog

if __name__ == "__main__":
    oncelog()

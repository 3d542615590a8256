"""The entry point of `python -m whence`."""

from whence.cli.main import run

if __name__ == "__main__":
    run()

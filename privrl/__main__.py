"""The command ``privrl``, also as ``python -m privrl``.

It answers an interrupt from its start on: what it imports takes most of a second.
"""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from privrl.cli import main as run  # noqa: PLC0415 # it may be interrupted

        run()
    except (KeyboardInterrupt, RuntimeError) as error:
        # Up to Python 3.11 an interrupt while a class is made is the cause of an error.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        sys.stderr.write("stopped; no file is incomplete.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()

"""``python -m privrl`` is the command ``privrl``."""

from privrl.cli import main

if __name__ == "__main__":
    main()

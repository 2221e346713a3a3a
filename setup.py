"""What the package index shows: the README, whose links into the repository lead nowhere there."""

import re
from pathlib import Path

from setuptools import setup

ADDRESS = ""  # of the repository's files, such as "https://example.org/privrl/blob/v0.2.0/"

PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*")
LINK = re.compile(r"\[([^\[\]]*)\]\((?!https?:|mailto:|#)([^)]*)\)")


def described(readme: str, address: str = ADDRESS) -> str:
    """Return a README without pictures of the repository, its links whole or plain text."""
    return LINK.sub(rf"[\1]({address}\2)" if address else r"\1", PICTURE.sub("", readme))


if __name__ == "__main__":
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    setup(long_description=described(text), long_description_content_type="text/markdown")

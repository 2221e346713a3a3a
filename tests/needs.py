"""The collection of data sets, without which some tests are skipped."""

import os
from pathlib import Path

import pytest

COLLECTION = Path(os.environ.get("PRIVRL_DATA") or Path(__file__).parents[2] / "shared" / "uci")
needs_collection = pytest.mark.skipif(
    not COLLECTION.is_dir(),
    reason="no UCI data sets: "
    "python -c 'from privrl.data.datasets import *; [load(n) for n in NAMES]' "
    "downloads them, PRIVRL_DATA=~/.cache/privrl says where they are",
)

"""Tables that the tests of a module share."""

import pytest
from picture_checks import QuickTables


@pytest.fixture(scope="module")
def tables() -> QuickTables:
    return QuickTables()

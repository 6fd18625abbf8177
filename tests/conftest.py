"""Fixtures that several test files share."""

import pytest
from odd_pictures import OddPicture, make_single


@pytest.fixture(scope="session")
def odd_pictures(tmp_path_factory) -> list[OddPicture]:
    """Every odd picture, written once; treat the files as read-only."""
    return make_single(tmp_path_factory.mktemp("odd pictures"))

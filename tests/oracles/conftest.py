"""What tests of the oracles of pairs share."""

import pytest

from structsvm.oracles import pairs


@pytest.fixture(params=["counting", "merging"])
def path(request, monkeypatch):
    """Both ways to count, whatever the size."""
    monkeypatch.setattr(pairs, "_COUNTING_PAIRS", 10**9 if request.param == "counting" else 0)

"""The mark of the many random cases of a law, of which the ordinary run tries a few hundred."""

import pytest

LAW = (pytest.mark.slow, pytest.mark.law)

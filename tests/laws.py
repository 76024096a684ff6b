"""The mark of what ``.ci/run`` leaves out: ten thousand cases of a law, further processors, names of other Numbas."""

import pytest

LAW = (pytest.mark.slow, pytest.mark.law)

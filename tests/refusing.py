"""Helpers of tests of bad input: calls that must be refused."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from structsvm.common.checks import BadInput


def rejected(message: str, call: Callable[..., Any], /, *args: Any, **options: Any) -> ValueError:
    """Assert that a call raises a ``ValueError`` of any kind that matches; return it."""
    with pytest.raises(ValueError, match=message) as caught:
        call(*args, **options)
    error = caught.value
    del caught  # a traceback that leads back to this frame would keep files open that the call was reading
    return error.with_traceback(None)


def refused(message: str, call: Callable[..., Any], /, *args: Any, **options: Any) -> ValueError:
    """Assert that a call raises ``BadInput`` whose text, a single printable line, matches; return it."""
    error = rejected(message, call, *args, **options)
    assert isinstance(error, BadInput), repr(error)
    assert str(error).isprintable(), error
    return error


def refusals(call: Callable[..., Any], *cases: tuple[Any, ...], check: Any = refused) -> Callable[..., None]:
    """Return a test that ``call`` refuses the arguments of each case with the message at its end."""

    @pytest.mark.parametrize(("arguments", "message"), [(case[:-1], case[-1]) for case in cases])
    def test(arguments: tuple[Any, ...], message: str) -> None:
        check(message, call, *arguments)

    return test


rejections = partial(refusals, check=rejected)


def called(call: Callable[[], Any]) -> Any:
    """Call a case, which is a function without arguments."""
    return call()

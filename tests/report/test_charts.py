"""Axes that cover their values with round ends, and the numbers written at them."""

from __future__ import annotations

import itertools
import math

import pytest

from structsvm.report import charts
from structsvm.report.figures import line_style


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (0.1 + 0.2, "0.3"), (-2.5, "−2.5"), (1234.0, "1234"), (1e-4, "10⁻⁴"), (1e6, "10⁶"),
        (3e-7, "3·10⁻⁷"), (-2e8, "−2·10⁸"),
    ],
)  # fmt: skip
def test_numbers_on_an_axis(value, text):
    assert charts.number(value) == text


@pytest.mark.parametrize(
    ("low", "high"), [(0.02, 0.7), (1e-4, 1.0), (1e-12, 3.0), (0.1, 0.1), (1e-300, 1e300), (5e-5, 6e-5)]
)
def test_a_log_axis_covers_its_values_with_powers_of_ten(low, high):
    axis = charts.Axis(low, high, log=True)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 7
    for tick in ticks:
        assert math.log10(tick) == pytest.approx(round(math.log10(tick)), abs=1e-9)
        assert -1e-9 <= axis.share(tick) <= 1 + 1e-9
    assert -1e-9 <= axis.share(low) <= axis.share(high) <= 1 + 1e-9
    assert axis.share(axis.low) == pytest.approx(0)
    assert axis.share(axis.high) == pytest.approx(1)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (0, 0.0735), (-0.3, 0.7), (0, 123456), (5, 5), (0, 0), (-1e-9, 1e-9), (1e9, 1e9 + 1)],
)
def test_a_linear_axis_covers_its_values_with_even_round_steps(low, high):
    axis = charts.Axis(low, high, log=False)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    steps = [b - a for a, b in itertools.pairwise(ticks)]
    assert steps == pytest.approx([axis.step] * len(steps), rel=1e-6)
    assert f"{axis.step:.0e}"[0] in "125"
    assert axis.low <= low + 1e-6 * axis.step
    assert axis.high >= high - 1e-6 * axis.step


@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (1, 2), (1, 6), (1, 10), (1, 11), (0, 20), (1, 500), (1, 100_000)]
)
def test_an_axis_of_whole_numbers_begins_at_the_first(low, high):
    axis = charts.Axis(low, high, log=False, whole=True)
    ticks = axis.ticks()
    assert ticks[0] == low
    assert ticks[-1] <= high
    assert all(isinstance(tick, int) for tick in ticks)
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 7
    assert high == low or (axis.share(low), axis.share(high)) == (0, 1)


def test_what_is_outside_is_drawn_at_the_edge():
    frame = charts.Frame(charts.Axis(1, 100, log=True), charts.Axis(0, 1, log=False))
    assert frame.at(1, 0) == (charts.MARGIN[0], charts.HEIGHT - charts.MARGIN[3])
    assert frame.at(100, 1) == (charts.WIDTH - charts.MARGIN[1], charts.MARGIN[2])
    assert frame.at(10, 7.0) == frame.at(10, 1)
    assert frame.at(10, -7.0) == frame.at(10, 0)


def test_sixteen_lines_differ():
    assert len({line_style(i) for i in range(16)}) == 16
    # the first four do without colour
    assert len({line_style(i)[1] for i in range(4)}) == len({line_style(i)[2] for i in range(4)}) == 4

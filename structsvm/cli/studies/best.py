"""``best_said``: the sentence about the best systems of a study."""

from collections.abc import Mapping

from structsvm.metrics.significance import Leaders
from structsvm.plots.pages import listed, p_said


def tests_said(n: int) -> str:
    """Return a description of the test and, for several comparisons, of its correction."""
    text = "two-tailed Wilcoxon test over the queries"
    return f"{text}, corrected for {n} comparisons by Holm's method" if n > 1 else text


def best_said(
    best: Leaders, means: Mapping[str, str], measure: str, *, n_tests: int = 0, baseline: str = ""
) -> str:
    """Return a sentence with the best systems, those not significantly different, and the baseline if it is worse."""
    verb = "has" if len(best.first) == 1 else "equally have"
    text = f"{listed(best.first)} {verb} the best mean {measure}, {means[best.first[0]]}"
    if not best.p_values:
        return f"{text}."
    shown = {name: f"{name} ({means[name]}, {p_said(p)})" for name, p in best.p_values.items()}
    findings = []
    if baseline in shown and baseline not in best.level:
        findings.append(f"significantly better than the baseline {shown[baseline]}")
    if best.level:
        findings.append(f"no significant difference from {listed([shown[name] for name in best.level])}")
    elif len(shown) > 1 or not findings:
        findings = ["significantly better than each of the others"]
    return f"{text}: {'; '.join(findings)} ({tests_said(n_tests or len(shown))})."

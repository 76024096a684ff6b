"""What stands for missing features in prediction: what the model was trained with, or what is stated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from structsvm.cli.files import Table

if TYPE_CHECKING:
    from structsvm.protocols import Float


def kept_medians(model: Any) -> Float | None:
    """Return the medians that a model was trained with, None for a model without."""
    medians: Float | None = getattr(model, "table_", {}).get("fill")
    return medians


def fill_of(model: Any, table: Table) -> float | Literal["keep"] | None:
    """Return how rows are read for a model: missing features stay where it, or what it was trained with, takes them."""
    from sklearn.utils import get_tags

    if table.missing not in (None, "median"):
        return table.fill
    if kept_medians(model) is not None:
        return "keep"
    if table.missing == "median":
        raise ValueError("--fill median: expected a model that was trained with it, got another")
    return "keep" if get_tags(model).input_tags.allow_nan else None

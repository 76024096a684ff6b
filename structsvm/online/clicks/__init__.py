"""Simulated users: from the grades of a shown list to clicks, and to their exact probabilities."""

from __future__ import annotations

from structsvm.online.clicks.cascade import CASCADE_TABLES, CascadeModel
from structsvm.online.clicks.dependent import DependentClickModel
from structsvm.online.clicks.position_based import PositionBasedModel
from structsvm.online.clicks.tables import ClickModel, ClickTables

__all__ = [
    "CASCADE_TABLES",
    "CascadeModel",
    "ClickModel",
    "ClickTables",
    "DependentClickModel",
    "PositionBasedModel",
]

"""Simulated users: from the grades of a shown list to clicks, and to their exact probabilities."""

from __future__ import annotations

from structsvm.online.users.cascade import CASCADE_TABLES, CascadeModel
from structsvm.online.users.dependent import DependentClickModel
from structsvm.online.users.position_based import PositionBasedModel
from structsvm.online.users.tables import ClickModel, ClickTables

__all__ = [
    "CASCADE_TABLES",
    "CascadeModel",
    "ClickModel",
    "ClickTables",
    "DependentClickModel",
    "PositionBasedModel",
]

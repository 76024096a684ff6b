"""Simulated users: click models that sample clicks, and compute exact probabilities, given the grades of a list."""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.online.users.by_position import (
        DependentClickUser as DependentClickUser,
        PositionBasedUser as PositionBasedUser,
    )
    from structsvm.online.users.cascade import CascadeUser as CascadeUser
    from structsvm.protocols import ClickModel as ClickModel, ClickTables as ClickTables

__getattr__, __dir__, __all__ = attach(__name__)

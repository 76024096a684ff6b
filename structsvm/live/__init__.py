"""A service for experiments on live traffic: it compares rankers by the clicks of users.

``structsvm live serve`` starts the service; a site makes three calls (``assign``, ``show``, ``clicks``) or puts the
proxy in front of its search engine. Needs ``pip install '.[live]'`` in the source folder.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from structsvm.common.extras import extra
from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.live.client import Client as Client
    from structsvm.live.contract.settings import Settings as Settings
    from structsvm.live.experiment.service import Service as Service
    from structsvm.live.web.app import create_app as create_app

_NEEDED = ("starlette", "uvicorn", "sqlalchemy", "httpx", "prometheus_client")
_MISSING = [name for name in _NEEDED if find_spec(name) is None]
if _MISSING:
    raise ModuleNotFoundError(
        f"structsvm.live needs {_MISSING[0]}: pip install {extra('live')}", name=_MISSING[0]
    )

__getattr__, __dir__, __all__ = attach(__name__)

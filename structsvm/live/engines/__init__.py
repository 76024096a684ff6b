"""Search engines behind the proxy: each kind is one dialect, chosen by ``kind`` in the configuration."""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.live.engines.engine import Engine as Engine
    from structsvm.live.engines.opensearch import Elasticsearch as Elasticsearch, OpenSearch as OpenSearch
    from structsvm.live.engines.plain import PlainHTTP as PlainHTTP
    from structsvm.live.engines.solr import Solr as Solr

__getattr__, __dir__, __all__ = attach(
    __name__,
    label={"elasticsearch": "Elasticsearch", "opensearch": "OpenSearch", "http": "PlainHTTP", "solr": "Solr"},
)

"""Readers from files to :class:`structsvm.queries.QueryData`.

The same rules apply to all text files. A file is plain or compressed by gzip, bzip2, xz or zstd, which is recognised by
its first bytes; its text is UTF-8, and a leading byte order mark is skipped. Errors name the file and line of ids that
are not UTF-8 or contain a NUL byte, of a later byte order mark, of numbers that are not finite, and of lines of more
than 32 MB. A compressed file with more than 64 MB of text and more than 200 times its size is refused as a
decompression bomb; a higher limit is set by ``max_expansion=`` of the readers of LETOR, TREC and candidate files, or by
``structsvm --max-expansion N ...`` for every command.

The names below load their modules on first use, because the text parser is compiled and ``import structsvm`` should
stay fast.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.readers.candidate_sets import (
        LabelledSets as LabelledSets,
        judged_candidates as judged_candidates,
        read_ambient as read_ambient,
        read_aspects as read_aspects,
        read_candidates as read_candidates,
        write_candidates as write_candidates,
    )
    from structsvm.readers.conversion import convert_letor as convert_letor
    from structsvm.readers.datasets import (
        list_datasets as list_datasets,
        make_dataset as make_dataset,
        make_runs as make_runs,
    )
    from structsvm.readers.describing import describe as describe
    from structsvm.readers.feature_logs import read_feature_log as read_feature_log
    from structsvm.readers.letor import read_letor as read_letor, write_letor as write_letor
    from structsvm.readers.qrels import Qrels as Qrels, read_qrels as read_qrels, write_qrels as write_qrels
    from structsvm.readers.reading import read_queries as read_queries
    from structsvm.readers.run_features import candidates as candidates, judge_run as judge_run
    from structsvm.readers.runs import Run as Run, read_run as read_run, write_run as write_run
    from structsvm.readers.store import (
        StoreWriter as StoreWriter,
        open_store as open_store,
        write_store as write_store,
    )
    from structsvm.readers.synthetic import (
        make_ranking as make_ranking,
        write_ranking_store as write_ranking_store,
    )
    from structsvm.readers.tables import (
        convert_csv as convert_csv,
        convert_parquet as convert_parquet,
        read_csv as read_csv,
        read_parquet as read_parquet,
    )

__getattr__, __dir__, __all__ = attach(__name__)

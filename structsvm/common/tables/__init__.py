"""Tables of any kind: CSV, JSON lines, Parquet, data frames and streams of Arrow.

:mod:`.files` tells what is a table, :mod:`.opening` opens it, :mod:`.columns` types its columns by the rules of
:mod:`.roles`. Only the first and the last work without pyarrow.
"""

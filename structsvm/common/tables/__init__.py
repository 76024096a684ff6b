"""Tables of any kind: CSV, JSON lines, Parquet, data frames and Arrow streams.

:mod:`.files` recognises tables, :mod:`.opening` opens them, and :mod:`.columns` converts their columns by the rules of
:mod:`.ids_and_times`. Only :mod:`.files` and :mod:`.ids_and_times` work without pyarrow.
"""

"""Tables of any kind: CSV, JSON lines, Parquet, data frames and Arrow streams.

:mod:`.files` recognises tables, :mod:`.opening` opens them, and :mod:`.columns` converts their columns; :mod:`.ids` has
the rule for ids. Only :mod:`.files`, :mod:`.ids` and :mod:`.times` work without pyarrow.
"""

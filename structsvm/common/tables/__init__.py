"""Tables of any kind: CSV, JSON lines, Parquet, data frames and Arrow streams.

:mod:`.source` recognises tables, :mod:`.opening` opens them, and :mod:`.columns` converts their columns; :mod:`.roles`
has the usual names of columns, and :mod:`.ids` the rule for ids. These modules except :mod:`.columns` are imported
without pyarrow.
"""

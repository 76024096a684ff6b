"""Lists shown to users, as records that every log, store and export writes and reads in the same form."""

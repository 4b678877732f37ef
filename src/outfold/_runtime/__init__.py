"""Support code for the whole package: threads, memory, compiled loops, optional packages, names of stored classes."""

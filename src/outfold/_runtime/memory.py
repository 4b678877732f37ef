"""Free memory, and the check that refuses a large allocation in advance."""

from __future__ import annotations


def free_memory() -> float:
    """Return the bytes available without swapping, or infinity if the system does not report them."""
    try:
        with open("/proc/meminfo") as file:
            return 1024.0 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")


def check_fits(needed: float, what: str, instead: str) -> None:
    """Raise MemoryError if ``needed`` bytes are not free; the message begins with ``what``, ends with ``instead``."""
    free = free_memory()
    if needed > free:
        raise MemoryError(f"{what} about {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free. {instead}")

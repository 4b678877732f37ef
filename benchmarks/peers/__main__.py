"""python benchmarks/peers: see runner.py, or --help."""

from runner import main

main()

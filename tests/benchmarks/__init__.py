"""Speed, memory and cold start of keras_vit beside its peers: `python -m tests.benchmarks`."""

"""railgun beside nats-server and raw Kafka, in one run: ``python -m tests.benchmarks``, or ``make bench``."""

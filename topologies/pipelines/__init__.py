"""Pipelines on Spark, each a small job: archive, backfill, totals, audit, dead letters, acknowledgement latency. ``railgun pipeline`` runs them."""

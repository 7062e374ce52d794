"""Compositions to run and to copy: applications, and pipelines on Spark. An installed railgun has them as ``railgun._topologies``."""

"""The parts that pipelines share: the cluster, a folder with a card, batches that come again, and what an audit looks at."""

"""A worker as a module of your own: ``faust -A topologies.worker worker``.

Copy it to add agents, views or sensors of Faust beside railgun's shards. The configuration is ``railgun.toml`` in the working
directory, as for ``railgun worker``.
"""

from railgun.worker.faust_app import create_app

app = create_app()

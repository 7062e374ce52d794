"""``railgun init``: make the topics of a prefix, or print the permissions that it needs."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from railgun.cli.doctor.acls import client_grants, commands, worker_grants
from railgun.cli.options.cluster import Cluster
from railgun.cli.output import print_json
from railgun.cli.running import command


@command
def init(
    cluster: Cluster,
    print_acls: Annotated[
        bool,
        typer.Option("--print-acls", help="Only print the kafka-acls commands that grant what is needed."),
    ] = False,
    user: Annotated[
        str, typer.Option(help="The Kafka user of the workers (--print-acls).")
    ] = "railgun-worker",
    client_user: Annotated[
        str, typer.Option(help="The Kafka user of the clients (--print-acls).")
    ] = "railgun-client",
    partitions: Annotated[int, typer.Option(min=1, max=1024, help="Shards; fixed for good.")] = 8,
    reply_factor: Annotated[
        int,
        typer.Option(
            min=1, max=64, help="Reply partitions per shard, for very many clients; fixed for good."
        ),
    ] = 1,
    replication_factor: Annotated[
        int, typer.Option(min=1, help="Copies of each topic; 3 in production.")
    ] = 1,
    name: Annotated[str, typer.Option(help="The cluster's name; fixed for good.")] = "railgun",
) -> None:
    """Make the topics of the prefix, as the first worker would; what exists is left as it is."""
    if print_acls:
        _print_acls(cluster, user, client_user)
        return
    from railgun.kafka.cluster_record import prepare_cluster
    from railgun.protocol.registry import Protected

    logging.getLogger("railgun.kafka.cluster_record").setLevel(
        logging.ERROR
    )  # what it would warn of is said below
    cluster.announce()
    wanted = Protected(name, cluster.names.prefix, partitions, reply_factor)
    held = prepare_cluster(cluster.settings(), wanted, replication_factor)
    if cluster.as_json:
        print_json(held._asdict())
        return
    typer.echo(
        f"The topics of the prefix {held.prefix!r} are there: {held.partitions} partitions of commands"
    )
    for field, told in wanted._asdict().items():
        fixed = getattr(held, field)
        if told != fixed:
            typer.echo(f"note: {field} stays {fixed!r}: it was fixed at the first start", err=True)


def _print_acls(cluster: Cluster, user: str, client_user: str) -> None:
    names, server = cluster.names, cluster.address
    parts = {"worker": (user, worker_grants(names)), "client": (client_user, client_grants(names))}
    if cluster.as_json:
        print_json(
            {
                role: {"user": who, "grants": [one._asdict() for one in grants]}
                for role, (who, grants) in parts.items()
            }
        )
        return
    for role, (who, grants) in parts.items():
        typer.echo(f"# what a {role} needs, as the user {who}")
        for line in commands(server, who, grants):
            typer.echo(line)
        typer.echo("")

"""``railgun kv …``: make buckets, put and get values, watch them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Annotated, Any

import typer

from railgun.cli.options.arguments import Force
from railgun.cli.options.bucket_flags import (
    BucketFlags,
    BucketName,
    Chosen,
    KeyArgument,
    Revision,
    TtlOption,
    ValueArgument,
    value_of,
)
from railgun.cli.options.cluster import Cluster, sure
from railgun.cli.options.completion import known_buckets
from railgun.cli.options.flags import DURATION
from railgun.cli.output import print_json
from railgun.cli.reports.bucket_report import (
    entry_object,
    print_buckets,
    print_change,
    print_entry,
    print_history,
    print_removed,
    print_status,
    print_written,
    status_object,
)
from railgun.cli.reports.report import print_raw
from railgun.cli.running import command
from railgun.errors import ConfigError

app = typer.Typer(help="Make key-value buckets, put and get values, watch them.", no_args_is_help=True)


@app.command("add")
@command
def add(
    name: Annotated[str, typer.Argument(metavar="BUCKET", help="The bucket's name.")],
    flags: BucketFlags,
    cluster: Cluster,
    replica_of: Annotated[
        str | None, typer.Option(metavar="BUCKET", help="Make it a replica, which is only read, of this one.")
    ] = None,
) -> None:
    """Create a bucket. One that exists with the same settings is left as it is."""
    given = flags.given()
    with cluster.act() as rg:
        if replica_of is None:
            status = rg.create_bucket(name, **given).status()
        else:
            status = rg.bucket(replica_of).create_replica(name, **given).status()
    if cluster.as_json:
        print_json(status_object(status))
    else:
        typer.echo(f"Bucket {name} was created\n")
        print_status(status)


@app.command("put")
@command
def put(
    bucket: BucketName,
    key: KeyArgument,
    chosen: Chosen,
    cluster: Cluster,
    value: ValueArgument = None,
    ttl: TtlOption = None,
) -> None:
    """Store a value, and print its revision."""
    with cluster.act() as rg:
        stored = chosen.open(rg, bucket).put(key, value_of(value), ttl=ttl)
    print_written("Put", bucket, key, stored, cluster.as_json)


@app.command("create")
@command
def create(
    bucket: BucketName,
    key: KeyArgument,
    chosen: Chosen,
    cluster: Cluster,
    value: ValueArgument = None,
    ttl: TtlOption = None,
) -> None:
    """Store a value if the key has none."""
    with cluster.act() as rg:
        stored = chosen.open(rg, bucket).create(key, value_of(value), ttl=ttl)
    print_written("Created", bucket, key, stored, cluster.as_json)


@app.command("update")
@command
def update(
    bucket: BucketName,
    key: KeyArgument,
    chosen: Chosen,
    cluster: Cluster,
    revision: Annotated[int, typer.Option("--revision", help="The newest revision; 0: the key has none.")],
    value: ValueArgument = None,
) -> None:
    """Store a value if no other writer was faster."""
    with cluster.act() as rg:
        stored = chosen.open(rg, bucket).update(key, value_of(value), revision)
    print_written("Updated", bucket, key, stored, cluster.as_json)


@app.command("get")
@command
def get(
    bucket: BucketName,
    key: KeyArgument,
    chosen: Chosen,
    cluster: Cluster,
    revision: Annotated[int | None, typer.Option("--revision", help="This revision, not the newest.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Only the value, byte for byte.")] = False,
) -> None:
    """Show the value of a key."""
    with cluster.connect() as rg:
        entry = chosen.open(rg, bucket).get(key, revision=revision)
    if cluster.as_json:
        print_json(entry_object(entry))
    elif raw:
        print_raw(entry.raw)
    else:
        print_entry(entry)


@app.command("history")
@command
def history(bucket: BucketName, key: KeyArgument, chosen: Chosen, cluster: Cluster) -> None:
    """List what is stored of a key, oldest first."""
    with cluster.connect() as rg:
        found = chosen.open(rg, bucket).history(key)
    if cluster.as_json:
        print_json([entry_object(entry) for entry in found])
    else:
        print_history(found)


@app.command("ls")
@command
def ls(
    chosen: Chosen,
    cluster: Cluster,
    bucket: Annotated[
        str | None,
        typer.Argument(metavar="[BUCKET]", help="The bucket; else all.", autocompletion=known_buckets),
    ] = None,
    filter: Annotated[
        str | None, typer.Argument(metavar="[FILTER]", help="Only keys that match, such as orders.*.")
    ] = None,
) -> None:
    """List the buckets, or the keys of one."""
    with cluster.connect() as rg:
        if bucket is None:
            buckets = rg.buckets()
            if cluster.as_json:
                print_json([status_object(status) for status in buckets])
            else:
                print_buckets(buckets)
            return
        keys = sorted(chosen.open(rg, bucket).keys(filter))
    if cluster.as_json:
        print_json(keys)
    else:
        for key in keys:
            typer.echo(key)


@app.command("del")
@command
def delete(
    bucket: BucketName,
    key: KeyArgument,
    chosen: Chosen,
    cluster: Cluster,
    marker: Annotated[
        bool | None, typer.Option("--marker", help="Leave a marker, and keep the older values as history.")
    ] = None,
    revision: Revision = None,
) -> None:
    """Remove all values of a key."""
    with cluster.act() as rg:
        stored = chosen.open(rg, bucket).delete(key, revision=revision, marker=marker)
    print_written("Deleted", bucket, key, stored, cluster.as_json)


@app.command("purge")
@command
def purge(
    bucket: BucketName,
    chosen: Chosen,
    cluster: Cluster,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="The key; else all keys.")] = None,
    ttl: TtlOption = None,
    revision: Revision = None,
    force: Force = False,
) -> None:
    """Replace all values of a key by a marker; without a KEY, remove all values of the bucket."""
    if key is None:
        if ttl is not None or revision is not None:
            raise ConfigError("--ttl and --revision are for one key: give a KEY")
        sure(cluster, f"purge all values of bucket {bucket}", force)
    with cluster.act() as rg:
        opened = chosen.open(rg, bucket)
        if key is not None:
            stored = opened.purge(key, ttl=ttl, revision=revision)
            print_written("Purged", bucket, key, stored, cluster.as_json)
            return
        count = opened.purge_all()
    print_removed(bucket, count, "entry", "entries", cluster.as_json)


@app.command("compact")
@command
def compact(
    bucket: BucketName,
    chosen: Chosen,
    cluster: Cluster,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="The key; else old deletes go.")] = None,
    keep: Annotated[int | None, typer.Option(help="How many values of the key to keep (1).")] = None,
    older_than: Annotated[
        timedelta | None,
        typer.Option(parser=DURATION, metavar="DURATION", help="How old deletes must be (30m)."),
    ] = None,
) -> None:
    """Keep the newest values of a key; without a KEY, remove markers of deletes and purges that are old."""
    if (key is None and keep is not None) or (key is not None and older_than is not None):
        raise ConfigError("--keep is for a KEY, and --older-than for a bucket without one")
    with cluster.act() as rg:
        opened = chosen.open(rg, bucket)
        if key is not None:
            count = opened.compact(key, 1 if keep is None else keep)
        else:
            age = timedelta(minutes=30) if older_than is None else older_than
            count = opened.purge_deletes(age)
    print_removed(bucket, count, *(("value", "values") if key else ("marker", "markers")), cluster.as_json)


@app.command("watch")
@command
def watch(
    bucket: BucketName,
    chosen: Chosen,
    cluster: Cluster,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="Keys or patterns; else all keys.")
    ] = None,
    include_history: Annotated[bool, typer.Option("--history", help="Older values, too.")] = False,
    ignore_deletes: Annotated[bool, typer.Option("--ignore-deletes", help="Only values.")] = False,
    meta_only: Annotated[bool, typer.Option("--meta-only", help="No values, only that there are.")] = False,
    updates_only: Annotated[
        bool, typer.Option("--updates-only", help="Only what comes from now on.")
    ] = False,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many entries.")] = None,
) -> None:
    """Show the values that are there, and each change, until Ctrl-C. With --json a line each."""
    shown = 0
    with cluster.connect() as rg:
        opened = chosen.open(rg, bucket)
        options: dict[str, Any] = {
            "include_history": include_history,
            "ignore_deletes": ignore_deletes,
            "meta_only": meta_only,
            "updates_only": updates_only,
        }
        with opened.watch(keys, **options) if keys else opened.watch_all(**options) as changes:
            typer.echo(f"Watching bucket {bucket}", err=True)
            for entry in changes:
                if entry is None:  # the end of what was there
                    continue
                if cluster.as_json:
                    typer.echo(json.dumps(entry_object(entry), ensure_ascii=False))
                else:
                    print_change(entry)
                shown += 1
                if shown == count:
                    return


@app.command("status")
@command
def status(bucket: BucketName, chosen: Chosen, cluster: Cluster) -> None:
    """Show the settings and the state of a bucket."""
    with cluster.connect() as rg:
        found = chosen.open(rg, bucket).status()
    if cluster.as_json:
        print_json(status_object(found))
    else:
        print_status(found)


@app.command("rm")
@command
def rm(bucket: BucketName, chosen: Chosen, cluster: Cluster, force: Force = False) -> None:
    """Remove a bucket with all its values."""
    sure(cluster, f"remove bucket {bucket} and all its values", force)
    with cluster.act() as rg:
        rg.delete_bucket(bucket, stream_name=chosen.stream_name)
    if cluster.as_json:
        print_json({"bucket": bucket, "removed": True})
    else:
        typer.echo(f"Removed bucket {bucket}")

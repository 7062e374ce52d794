"""Making buckets for tests."""

from __future__ import annotations

from collections.abc import Callable

from railgun.client.facade.sync.buckets.bucket import Bucket

MakeBucket = Callable[..., Bucket]  # the fixture ``bucket``: a new bucket with these settings

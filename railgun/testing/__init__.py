"""For the tests of programs that use railgun: a cluster in memory, and a clock that the test moves.

The pytest plugin (``railgun.testing.plugin``, loaded by itself once railgun is installed) gives the fixtures ``rg`` and
``clock``; :class:`Clock` works with any facade whose nodes have ``test_clock`` on.
"""

from railgun.testing.clock import Clock

__all__ = ["Clock"]

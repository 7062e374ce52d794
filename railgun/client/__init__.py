"""The facade: what a program imports to publish, to read and to look after streams.

Each operation is written once as a request and a parser (:mod:`~railgun.client.operations.streams`); ``Railgun`` and ``AsyncRailgun``
are thin twins over one :class:`~railgun.client.connection.connection.Connection`, and a transport carries its bytes.
"""

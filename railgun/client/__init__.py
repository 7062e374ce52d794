"""The client: what a program uses to publish, to read and to look after streams.

An operation is written once, as a request and a parser or as steps (:mod:`~railgun.client.operations`). ``Railgun`` and
``AsyncRailgun`` (:mod:`~railgun.client.facade`) run it over one :class:`~railgun.client.connection.connection.Connection`,
and a transport carries its bytes.
"""

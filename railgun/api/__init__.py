"""The JetStream API by name: JSON and status messages in and out, over the rules of :mod:`railgun.semantics`."""

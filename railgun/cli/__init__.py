"""The command line: one module per noun, registered in :mod:`railgun.cli.main`."""

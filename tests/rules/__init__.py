"""Which rules of SEMANTICS the tests show: the ids, the plugin that collects, the command that prints what is missing."""

"""Which rules of docs/rules the tests show: the ids, the plugin that collects, the command that prints what is missing."""

"""The local processes that ``railgun up`` runs."""

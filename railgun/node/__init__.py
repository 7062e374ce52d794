"""The side that decides: shards, the registrar, and the Faust worker that carries them."""

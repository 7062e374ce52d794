"""The messages of a stream as its owner knows them: blocks, indexes, bodies at hand, memory."""

"""How RocksDB is set up: little memory, shared by all tables of a process, whatever the number of partitions."""

from __future__ import annotations

from typing import Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    FifoCompactOptions,
    Options,
    WriteBufferManager,
)

_MIB: Final = 1024 * 1024
COMPANION_BYTES: Final = 512 * _MIB  # of one shard, on disk

# Shared by all shards of the process, so that memory does not grow with the number of partitions it owns.
_CACHE: Final = Cache(64 * _MIB)
_WRITE_BUFFERS: Final = WriteBufferManager(64 * _MIB, False)


def store_options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    table = BlockBasedOptions()
    table.set_block_cache(_CACHE)
    table.set_bloom_filter(10, False)
    # Index and filter blocks count against the cache too; outside it they grow with the number of files.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # In parts: whole ones are as large as a million keys make them, and push each other out of the cache. Then a get reads a
    # megabyte: at 1,000,000 keys 1,300 gets a second instead of as many as at 1,000 (seen).
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(4096)
    table.set_pin_top_level_index_and_filter(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_manager(_WRITE_BUFFERS)
    options.set_write_buffer_size(16 * _MIB)
    options.set_max_write_buffer_number(3)
    options.set_max_open_files(-1)  # what FIFO compaction asks for; the bounds below keep them to some dozens
    options.set_max_background_jobs(2)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_MIB)
    options.set_max_total_wal_size(64 * _MIB)
    return options


def companion_options() -> Options:
    """Newest kept, oldest dropped, nothing ever rewritten: what is missing is elsewhere."""
    options = store_options()
    options.set_compaction_style(DBCompactionStyle.fifo())
    bound = FifoCompactOptions()
    bound.max_table_files_size = COMPANION_BYTES
    options.set_fifo_compaction_options(bound)
    options.set_compression_type(DBCompressionType.none())
    return options

"""Key-value buckets on streams, without I/O: names, codecs, entries, and the steps of reading, writing and watching."""

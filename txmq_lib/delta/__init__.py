"""Delta tables: the warehouse, its logs and files, and the writers. The only importer of `delta`."""

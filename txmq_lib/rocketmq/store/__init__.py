"""What a broker keeps on its disk: records, the commit log, consume queues, offset tables, broker.conf."""

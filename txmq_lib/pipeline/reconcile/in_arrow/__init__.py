"""What a large reconcile pass does from file to file in Arrow, so that no body and few ends enter the JVM.

Ends       judging, with named_halves and plain_ends
Messages   numbering (the queue offset of each), message_files, message_rows
Ops        op_files
"""

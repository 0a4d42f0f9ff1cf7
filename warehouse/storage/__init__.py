"""How a warehouse lies in a folder or a bucket: files, lists of generations, one writer at a time, copies."""

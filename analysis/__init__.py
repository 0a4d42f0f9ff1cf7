"""Pure maths: tables in, answers out. No files, no SQL, no widgets."""

"""The core: the words, the contract of a record, the store and its SQL. Imports no other package."""

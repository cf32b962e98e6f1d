"""The command line `titans-ts`: what takes long to load is loaded by the command that uses it."""

"""The commands of the command line; part of the `cli` layer, each imported when it runs."""

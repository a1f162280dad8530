"""What each command of the command line does; part of the `cli` layer, imported when it runs."""

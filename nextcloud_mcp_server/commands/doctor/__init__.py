"""The command `doctor`: checks the setup and prints what to do; one module for each part of it."""

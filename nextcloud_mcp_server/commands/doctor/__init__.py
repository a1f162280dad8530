"""The command `doctor`: checks the setup and says what to do; one module for each part of it."""

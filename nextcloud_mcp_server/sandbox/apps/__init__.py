"""The apps of the sandbox: one module or package for each."""

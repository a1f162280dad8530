"""The demo: a whole journey against the built-in sandbox. May import the sandbox and what `cli` may."""

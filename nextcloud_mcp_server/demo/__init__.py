"""The whole journey, played against the built-in sandbox. May import the sandbox and what `cli` may."""

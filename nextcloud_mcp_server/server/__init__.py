"""The composition root: builds a server from the settings, and runs it. No other package creates the parts."""

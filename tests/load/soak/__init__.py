"""The soak: many users for a long time, with faults; see `__main__`."""

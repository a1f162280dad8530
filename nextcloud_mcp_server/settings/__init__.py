"""The operator's settings: fields, checks, reading from the environment, and the documents printed from them."""

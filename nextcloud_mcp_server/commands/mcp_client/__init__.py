"""The commands of `client`: what each does once its arguments are read."""

"""One package for each Nextcloud app: its client, models, tools and resources. Apps do not import each other."""

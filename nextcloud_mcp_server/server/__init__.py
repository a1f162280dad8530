"""The composition root: the only place that builds things. Settings in, a running server out."""

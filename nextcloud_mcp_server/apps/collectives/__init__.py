"""Collectives: pages that groups write."""

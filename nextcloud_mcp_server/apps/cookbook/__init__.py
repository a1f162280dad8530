"""Cookbook: recipes."""

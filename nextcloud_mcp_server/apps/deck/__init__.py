"""Deck: boards with stacks of cards."""

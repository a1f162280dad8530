"""The one list of apps. Declarations are data that every start reads: they import nothing else of this package."""

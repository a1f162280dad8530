"""Makes what a release needs beside the code: notes, and what registries and app stores want to be told."""

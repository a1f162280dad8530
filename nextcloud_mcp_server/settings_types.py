"""How the texts of variables become values."""

from typing import Annotated

from pydantic import BeforeValidator, SecretStr


def _words(value: object) -> object:
    """Split a comma-separated text; anything else passes."""
    if isinstance(value, str):
        return tuple(word for word in value.replace(",", " ").split() if word)
    return value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Secrets = Annotated[tuple[SecretStr, ...], BeforeValidator(_words)]
#: Placed before a choice of words, which may be written in capitals too.
Lower = BeforeValidator(_lower)

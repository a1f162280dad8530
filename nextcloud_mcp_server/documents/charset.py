"""Detects the character encoding of bytes: by a byte order mark, as UTF-8, or with a detector."""

import codecs
import io
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

#: The bytes at the start of a file that decide its encoding.
SAMPLE_BYTES: Final = 32_768
#: This many multibyte characters in a row can only be UTF-8.
CERTAIN: Final = 8

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16, whose little-endian mark is a prefix of this one.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: The encodings from which the detector chooses, by Python's name, with the label of the WHATWG Encoding Standard.
#: Of equally likely ones the first is taken, so the most common stand first.
_LABELS: Final = {
    "cp1252": "windows-1252", "cp1250": "windows-1250", "cp1251": "windows-1251", "cp932": "Shift_JIS",
    "gb18030": "gb18030", "euc_jp": "EUC-JP", "big5": "Big5", "cp949": "EUC-KR", "koi8_r": "KOI8-R",
    "cp1254": "windows-1254", "cp1253": "windows-1253", "cp1255": "windows-1255", "cp1256": "windows-1256",
    "cp1257": "windows-1257", "cp850": "IBM850",
}  # fmt: skip
#: Encodings that browsers read as another (WHATWG Encoding Standard, "names and labels").
_READ_AS: Final = {
    "iso8859-1": "cp1252", "shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030",
    "iso8859-9": "cp1254", "iso8859-11": "cp874",
}  # fmt: skip
_CONTROLS: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_NOT_ASCII: Final = re.compile(rb"[^\x00-\x7f]")
_UTF8: Final = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
#: The bytes that never begin a character in UTF-8 (RFC 3629 §3).
_INSIDE: Final = bytes(range(0x80, 0xC0))
#: The non-ASCII characters of Western texts without accents, in windows-1252: one byte for a currency, a quotation
#: mark, a dash or a symbol. None is inside a word except an apostrophe, and none is followed by a common second byte
#: of Shift_JIS.
_SIGN: Final = re.compile(
    rb"(?<![\x80-\xff])(?:(?<=[A-Za-z])\x92|(?<![A-Za-z])[\x80\x84\x93\x96\x97\xa3\xa7\xa9\xab\xb0\xb1\xb7\xd7]"
    rb"|[\x80\x85\x94\x97\x99\xa9\xae\xb0\xb7\xbb](?![A-Za-z])|\x85[\x92\x94])(?![\x80-\xff@\[-`{-~])"
)
_WORD: Final = re.compile(r"[^\W\d_]+", re.UNICODE)
#: A symbol between two letters is what a wrong encoding makes of an accent.
_ODD: Final = re.compile(
    r"[^\W\d_][^\w\s'\u2019.,;:/@&+()\"\-_\u2010-\u2015\u3000-\u303f\uff00-\uffef]+(?=[^\W\d_])"
)
_SCRIPTS: Final = frozenset({"LATIN", "CYRILLIC", "GREEK", "HEBREW", "ARABIC", "CJK", "BOPOMOFO"})
_SYLLABLES: Final = frozenset({"HIRAGANA", "KATAKANA", "HANGUL", "KATAKANA-HIRAGANA", "IDEOGRAPHIC"})
#: The non-ASCII letters of Turkish, and those of them that other languages lack.
_TURKISH: Final = frozenset("çğıöşüÇĞİÖŞÜâîûÂÎÛ")
_TURKISH_ALONE: Final = frozenset("ğışĞİŞ")
#: Encodings that are tried although the detector rejects them, as it does for short accented words and rare symbols.
_TRIED: Final = {"cp1252": (0.2, 0.0), "cp1250": (0.2, 0.0), "cp1251": (0.2, 0.0), "gb18030": (0.2, 0.0)}
#: With a greater share of invalid bytes, the data is not text.
_MOST_DAMAGE: Final = 0.1
_MOST_CONTROLS: Final = 0.02
_SHORT: Final = 4
_LONG: Final = 200
#: Control characters that texts have, and the categories of characters that they do not have.
_WHITESPACE: Final = "\t\n\r\f\v\b\x1b"
_NO_TEXT: Final = frozenset({"Cc", "Cn", "Co"})


@dataclass(frozen=True, slots=True)
class Charset:
    """The encoding of a file: Python's codec, and the byte order mark at its start."""

    codec: str
    bom: bytes = b""

    @property
    def label(self) -> str:
        """The common name of the encoding, with the byte order mark if there is one."""
        name = self.codec.upper().replace("-LE", "LE").replace("-BE", "BE")
        return _LABELS.get(self.codec, name) + (" with BOM" if self.bom else "")

    @property
    def unit(self) -> int:
        """The bytes per code unit; offsets are multiples of it."""
        return 4 if "-32-" in self.codec else 2 if "-16-" in self.codec else 1

    def decode(self, data: bytes) -> str:
        """Decode without the mark; invalid bytes become U+FFFD."""
        return data.removeprefix(self.bom).decode(self.codec, "replace")

    def open(self, data: bytes) -> str:
        """Decode without the mark, so that `close` restores the same bytes, including invalid ones.

        Raises:
          UnicodeError: There are invalid bytes that this encoding cannot preserve.
        """
        text = data.removeprefix(self.bom).decode(self.codec, "surrogateescape")
        if self.close(text) != data:
            raise UnicodeError(self.codec)
        return text

    def close(self, text: str) -> bytes:
        """Encode the text from `open`, with the mark."""
        return self.bom + text.encode(self.codec, "surrogateescape")


UTF8: Final = Charset("utf-8")


def detect(data: bytes, *, whole: bool) -> Charset | None:
    """Detect the encoding of a file by its first bytes; None for other data than text.

    `whole`: these are all bytes of the file. Otherwise the last character may be incomplete.
    """
    for bom, codec in _BOMS:
        if data.startswith(bom):
            marked = Charset(codec, bom)
            return marked if codec == "utf-8" or _is_text(data[len(bom) :], codec, whole=whole) else None
    return _wide(data, whole=whole) or _unmarked(data, whole=whole)


def _unmarked(data: bytes, *, whole: bool) -> Charset | None:
    """Detect the encoding of data without a mark and without zero bytes."""
    if b"\0" in data:
        return None
    if _decodes(data, "utf-8", whole=whole):
        return UTF8
    if len(_CONTROLS.findall(data)) > _MOST_CONTROLS * len(data):
        return None
    found = _UTF8.findall(data)
    strange = len(_NOT_ASCII.findall(data)) - sum(map(len, found))
    if len(found) > strange:
        # UTF-8 with some invalid bytes.
        return UTF8 if strange <= _MOST_DAMAGE * len(data) else None
    return _guessed(data)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the beginning of a file says about its encoding; `charset` is None for other data than text."""

    charset: Charset | None
    is_ascii: bool

    @classmethod
    def of(cls, head: bytes, *, whole: bool = False) -> "Beginning":
        """Detect the encoding from the first bytes of a file, or from all of them."""
        return cls(detect(head, whole=whole), head.isascii())

    def of_part(self, part: bytes) -> Charset | None:
        """Detect the encoding of the file from a later part of it, from a character on."""
        if self.charset is UTF8 and self.is_ascii and not _decodes(part, "utf-8", whole=False):
            return detect(part, whole=False)
        return self.charset


def is_certain(part: bytes) -> bool:
    """Tell whether a part of a file alone proves that the file is UTF-8."""
    from_a_character = part.lstrip(_INSIDE)
    return (
        _decodes(from_a_character, "utf-8", whole=False)
        and not _CONTROLS.search(part)
        and len(_UTF8.findall(part)) >= CERTAIN
    )


def of_file(data: bytes) -> Charset | None:
    """Detect the encoding of a whole file; None for other data than text."""
    found = detect(data[:SAMPLE_BYTES], whole=len(data) <= SAMPLE_BYTES)
    if found is UTF8 and len(data) > SAMPLE_BYTES:
        other = _NOT_ASCII.search(data)
        around = max(0, other.start() - SAMPLE_BYTES // 2) if other else len(data)
        found = Beginning.of(data[:SAMPLE_BYTES]).of_part(data[around : around + SAMPLE_BYTES])
    return found


def decode(data: bytes, *, declared: str | None = None) -> str:
    """Decode a text as a browser would: by its mark, its declaration, as UTF-8, or by detection.

    A declaration that does not fit the bytes is ignored: a mail program that declares `us-ascii` may send anything.
    """
    marked = next((Charset(codec, bom) for bom, codec in _BOMS if data.startswith(bom)), None)
    if marked is not None:
        return marked.decode(data)
    known = _known(declared)
    if known is not None and _decodes(data, known, whole=True):
        return data.decode(known)
    return (of_file(data) or Charset(known or "utf-8")).decode(data)


def _known(declared: str | None) -> str | None:
    """Return Python's name of a declared encoding; None without one that can decode text."""
    try:
        info = codecs.lookup((declared or "").strip())
    except (LookupError, ValueError):
        return None
    if not getattr(info, "_is_text_encoding", True) or info.name in {"undefined", "idna", "punycode"}:
        return None
    # A declaration that can be read as ASCII is not in such an encoding (HTML standard, 13.2.3.2).
    return None if info.name.startswith(("utf-16", "utf-32")) else _READ_AS.get(info.name, info.name)


def _decodes(data: bytes, codec: str, *, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(codec)("strict").decode(data, final=whole)
    except (UnicodeError, ValueError):
        return False
    return True


def _is_text(data: bytes, codec: str, *, whole: bool) -> bool:
    """Tell whether most of the data is valid in this encoding, with hardly any control characters.

    In a long text, unassigned characters count too: a seventh of random code units are such. In a short one, the mark
    decides.
    """
    unit = 4 if "-32-" in codec else 2
    body = data if whole else data[: len(data) - len(data) % unit]
    text = body.decode(codec, "replace")
    unlikely = _NO_TEXT if len(text) >= _LONG else {"Cc"}
    strange = sum(
        c == "\ufffd" or (c not in _WHITESPACE and unicodedata.category(c) in unlikely) for c in text
    )
    return strange <= _MOST_DAMAGE * len(text)


def _wide(data: bytes, *, whole: bool) -> Charset | None:
    """Detect UTF-16 without a mark: in Western text every second byte is zero, always the same one."""
    if b"\0" not in data or len(data) < _SHORT:
        return None
    even, odd = data[::2].count(0), data[1::2].count(0)
    for codec, zero, other in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if zero > len(data) // 5 and not other:
            body = data if whole else data[: len(data) - len(data) % 2]
            text = body.decode(codec, "replace")
            if "\ufffd" not in text and not any(c < " " and c not in "\t\n\r\f" for c in text):
                return Charset(codec)
    return None


def _guessed(data: bytes) -> Charset | None:
    """Choose the legacy encoding that gives the most likely text."""
    from charset_normalizer import from_bytes  # noqa: PLC0415 - only where a text is not UTF-8

    # A line with non-ASCII bytes is worth more for detection than a hundred lines without.
    telling = b"".join(line for line in io.BytesIO(data) if not line.isascii())
    if not _NOT_ASCII.search(_SIGN.sub(b"", telling)):
        # There is no word that indicates another encoding.
        return Charset("cp1252")
    sample = telling[:SAMPLE_BYTES]
    if len(telling) > SAMPLE_BYTES:
        # A truncated character would count against its own encoding.
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    matches = from_bytes(sample, cp_isolation=list(_LABELS), enable_fallback=False)
    seen = {
        codec: (match.chaos, match.coherence)
        for match in matches
        for codec in (match.encoding, *match.could_be_from_charset)
    }
    ranked: list[tuple[float, int, str]] = []
    for place, codec in enumerate(_LABELS):
        match = seen.get(codec) or _TRIED.get(codec)
        badness = match and _badness(sample, codec, *match)
        if badness is not None and badness < 1:
            ranked.append((round(badness, 1), place, codec))
    return Charset(min(ranked)[2]) if ranked else None


def _badness(sample: bytes, codec: str, chaos: float, coherence: float) -> float | None:
    """Return how unlikely a text is in this encoding; None where it is impossible."""
    text = sample.decode(codec, "replace")
    if "\ufffd" in text or any(
        unicodedata.category(c) in _NO_TEXT and c not in _WHITESPACE and c != "\x85" for c in text
    ):
        return None
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    odd = len(_ODD.findall(text)) + sum(map(_is_odd, words))
    accents = {c for word in words for c in word if c > "\x7f"}
    if codec == "cp1254" and accents <= _TURKISH and len(accents & _TURKISH_ALONE) > 1:
        coherence += 0.5
    return chaos - coherence + odd / max(1, len(words))


def _is_odd(word: str) -> bool:
    """Tell whether a word mixes scripts, mixes lower and upper case, or consists mostly of accents."""
    scripts = {_script(c) for c in word} - {""}
    accents = sum(c > "\x7f" for c in word)
    jumps = any(
        before.islower() and after.isupper() and not (before + after).isascii()
        for before, after in pairwise(word)
    )
    return (
        jumps
        or len(scripts) > 1
        or ("LATIN" in scripts and len(word) >= _SHORT and accents * 3 > len(word) * 2)
    )


@cache
def _script(character: str) -> str:
    """Return the script of a letter; Han and the Japanese syllabaries count as one."""
    name = unicodedata.name(character, "").partition(" ")[0]
    return name if name in _SCRIPTS else "CJK" if name in _SYLLABLES else ""

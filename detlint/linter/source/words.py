"""Which of many texts hold a word: told from a list of all words, where each text was searched for it before."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"[^\W\d]\w*", re.ASCII)
# Words that begin with a digit come before it: numbers, of which a table written out may hold a million.
_FIRST = b":"
# Bytes that words are made of stand for themselves, all others for the space between words.
_APART = bytes(byte if chr(byte) == "_" or (byte < 128 and chr(byte).isalnum()) else 32 for byte in range(256))


class Words:
    """The words of texts, each with the positions of the texts that hold it, in order."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._holding: defaultdict[bytes, list[int]] = defaultdict(list)
        for position, text in enumerate(texts):
            for word in set(text.translate(_APART).split()):
                if word > _FIRST:
                    self._holding[word].append(position)

    def holding(self, word: str) -> Sequence[int]:
        """Return the positions of the texts that hold a word, one of those that `is_word` knows."""
        return self._holding.get(word.encode(), ())


def is_word(name: str) -> bool:
    """Whether a name is a single word of letters, digits and underscores of ASCII, and no number."""
    return _WORD.fullmatch(name) is not None


def holds(text: bytes, name: str) -> bool:
    """Whether a text holds a name as a word, or as several."""
    word = name.encode()
    # Most texts do not hold it at all, which `in` finds out in half the time.
    return word in text and re.search(rb"%s(?!\w)(?<!\w%s)" % (word, word), text) is not None

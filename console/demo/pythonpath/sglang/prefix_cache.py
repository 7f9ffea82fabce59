"""Which prompts were seen before, by pages of their text: enough to tell a cold prompt from a warm one."""

from __future__ import annotations

import re
from hashlib import blake2b

from sglang.server_args import PAGE_SIZE

CHARACTERS_PER_TOKEN = 5.0
_PARTS = re.compile(r"\w{1,5}|[^\w\s]")
_PAGE_CHARACTERS = int(PAGE_SIZE * CHARACTERS_PER_TOKEN)
_MAX_PAGES = 20000


def count_tokens(text: str) -> int:
    """About as many as a tokenizer would make of it: a short word is one token, wherever it stands."""
    return max(1, len(_PARTS.findall(text)))


class PrefixCache:
    """Only whole pages are found again, and only from the start of a prompt."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._pages: set[bytes] = set()

    def take(self, prompt: str) -> int:
        """Tokens of the prompt that are cached; afterwards all its pages are."""
        if not self._enabled:
            return 0
        cached, digest = 0, blake2b(digest_size=8)
        for start in range(0, len(prompt) - _PAGE_CHARACTERS + 1, _PAGE_CHARACTERS):
            digest.update(prompt[start : start + _PAGE_CHARACTERS].encode())
            page = digest.digest()
            if page in self._pages:
                cached += PAGE_SIZE
            elif len(self._pages) < _MAX_PAGES:
                self._pages.add(page)
        return cached

    def flush(self) -> None:
        """Forget everything."""
        self._pages.clear()

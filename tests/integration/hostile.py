"""What a log may hold: bytes that would steer a terminal, forge lines of the screen, or break a parser.

A prompt is text from anybody, and servers write prompts into their logs.
"""

from __future__ import annotations

import random

STEERING = (
    b"A\x1b[2JB\x1b]0;OWNED\x07C\x1b]52;c;aGFja2Vk\x07D\x1b[31mE\x1b[0m\x9b31mF\x1b[?1049lG\rH\x08\x08I\tJ\x00K",
    b"colour of the router: \x1b[2m2026-11-29 23:25:04\x1b[0m \x1b[33m WARN\x1b[0m \x1b[2msmg\x1b[0m text",
    b"cursor \x1b[5;5H\x1b[10A\x1b[K\x1b[J\x1b7\x1b8\x1bc\x1b[!p\x1b#8\x1b(0qqq\x1b(B\x0e\x0f end",
    b"modes \x1b[?1000h\x1b[?2004h\x1b[?25l\x1b[?7l\x1b[20h\x1b=\x1b> end",
    b"answers \x05\x1b[c\x1b[6n\x1b[5n\x1b[>c\x1bZ\x1bP$qm\x1b\\\x1b[21t\x1b]10;?\x07 end",
    b"strings \x1bPq#0;2;0;0;0#0~~\x1b\\\x1b_G\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\ end",
    b"links \x1b]8;;http://x\x07link\x1b]8;;\x07 end",
    b"C1 as bytes \x9b2J\x9d0;T\x9c\x90q\x9c\x84\x85\x8d\x9f end",
    "C1 as UTF-8 \x9b2J\x9d0;T\x9c\x90q\x9c\x84\x85\x8d\x9f end".encode(),
    b"begun and never ended \x1b]0;TITLE",
    b"begun \x1b[",
    b"31mand gone on in the next line",
    b"lonely \x1b",
    b"bells \x07\x07 and deletes \x7f\x7f and feeds \x0b\x0c end",
    "bidi \u202e\u2066evil\u2069\u202c \u200e\u200f \u061c end".encode(),
    "invisible \u200b\u200d\ufeff\u00ad\u2060 \U000e0041\U000e007f end".encode(),
    "separators \u2028\u2029\x85 private \ue000 unassigned \U0003fffe\u0378 end".encode(),
    b"no UTF-8 \xff\xfe\xc0\xaf\xed\xa0\x80\xf5\x80\x80\x80\xe2\x82 end",
    b"bar 1%\rbar 50%\x1b[A\rbar 100%\x1b[2K",
)

MARKUP = (
    b"[TP0] Decode batch, #running-req: 1",
    b"conn [/usr/bin/python3] exited",
    b"[red] is not a colour here",
    b"[/",
    b'reply [1, "3"], and ZLEXCOUNT z [b + should reply 3',
    b"[@click=app.quit]click me[/]",
    b"[link=file:///etc/passwd]x[/link]",
)

WIDE = tuple(
    text.encode()
    for text in (
        "prompt: 日本語テキスト | DeepSeek モデル | 价格",
        "emoji: 👨\u200d👩\u200d👧 🇩🇪 ❤\ufe0f | after",
        "combining: e\u0301 a\u0308\u0308\u0308\u0308\u0308 | zero\u200bwidth | rtl: שלום",
        "tab:\tafter tab",
    )
)


def noise(seed: int, lines: int = 300) -> tuple[bytes, ...]:
    """Lines of bytes drawn at random, more of them from those that matter."""
    draw = random.Random(seed)
    favourites = b"\x1b\x1b\x1b[]?;0123456789mHJKh\x07\x08\x9b\x9d\x90\r\t\xc2\xe2"
    return tuple(
        bytes(
            draw.choice(favourites) if draw.random() < 0.5 else draw.choice(NO_NEWLINE)
            for _ in range(draw.randrange(80))
        )
        for _ in range(lines)
    )


NO_NEWLINE = bytes(byte for byte in range(256) if byte != 0x0A)

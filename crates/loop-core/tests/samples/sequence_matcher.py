"""Writes `sequence_matcher.json`: pairs of texts and what Python's difflib says of them.

Run with Python 3.11:  python3 sequence_matcher.py > sequence_matcher.json
Each line is [a, b, characters in common blocks, characters in both].
"""

import difflib
import json
import random

PINNED = [
    ("fix bug", "fix the bug"), ("fix the bug", "fix bug"),
    ("delete user", "deactivate user"), ("deactivate user", "delete user"), ("user", "user"),
    ("enable mfa", "disable mfa"), ("grant access alice", "revoke access alice"),
    ("invoice 1041", "invoice 1042"), ("disk space server01", "disk space server02"),
    ("python 310 install", "python 311 install"), ("python 3.10 install", "python 3.11 install"),
    ("how to reset password", "reset password how to"),
    ("tide", "diet"), ("diet", "tide"),
    ("", ""), ("", "a"), ("a", ""), ("a", "a"), ("a", "b"), (" ", "  "),
    ("abcd", "bcde"), ("qabxcd", "abycdf"), ("private Thread currentThread;", "private volatile Thread currentThread;"),
    ("aaaa", "aa"), ("abab", "baba"), ("\t\n", "\n\t"),
    ("grüße", "grusse"), ("naïve", "naive"), ("naïve", "nai\u0308ve"), ("日本語を検索", "日本を検索する"),
    ("🙂🙃🙂", "🙃🙂🙃"), ("👩\u200d👩\u200d👧", "👩\u200d👧"), ("İstanbul", "istanbul"), ("Ω", "ω"),
    ("привет мир", "мир привет"), ("مرحبا بالعالم", "مرحبا"), ("a" * 199, "a" * 199), ("a" * 200, "a" * 200),
    ("a" * 201, "a" * 199), ("b" + "a" * 250, "a" * 250 + "b"), ("ab" * 150, "ba" * 150), ("abc" * 100, "cab" * 70),
    ("x" * 300 + "needle", "y" * 300 + "needle"), ("needle " * 40, "needle"), ("needle", "needle " * 40),
]

WORDS = (
    "how to reset the password of a user account find open invoices for customer disk full on server error log "
    "backup failed restore database slow query index missing timeout gateway deploy release branch merge conflict "
    "printer offline vpn mfa token expired grant access revoke order refund shipment late größe straße naïve café "
    "поиск заказ 顧客 検索 🙂 01 02 1041 1042 3.10 3.11"
).split(" ")


def near(rng, words):
    words = list(words)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(words) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            words.insert(at, rng.choice(WORDS))
        elif kind == 1 and words:
            del words[min(at, len(words) - 1)]
        elif kind == 2 and words:
            words[min(at, len(words) - 1)] = rng.choice(WORDS)
        else:
            rng.shuffle(words)
    return words


def pairs():
    yield from PINNED
    rng = random.Random(1041)
    for _ in range(200):
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, 8))]
        yield " ".join(words), " ".join(near(rng, words))
    for _ in range(80):
        letters = "ab" if rng.randrange(2) else "abcde "
        yield tuple("".join(rng.choice(letters) for _ in range(rng.randint(0, 24))) for _ in range(2))
    # Around and above the length from which frequent characters are not searched for.
    for _ in range(90):
        words = [rng.choice(WORDS) for _ in range(rng.randint(25, 70))]
        yield " ".join(words), " ".join(near(rng, words))
    for _ in range(40):
        alphabet = [chr(c) for c in range(0x4E00, 0x4E00 + rng.choice([3, 40, 400]))]
        text = [rng.choice(alphabet) for _ in range(rng.randint(150, 420))]
        other = list(text)
        for _ in range(rng.randint(0, 60)):
            other[rng.randrange(len(other))] = rng.choice(alphabet)
        cut = rng.randrange(len(other))
        yield "".join(text), "".join(other[cut:] + other[:cut])


def line(a, b):
    matcher = difflib.SequenceMatcher(None, a, b)
    common = sum(block.size for block in matcher.get_matching_blocks())
    both = len(a) + len(b)
    assert matcher.ratio() == (2.0 * common / both if both else 1.0)
    return json.dumps([a, b, common, both], ensure_ascii=False)


print("[\n" + ",\n".join(line(a, b) for a, b in pairs()) + "\n]")

"""Texts that tokenizers trip over, made from a seed."""

import random
import unicodedata

WORDS = ("the of and to in model training data don't I'll we've THEY'RE it's she'd I'm 'tis rock'n'roll naïve café Übung "
         "straße ﬁnish œuvre Ångström Kelvin İstanbul ſhe'ſ hello world tokenizer unbelievable antidisestablishmentarianism "
         "x = y; return; def self.__init__(self): #include <stdio.h> std::vector<int> http://a.b/c?d=e&f 3.14159 1e-5 0xFF "
         "don’t “quoted” ‘single’ — … • § ¶ © ½ ² ³ Ⅻ ① ㊙ № ™ €100 £5 ¥ ₹ O'Neill's l'été d'accord").split()
SCRIPTS = {  # first and last character of blocks of letters
    "latin": (0x41, 0x24F), "greek": (0x370, 0x3FF), "cyrillic": (0x400, 0x4FF), "hebrew": (0x5D0, 0x5EA),
    "arabic": (0x620, 0x64A), "devanagari": (0x900, 0x97F), "bengali": (0x980, 0x9FE), "tamil": (0xB82, 0xBFA),
    "thai": (0xE01, 0xE5B), "tibetan": (0xF00, 0xFDA), "georgian": (0x10A0, 0x10FF), "hangul jamo": (0x1100, 0x11FF),
    "ethiopic": (0x1200, 0x137C), "khmer": (0x1780, 0x17F9), "kana": (0x3041, 0x30FF), "cjk": (0x4E00, 0x9FFF),
    "hangul": (0xAC00, 0xD7A3), "presentation": (0xFB00, 0xFDFF), "wide": (0xFF01, 0xFFEE), "gothic": (0x10330, 0x1034A),
    "letterlike": (0x2100, 0x214F), "mathematical": (0x1D400, 0x1D7FF), "cjk b": (0x20000, 0x2A6DF),
    "compatible": (0x2F800, 0x2FA1D), "cjk i": (0x2EBF0, 0x2EE5D), "garay": (0x10D40, 0x10D8F),
}
SPACES = [" ", " ", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", "\t\t", "\v", "\f", "\x85", "\u00A0", "\u1680",
          "\u180E", "\u2002", "\u2009", "\u200B", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000", "\uFEFF", " \u00A0", "\u3000\n"]
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "1️⃣", "❤️", "😀", "🤷🏻‍♂️", "🧑‍🚀", "☃", "\u200D", "\uFE0F", "🏴\U000E0067\U000E0062\U000E007F"]
MARKS = [chr(c) for c in range(0x300, 0x370)] + list("\u0591\u05BF\u064B\u0651\u093C\u094D\u0E38\u0F71\u3099\u302A\u1AB0\u1ABF\u20D0"
                                                      "\u1715\u0C3C\U00011930\U0001D165\U0001D16D\U000E0100")
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡¿«»‹›„“”‘’–—…·•。、「」،؛؟।॥") + ["...", "--", "'", "''", "'s", "'S", "'ſ", "'ll",
               "'LL", "'Re", "'vE", "'D", "'m", "```", "/*", "*/", "=>", "</", "<|", "|>", "▁", "▁▁", "Ġ", "Ċ", "<0x0A>", "</w>", "##"]
PLANES = [(0, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x3FFFF), (0xE0000, 0x10FFFF), (0, 0x2FF), (0x300, 0x2FFF)]


class Texts:
    """Random texts; `tokens` are texts of a tokenizer to put in between: added ones, and entries of the vocabulary."""

    def __init__(self, seed: int, added: list, entries: list):
        self.random, self.added, self.entries = random.Random(seed), added, entries
        self.makers = [self.word, self.word, self.word, self.script, self.script, self.marked, self.any, self.emoji, self.digits,
                       self.private, self.punctuation, self.punctuation, self.repeated, self.entry, self.special, self.control]

    def word(self):
        word = self.random.choice(WORDS)
        return self.random.choice([word, word, word, word.upper(), word.capitalize()])

    def script(self):
        first, last = SCRIPTS[self.random.choice(list(SCRIPTS))]
        return "".join(chr(self.random.randint(first, last)) for _ in range(self.random.randint(1, 12)))

    def marked(self):
        base = self.script() if self.random.random() < 0.5 else self.word()
        text = "".join(c + "".join(self.random.choices(MARKS, k=self.random.choice([0, 0, 1, 2, 4]))) for c in base)
        return unicodedata.normalize(self.random.choice(["NFC", "NFD", "NFKC"]), text) if self.random.random() < 0.3 else text

    def any(self):
        first, last = self.random.choice(PLANES)
        return "".join(chr(self.random.randint(first, last)) for _ in range(self.random.randint(1, 8)))

    def emoji(self):
        return "".join(self.random.choices(EMOJI, k=self.random.randint(1, 3)))

    def digits(self):
        zero = self.random.choice([0x30, 0x30, 0x30, 0x660, 0x966, 0xFF10, 0x1D7CE, 0x1E950])
        return "".join(chr(zero + self.random.randint(0, 9)) for _ in range(self.random.randint(1, 12)))

    def private(self):
        return "".join(chr(self.random.choice([self.random.randint(0xE000, 0xF8FF), self.random.randint(0xF0000, 0xFFFFD)]))
                       for _ in range(self.random.randint(1, 3)))

    def punctuation(self):
        return "".join(self.random.choices(PUNCTUATION, k=self.random.randint(1, 4)))

    def repeated(self):
        piece = self.random.choice(SPACES + PUNCTUATION + ["a", "ab", "é", "東", "0", "\u0301", "💥", "<"])
        return piece * self.random.choice([2, 3, 5, 17, 40, 130])

    def entry(self):
        return "".join(self.random.choices(self.entries, k=self.random.randint(1, 3))) if self.entries else ""

    def special(self):
        if not self.added:
            return ""
        text = self.random.choice(self.added)
        cut = self.random.randint(1, len(text))
        return self.random.choice([text, text, text, text * 2, text[:cut], text[cut:], text.upper(), "\u0301" + text, text + "\u0301"])

    def control(self):
        return chr(self.random.choice([0, 1, 7, 8, 0x1B, 0x7F, 0x80, 0x9F, 0xAD, 0x200E, 0x202E, 0xFFF9, 0xFFFE]))

    def space(self):
        return "".join(self.random.choices(SPACES, k=self.random.choice([1, 1, 1, 2, 4])))

    def text(self, pieces: int) -> str:
        parts = []
        for _ in range(pieces):
            parts.append(self.random.choice(self.makers)())
            if self.random.random() < 0.6:
                parts.append(self.space() if self.random.random() < 0.3 else " ")
        text = "".join(parts)
        return text if self.random.random() < 0.8 else text.strip()

    def all(self, size: int):
        """Yields texts, short ones and long ones, of so many bytes together."""
        while size > 0:
            text = self.text(self.random.choice([1, 1, 2, 3, 5, 10, 30, 100, 300]))
            size -= len(text.encode()) + 1
            yield text

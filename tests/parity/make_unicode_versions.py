"""data/tokenizer/unicode_versions.h: where the Unicode of `tokenizers` differs from that of Debian's libraries.

The `tokenizers` library knows characters by several versions of Unicode: that of its regular expressions
(Oniguruma), of its normal forms, of Rust's own properties, and of a table of punctuation. This asks the installed
library about every character, asks Python (whose unicodedata must be Unicode 14, PCRE2 10.42's) and libutf8proc
the same, and writes down the differences.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers
    /tmp/venv/bin/python tests/parity/make_unicode_versions.py data/tokenizer/unicode_versions.h
"""

import ctypes
import string
import subprocess
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
CHUNK = 4096
# All that may be in an expression with a known meaning; the others (Cn, Cc, Cs, Co) never change.
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cf".split()
STABLE, COMPATIBILITY, COMPOSE, DECOMPOSE = 2, 4, 8, 16


def chunks():
    for begin in range(0, len(CHARACTERS), CHUNK):
        yield CHARACTERS[begin:begin + CHUNK]


def of_property(name: str) -> set:
    """The characters that a regular expression's \\p{name} matches."""
    remover = pre_tokenizers.Split(Regex(rf"\p{{{name}}}"), "removed")
    found = set()
    for chunk in chunks():
        kept = set().union(*(text for text, _ in remover.pre_tokenize_str("".join(chunk))))
        found.update(c for c in chunk if c not in kept)
    return found


def isolated(splitter) -> set:
    """The characters that a pre-tokenizer puts into a word of their own between letters."""
    found = set()
    for chunk in chunks():
        words = splitter.pre_tokenize_str("a" + "a".join(chunk) + "a")
        found.update(word for word, _ in words if len(word) == 1 and word != "a")
    return found


class Utf8proc:
    def __init__(self):
        self.library, self.c = ctypes.CDLL("libutf8proc.so.2"), ctypes.CDLL(None)
        self.library.utf8proc_map.restype = ctypes.c_ssize_t
        self.c.free.argtypes = [ctypes.c_void_p]

    def normalize(self, text: str, options: int) -> str:
        data, result = text.encode(), ctypes.c_void_p()
        size = self.library.utf8proc_map(data, ctypes.c_ssize_t(len(data)), ctypes.byref(result), options | STABLE)
        normalized = ctypes.string_at(result, size).decode()
        self.c.free(result)
        return normalized

    def lower(self, character: str) -> str:
        return chr(self.library.utf8proc_tolower(ord(character)))


def other_normal_forms(utf8proc: Utf8proc) -> set:
    """Characters that decompose, combine or sort differently in any of the four forms."""
    forms = {"NFC": COMPOSE, "NFD": DECOMPOSE, "NFKC": COMPOSE | COMPATIBILITY, "NFKD": DECOMPOSE | COMPATIBILITY}
    found = set()
    for name, options in forms.items():
        normalizer = getattr(normalizers, name)()
        for c in CHARACTERS[1:]:
            # Between marks of high and of low combining class: any class but 0 moves something.
            for text in (c, f"a\u0315{c}\u0334b"):
                if normalizer.normalize_str(text) != utf8proc.normalize(text, options):
                    found.add(c)
    nfc = normalizers.NFC()
    for c in CHARACTERS[1:]:
        parts = utf8proc.normalize(c, DECOMPOSE)
        if len(parts) > 1 and nfc.normalize_str(parts) != utf8proc.normalize(parts, COMPOSE):
            found.add(parts[-1])
    return found


def ranges(characters) -> list:
    result = []
    for code in sorted(map(ord, characters)):
        if result and result[-1][1] == code - 1:
            result[-1][1] = code
        else:
            result.append([code, code])
    return result


def changed_categories() -> list:
    category_of = {}
    for name in CATEGORIES:
        category_of.update(dict.fromkeys(of_property(name), name))
    rows = []
    for name in CATEGORIES:
        changed = {c for c, now in category_of.items() if now == name and unicodedata.category(c) != name}
        rows += [(first, last, name) for first, last in ranges(changed)]
    for c in CHARACTERS:
        lost = unicodedata.category(c) in CATEGORIES and c not in category_of
        assert not lost, f"U+{ord(c):04X} has no category any more"
    return sorted(rows)


def lower_cases(utf8proc: Utf8proc) -> list:
    """(first, last, distance to the lower case) where libutf8proc has another."""
    lowercase, rows = normalizers.Lowercase(), []
    for c in CHARACTERS:
        lower = lowercase.normalize_str(c)
        if lower == utf8proc.lower(c) or c == "\u0130":
            continue
        distance = ord(lower) - ord(c)
        if rows and rows[-1][1] == ord(c) - 1 and rows[-1][2] == distance:
            rows[-1][1] = ord(c)
        else:
            rows.append([ord(c), ord(c), distance])
    return rows


def array(comment: str, kind: str, name: str, rows) -> str:
    items = ", ".join("{" + ", ".join(row) + "}" for row in rows)
    return f"// {comment}\ninline constexpr {kind} {name}[] = {{{items}}};\n\n"


def main(path: str):
    assert unicodedata.unidata_version == "14.0.0", "needs a Python with Unicode 14"
    utf8proc = Utf8proc()
    hexadecimal = lambda rows: [(hex(first), hex(last), *rest) for first, last, *rest in rows]
    category = lambda characters, initial: {c for c in characters if unicodedata.category(c)[0] == initial}
    categories = changed_categories()
    numbers = category(CHARACTERS, "N") | {chr(c) for first, last, name in categories if name[0] == "N"
                                           for c in range(first, last + 1)}
    punctuation = category(CHARACTERS, "P") | set(string.punctuation) | {
        chr(c) for first, last, name in categories if name[0] == "P" for c in range(first, last + 1)}
    now_punctuation = isolated(pre_tokenizers.Punctuation("isolated"))
    text = (
        "// Where the Unicode of `tokenizers` differs from that of libpcre2 10.42 and libutf8proc 2.8.\n"
        f"// Written by tests/parity/make_unicode_versions.py with tokenizers {tokenizers.__version__}.\n"
        "#ifndef STRATA_DATA_TOKENIZER_UNICODE_VERSIONS_H_\n#define STRATA_DATA_TOKENIZER_UNICODE_VERSIONS_H_\n\n"
        '#include "data/tokenizer/unicode.h"\n\nnamespace strata::data {\n\n'
        "struct CategoryRange {\n  char32_t first;\n  char32_t last;\n  Category category;\n};\n"
        "struct CaseRange {\n  char32_t first;\n  char32_t last;\n  int32_t distance;\n};\n\n")
    text += array("Categories of regular expressions that Unicode 14 does not have or has as others.", "CategoryRange",
                  "kCategoriesSince14", hexadecimal((f, l, "k" + name) for f, l, name in categories))
    text += array("Characters that normal forms leave alone.", "CharacterRange", "kUnknownToNormalForms",
                  hexadecimal(ranges(other_normal_forms(utf8proc))))
    text += array("Lower cases that libutf8proc does not have: how far away they are.", "CaseRange",
                  "kLowerCasesSince15", hexadecimal((f, l, str(d)) for f, l, d in lower_cases(utf8proc)))
    text += array("Numbers for the pre-tokenizer Digits that are none for regular expressions.", "CharacterRange",
                  "kMoreNumbers", hexadecimal(ranges(isolated(pre_tokenizers.Digits(True)) - numbers)))
    text += array("Punctuation for the pre-tokenizer Punctuation that is none for regular expressions.",
                  "CharacterRange", "kMorePunctuation", hexadecimal(ranges(now_punctuation - punctuation)))
    text += array("And what is none there.", "CharacterRange", "kNoPunctuation",
                  hexadecimal(ranges(punctuation - now_punctuation)))
    text += "}  // namespace strata::data\n\n#endif  // STRATA_DATA_TOKENIZER_UNICODE_VERSIONS_H_\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run(["clang-format", "-i", path], check=True)


if __name__ == "__main__":
    main(sys.argv[1])

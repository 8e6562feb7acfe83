"""Function lengths of C++ sources formatted by clang-format, by matching braces."""

import re

# Comments, literals and preprocessor lines: what may hold braces that mean nothing.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    r'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
LABELS = re.compile(r"\b(public|private|protected)\s*:")
SCOPE = re.compile(r'(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum|extern)\b', re.S)


def blank(text: str) -> str:
    """The text with comments and literals replaced by spaces, lines kept."""
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def kind_of(header: str) -> str:
    """What a brace after this text opens: "scope", "function" or "other" (an initializer)."""
    if header.rstrip().endswith("=") or not header[-1:].isspace():  # `= {` and `member_{`
        return "other"
    text = LABELS.sub("", header).strip()
    if SCOPE.match(text) and not re.search(r"\)\s*(const|noexcept|override|final|\s)*$", text):
        return "scope"
    return "function" if ")" in text else "other"


def functions(text: str):
    """Yields (first line, name, lines) of each function defined in namespaces and classes."""
    code = blank(text)
    stack, header_begin = [], 0
    for match in re.finditer(r"[{};]", code):
        at, brace = match.start(), match.group()
        in_scope = all(kind == "scope" for kind, _ in stack)
        if brace == "{":
            stack.append((kind_of(code[header_begin:at]) if in_scope else "other", header_begin))
            if stack[-1][0] == "scope":
                header_begin = at + 1
        elif brace == "}" and stack:
            kind, begin = stack.pop()
            if kind == "function":
                header = code[begin:at]
                first = begin + len(header) - len(header.lstrip())
                name = re.search(r"([\w:~]+|operator\S+)\s*\(", LABELS.sub("", header))
                line = code.count("\n", 0, first) + 1
                yield line, name.group(1) if name else "function", code.count("\n", first, at) + 1
            if kind != "other":
                header_begin = at + 1
        elif brace == ";" and in_scope:
            header_begin = at + 1

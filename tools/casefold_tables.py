#!/usr/bin/env python3
"""Writes crates/ondisk/src/casefold/tables.rs from the Unicode Character Database: of 12.1 or of a later version, cut to what 12.1 has.

usage: casefold_tables.py [DIRECTORY] > crates/ondisk/src/casefold/tables.rs
  DIRECTORY: UnicodeData.txt, CaseFolding.txt, DerivedAge.txt and DerivedCoreProperties.txt; by default those of Debian's package unicode-data.

Decompositions, folds and combining classes of assigned characters are stable, so that a later version differs in characters that 12.1 does
not have. Default ignorable code points are partly unassigned: those that became so later are listed below.
"""
import sys
from itertools import groupby
from pathlib import Path

VERSION = (12, 1)
HANGUL = range(0xAC00, 0xAC00 + 11172)
WIDTH = 150


def lines(path):
    for line in path.read_text().splitlines():
        fields = [field.strip() for field in line.split("#")[0].split(";")]
        if len(fields) > 1:
            first, _, last = fields[0].partition("..")
            yield range(int(first, 16), int(last or first, 16) + 1), fields[1:]


def sequence(text):
    return [int(code, 16) for code in text.split()]


def ranges(codes):
    """Runs of adjacent code points of a sorted list."""
    for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        run = [code for _, code in run]
        yield run[0], run[-1]


def deltas(single):
    """Code points that fold to one other: runs (first, last, step, difference), none of which lies in another, and the rest."""
    runs, rest, codes = [], {}, sorted(single)
    while codes:
        best = codes[:1]
        for step in (1, 2):
            run = codes[:1]
            while (after := run[-1] + step) in single and single[after] - after == single[run[0]] - run[0]:
                if step == 2 and after - 1 in single:
                    break
                run.append(after)
            if len(run) > len(best):
                best, best_step = run, step
        if len(best) > 2:
            runs.append((best[0], best[-1], best_step, single[best[0]] - best[0]))
        else:
            rest.update((code, [single[code]]) for code in best)
        codes = [code for code in codes if code not in set(best)]
    return runs, rest


def table(comment, name, kind, items):
    print(f"\n/// {comment}\npub(super) static {name}: &[{kind}] = &[")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH:
            print(line)
            line = "   "
        line += f" {item},"
    print(f"{line}\n];")


def main():
    data = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/unicode")
    assigned = set()
    for codes, (age, *_) in lines(data / "DerivedAge.txt"):
        if tuple(map(int, age.split("."))) <= VERSION:
            assigned.update(codes)
    decomposed, classes = {}, {}
    for (code, *_), fields in lines(data / "UnicodeData.txt"):
        if code in assigned:
            if fields[2] != "0":
                classes[code] = int(fields[2])
            if fields[4] and not fields[4].startswith("<"):
                decomposed[code] = sequence(fields[4])
    ignored = set()
    for codes, (prop, *_) in lines(data / "DerivedCoreProperties.txt"):
        if prop == "Default_Ignorable_Code_Point":
            ignored.update(codes)
    # U+180F became a variation selector in 14.0.
    ignored.discard(0x180F)
    folded = {}
    for (code, *_), (status, target, *_) in lines(data / "CaseFolding.txt"):
        if status in "CF" and code in assigned:
            folded[code] = sequence(target)

    def decompose(code):
        return [c for part in decomposed[code] for c in decompose(part)] if code in decomposed else [code]

    mapped = {}
    for code in folded.keys() | decomposed.keys():
        to = [c for part in folded.get(code, [code]) for c in decompose(part)]
        if code not in ignored and to != [code]:
            mapped[code] = to
    runs, rest = deltas({code: to[0] for code, to in mapped.items() if len(to) == 1 and code >= 0x80})
    rest.update((code, to) for code, to in mapped.items() if len(to) > 1)
    # Lower-case letters that a fold produces are not folded again.
    assert all(c not in folded for to in mapped.values() for c in to)
    assert not set(HANGUL) & mapped.keys()

    print("//! How code points fold: written by tools/casefold_tables.py, not to be edited.\n//!")
    print("//! Source: Unicode Character Database 12.1 (© 1991-2019 Unicode, Inc.; Unicode License V3, see docs/UNICODE-LICENSE).")
    table("Code points from the first to the last, in steps, that fold to one at a distance.", "RUNS", "(u32, u32, u8, i32)",
          [f"({a:#x}, {b:#x}, {step}, {delta})" for a, b, step, delta in sorted(runs)])
    table("Other code points, and what they fold to.", "SEQUENCES", "(u32, &[u32])",
          [f"({code:#x}, &[{', '.join(f'{c:#x}' for c in to)}])" for code, to in sorted(rest.items())])
    by_class = sorted((code, number) for code, number in classes.items())
    spans = []
    for code, number in by_class:
        if spans and spans[-1][1] == code - 1 and spans[-1][2] == number:
            spans[-1][1] = code
        else:
            spans.append([code, code, number])
    table("Combining classes other than 0.", "CLASSES", "(u32, u32, u8)", [f"({a:#x}, {b:#x}, {n})" for a, b, n in spans])
    table("Code points that are ignored.", "IGNORED", "(u32, u32)", [f"({a:#x}, {b:#x})" for a, b in ranges(sorted(ignored))])


main()

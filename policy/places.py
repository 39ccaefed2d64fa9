#!/usr/bin/env python3
"""usage: places.py REGION.xml SUBDIVISION.xml   prints the rows of policy/places.def from CLDR's validity data (Debian: unicode-cldr-core)."""
import re
import sys
import textwrap
import xml.etree.ElementTree

NOT_ISO = {"AC", "CP", "DG", "EA", "IC", "TA", "XK"}  # reserved or private codes that CLDR counts among the regular ones


def codes(path, kind):
    """The regular codes of a file; "ae~c" stands for ae, af, ... up to the last letter."""
    found = xml.etree.ElementTree.parse(path).find(f".//id[@type='{kind}'][@idStatus='regular']").text
    for word in found.split():
        first, _, last = word.partition("~")
        for letter in range(ord(first[-1]), ord(last or first[-1]) + 1):
            yield (first[:-1] + chr(letter)).upper()


places = {code: [] for code in sorted(codes(sys.argv[1], "region")) if re.fullmatch("[A-Z]{2}", code) and code not in NOT_ISO}
for code in sorted(codes(sys.argv[2], "subdivision")):
    if re.fullmatch("[A-Z]{4,5}", code):  # a place of policies has letters only
        places[code[:2]].append(code[2:])
for country, parts in places.items():
    lines = textwrap.wrap(" ".join(parts), 112) or [""]
    print(f'PLACE("{country}", ' + '\n      '.join(f'"{line}{" " if more else ""}"' for line, more in zip(lines, lines[1:] + [None])) + ")")

#!/usr/bin/python3
"""Flips one bit in each stored object that could hold a file of the given size. usage: flip.py FOLDER SIZE"""
import os
import sys

HEADER = 4096  # of an object (docs/formats/sjb1.md)


def main():
    folder, size = sys.argv[1], int(sys.argv[2])
    flipped = 0
    for place, _, names in os.walk(os.path.join(folder, "regions")):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "r+b") as file:
                start = file.read(4)
                if start != b"SJB1" or os.path.getsize(path) < HEADER + size:
                    continue
                middle = HEADER + size // 2
                file.seek(middle)
                byte = file.read(1)[0]
                file.seek(middle)
                file.write(bytes([byte ^ 1]))
            print(f"   flipped one bit in the middle of {os.path.basename(path)} ({os.path.getsize(path)} bytes)")
            flipped += 1
    if not flipped:
        sys.exit("no stored object of that size was found")


main()

"""One round of one build: a fresh server, all rows, one JSON line each as it comes. For bench/builds.py."""
import json
import os
import sys

sys.path.insert(0, os.environ["SIJIL_HELPERS"])
import parts
import rows
from registries import MIB, REPOSITORY, Sijil, load


def build_rows(quick):
    """Some seconds each; less than 3 GiB in all."""
    small = 10 if quick else 1
    found = []
    for clients in (1, 4, 16):
        found.append(rows.Row({"push": f"push 1 MiB, {clients} clients", "pull": f"pull 1 MiB, {clients} clients"},
                              size=MIB, count=160 // small, clients=clients, run="push,pull"))
    found.append(rows.Row({"push": "push 1 MiB in one request, 4 clients"}, size=MIB, count=160 // small, clients=4, run="push", whole=True))
    for clients in (1, 4):
        found.append(rows.Row({"push": f"push 256 MiB, {clients} clients", "pull": f"pull 256 MiB, {clients} clients"},
                              size=256 * MIB // small, count=4, clients=clients, run="push,pull"))
    for clients in (1, 16):
        found.append(rows.Row({"artifact": f"push of 4 KiB with manifest and tag, {clients} clients"}, size=4096,
                              count=400 // small, clients=clients, run="artifact", repository=REPOSITORY + "-small"))
    for clients, requests in ((1, 4000), (16, 16000), (64, 16000)):
        found.append(rows.Row({"manifest": f"manifest GET, {clients} clients"}, size=1024, count=1, clients=clients,
                              requests=requests // small, run="push,manifest"))
    found.append(rows.Row({"manifest_beside_uploads": "manifest GET beside 3 uploads"}, size=64 * MIB // small, count=1, uploads=3,
                          requests=1000 // small, run="push,beside"))
    for clients in (1, 16):
        found.append(rows.Row({"token": f"tokens for a robot's secret, {clients} clients"}, size=16, count=1, clients=clients,
                              requests=3000 // small, run="token"))
    return found


def main():
    quick = "--quick" in sys.argv[1:]
    with Sijil() as sijil:
        for row in build_rows(quick):
            parts.settle()
            said = load(sijil, **row.options)
            for phase, title in row.phases.items():
                print(json.dumps({"row": title, "figures": said[phase]}), flush=True)


main()

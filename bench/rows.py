"""The rows of the table: what is asked of each registry, in turn, so that the machine's mood is the same for all."""
import os

from registries import MIB, REPOSITORY, Sijil, Sink, StraightLine, load


class Row:
    """One run of the load client; `phases` says which row of the table each of its phases is."""

    def __init__(self, phases, times=3, targets=lambda target: True, **options):
        self.phases, self.times, self.targets, self.options = phases, times, targets, options


def is_no_sink(target):
    return not isinstance(target, Sink)


def is_no_peer(target):
    return isinstance(target, (Sijil, Sink))


def rows(quick):
    """Long rows once, what takes seconds three times, what takes one second five times. Blobs are new each time, so nothing is
    deduplicated. Small ones first: what a long row leaves to the disk and takes of the memory is not done with when it ends."""
    found = []
    large, times, short_times = (256, 1, 1) if quick else (1024, 3, 5)
    for clients in (1, 4, 16, 64):
        found.append(Row({"push": f"push 200 x 1 MiB, {clients} clients", "pull": f"pull 200 x 1 MiB, {clients} clients",
                          "again": f"pull 200 x 1 MiB once more, {clients} clients"},
                         short_times, is_no_sink, size=MIB, count=200, clients=clients, run="push,pull,again"))
    for clients in (1, 4):
        found.append(Row({"push": f"the same in one request each, {clients} clients"}, short_times, is_no_sink, size=MIB,
                         count=200, clients=clients, run="push", whole=True))
    for clients in (1, 16, 64):  # in a repository of their own: a peer's reads by tag cost more with each tag beside them
        found.append(Row({"artifact": f"push of 4 KiB with manifest and tag, {clients} clients"}, times, is_no_sink,
                         size=4096, count=100 if quick else 100 + 6 * clients, clients=clients, run="artifact",
                         repository=REPOSITORY + "-small"))
    for clients, requests in ((1, 4000), (4, 8000), (16, 24000), (64, 24000)):
        found.append(Row({"manifest": f"manifest GET, {clients} clients"}, times, is_no_sink, size=1024, count=1,
                         clients=clients, requests=requests // (10 if quick else 1), run="push,manifest"))
    for clients in (1, 4):
        found.append(Row({"push": f"push {large} MiB, {clients} clients", "pull": f"pull {large} MiB, {clients} clients"},
                         1, is_no_sink, size=large * MIB, count=4, clients=clients, run="push,pull"))
    found.append(Row({"push": "push 128 MiB, 16 clients", "pull": "pull 128 MiB, 16 clients"}, 1, is_no_sink,
                     size=(16 if quick else 128) * MIB, count=16, clients=16, run="push,pull"))
    found.append(Row({"manifest_beside_uploads": "manifest GET beside 3 uploads"}, times, is_no_sink, size=64 * MIB, count=1,
                     uploads=3, requests=500 if quick else 1000, run="push,beside"))
    for clients in (1, 4):  # at the end: what is removed gives the page cache room that nobody else had
        found.append(Row({"push": f"push {large // 2} MiB against its parts, {clients} clients"}, times, is_no_peer,
                         size=large // 2 * MIB, count=4, clients=clients, run="push"))
    return found


def settle():
    """What one registry left to be written must not be written in the other one's time."""
    os.sync()


def middle(runs):
    """The run that is neither the best nor the worst: what takes a second varies by a fifth."""
    return sorted(runs, key=lambda found: found["per_second"])[len(runs) // 2]


def measure_row(row, targets):
    """{phase: {target: figures}}; each round begins with another target."""
    targets = [target for target in targets if row.targets(target)]
    runs = {target.name: [] for target in targets}
    for round_number in range(row.times):
        first = round_number % max(len(targets), 1)
        for target in targets[first:] + targets[:first]:
            settle()
            runs[target.name].append(load(target, **row.options))
            if isinstance(target, StraightLine):
                target.forget()
    return {title: {name: middle([run[phase] for run in found]) for name, found in runs.items()}
            for phase, title in row.phases.items()}


def pushed_bytes(row, targets):
    """What a row leaves on the disk at most, of all targets that it is asked of. The straight line forgets after each turn;
    uploads beside something else push the same blob again and again, so each has one on its way."""
    options, count = row.options, 0
    for target in targets:
        if row.targets(target):
            count += 1 if isinstance(target, StraightLine) else 0 if isinstance(target, Sink) else row.times
    return count * options["size"] * (options["count"] + options.get("uploads", 0))


def disk_needed(targets, quick, other):
    """Each row has fresh registries, so it is the largest row that counts; `other`: what is there beside, or comes later."""
    return other + max(pushed_bytes(row, targets) for row in rows(quick))


def measure(fresh, quick, tell, put):
    """{title: {target: figures}}, in the order of the table. `fresh` starts all targets with nothing in them, and what was pushed goes with
    them at the end of a row; `put` keeps what a row came to."""
    found = {}
    for row in rows(quick):
        tell(", ".join(row.phases.values()))
        with fresh() as targets:
            measured = measure_row(row, targets)
        for title, figures in measured.items():
            found.setdefault(title, {}).update(figures)
            put(title, found[title])
    return found

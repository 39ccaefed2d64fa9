"""usage: distill.py PROGRAM FOLDER   Chooses the seeds of one target again. PROGRAM is the target, built with libFuzzer (preset `fuzz`).

Seeds that a person named stay. Of those that a run found (their names are SHA-1 sums, or "reaches_...") the smallest number stays that
reaches, with the others, every edge that the corpus reached. Each is named after the function in which it reaches the most new edges.
Prints the files, bytes and edges before and after. Standard library, readelf and llvm-symbolizer."""
import os
import re
import subprocess
import sys
import tempfile

FOUND = re.compile(r"[0-9a-f]{40}|reaches_.*")
PAGE_SIZE = 4096


def readelf(program, option):
    return subprocess.run(["readelf", option, program], check=True, capture_output=True, text=True).stdout


def section(program, name):
    """Where a section is in memory, and its size, in bytes."""
    for line in readelf(program, "-SW").splitlines():
        fields = line.replace("[ ", "[").split()
        if len(fields) > 5 and fields[1] == name:
            return int(fields[3], 16), int(fields[5], 16)
    raise SystemExit(f"{program} has no section {name}: build it with the preset `fuzz`")


def table_of_edges(program):
    """The address of each edge, in the order of their numbers: clang's table, whose addresses are relocations of the program."""
    start, size = section(program, "__sancov_pcs")
    addresses = [0] * (size // 16)  # an address and flags, 8 bytes each
    for line in readelf(program, "-rW").splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] == "R_X86_64_RELATIVE":
            offset = int(fields[0], 16) - start
            if 0 <= offset < size and offset % 16 == 0:
                addresses[offset // 16] = int(fields[3], 16)
    return addresses


def edges_of_features(program):
    """libFuzzer's features, mapped to their edges. libFuzzer numbers the counters, a byte each, page by page, with eight features for
    each."""
    start, size = section(program, "__sancov_cntrs")
    edges, feature, at = {}, 0, start
    while at < start + size:
        end = min(start + size, at - at % PAGE_SIZE + PAGE_SIZE)
        edges.update((feature + n, at - start + n) for n in range(end - at))
        feature += 8 * (end - at)
        at = end
    return edges


def functions_of(program, addresses):
    """The name of the function at each address."""
    asked = "".join(f"{address:#x}\n" for address in addresses)
    told = subprocess.run(["llvm-symbolizer", "--no-inlines", "--functions=short", f"--obj={program}"], input=asked, check=True,
                          capture_output=True, text=True).stdout
    return [block.splitlines()[0] for block in told.strip().split("\n\n")]


def edges_of(program, folder, edges):
    """The set of edges that each file of the folder reaches, by its name."""
    with tempfile.TemporaryDirectory() as temporary:
        control, out = os.path.join(temporary, "control"), os.path.join(temporary, "out")
        os.mkdir(out)
        run = subprocess.run([program, "-set_cover_merge=1", "-use_counters=0", "-max_len=1048576", f"-merge_control_file={control}", out, folder],
                             capture_output=True, text=True, errors="replace")
        if run.returncode != 0:
            raise SystemExit(f"{program} did not run over {folder}:\n{run.stderr[-2000:]}")
        with open(control, encoding="utf-8") as file:
            lines = file.read().splitlines()
    count = int(lines[0])
    names = [os.path.basename(line) for line in lines[2:2 + count]]
    reached = {name: set() for name in names}
    for line in lines[2 + count:]:
        fields = line.split()
        if fields[0] == "FT":
            reached[names[int(fields[1])]] = {edges[number] for number in map(int, fields[2:]) if number in edges}
    return reached


def surely(program, folder, edges):
    """As edges_of(), but only the edges of two runs: targets with a state or with random keys do not reach the same edges each time."""
    first, second = edges_of(program, folder, edges), edges_of(program, folder, edges)
    return {name: first[name] & second[name] for name in first}


def choose(folder, reached):
    """The found seeds that stay, each with the edges that it adds. The next one is always the seed that adds the most edges, and the
    smallest of these."""
    left = {name for name in reached if FOUND.fullmatch(name)}
    covered = set().union(*(reached[name] for name in reached if name not in left))
    chosen = []
    while left:
        best = max(left, key=lambda name: (len(reached[name] - covered), -os.path.getsize(os.path.join(folder, name)), name))
        added = reached[best] - covered
        if not added:
            break
        chosen.append((best, added))
        covered |= added
        left.remove(best)
    return chosen


def rename(program, folder, chosen, addresses):
    """Names the chosen seeds, and removes the other found ones."""
    contents, names = {}, set()
    for name, added in chosen:
        functions = functions_of(program, [addresses[edge] for edge in sorted(added)])
        where = max(functions, key=lambda function: (functions.count(function), function))
        wanted, number = f"reaches_{where}", 1
        while wanted in names:
            number += 1
            wanted = f"reaches_{where}_{number}"
        names.add(wanted)
        with open(os.path.join(folder, name), "rb") as file:
            contents[wanted] = file.read()
    for name in os.listdir(folder):
        if FOUND.fullmatch(name):
            os.remove(os.path.join(folder, name))
    for name, content in contents.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


def told(folder, reached):
    sizes = [os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)]
    return f"{len(sizes)} files, {sum(sizes)} bytes, {len(set().union(*reached.values()))} edges"


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    program, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    addresses, edges = table_of_edges(program), edges_of_features(program)
    before = surely(program, folder, edges)
    line = told(folder, before)
    rename(program, folder, choose(folder, before), addresses)
    after = edges_of(program, folder, edges)
    lost = set().union(*before.values()) - set().union(*after.values())
    if lost:
        where = ", ".join(sorted(set(functions_of(program, [addresses[edge] for edge in lost]))))
        raise SystemExit(f"{folder} no longer reaches {len(lost)} edges, of {where}: they depend on more than the seed; take it back with git")
    print(f"{os.path.basename(folder)}: {line} -> {told(folder, after)}")


if __name__ == "__main__":
    main()

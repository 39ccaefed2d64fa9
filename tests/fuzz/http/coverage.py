"""Finds the code of the live gateway that a case reached, without any code in the gateway: it reads clang's counters
(-fsanitize=fuzzer-no-link keeps one byte for each edge) from the process's memory. Needs root, or the same user and no hardening."""
import os
import subprocess

EDGES = bytes([0] + [1] * 255)
# The number of times that an edge was taken counts in the steps of libFuzzer.
STEPS = bytes([0, 1, 2, 4] + [8] * 4 + [16] * 8 + [32] * 16 + [64] * 96 + [128] * 128)


class Counters:
    def __init__(self, memory, address, size):
        self.memory, self.address, self.size = memory, address, size
        self.seen = 0

    @classmethod
    def find(cls, process, path):
        """None if the program has no counters, or its memory may not be read."""
        symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=False).stdout
        ends = {}
        for line in symbols.splitlines():
            words = line.split()
            if len(words) == 3 and words[2] in ("__start___sancov_cntrs", "__stop___sancov_cntrs"):
                ends[words[2]] = int(words[0], 16)
        if len(ends) != 2:
            return None
        try:
            with open(f"/proc/{process}/maps", encoding="ascii") as maps:
                base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(os.path.realpath(path)))
            memory = os.open(f"/proc/{process}/mem", os.O_RDWR | os.O_CLOEXEC)
        except (OSError, StopIteration):
            return None
        start = ends["__start___sancov_cntrs"]
        return cls(memory, base + start, ends["__stop___sancov_cntrs"] - start)

    def clear(self):
        os.pwrite(self.memory, bytes(self.size), self.address)

    def new(self, steps=STEPS):
        """True if an edge was reached for the first time, or more often than before (with EDGES: only for the first time)."""
        now = int.from_bytes(os.pread(self.memory, self.size, self.address).translate(steps), "little")
        fresh = now & ~self.seen
        self.seen |= now
        return fresh != 0

    def edges(self):
        seen = self.seen.to_bytes(self.size + 1, "little")
        return self.size + 1 - seen.count(0)

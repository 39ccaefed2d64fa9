"""Figures of a run, on the disk as they come: a run that ends early loses none.

FILE.ndjson has one line for each figure, {"path": [...], "value": ...}, and is durable before the next row begins. At the end,
however it comes, FILE.json is put together from it; "complete" says whether the run went to its end."""
import json
import os


class Record:
    def __init__(self, output):
        self.output = output
        self.lines = os.path.splitext(output)[0] + ".ndjson"
        os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
        self.file = open(self.lines, "w", encoding="utf-8")
        self.found = {}

    def put(self, *path, value):
        """One figure, or a group of them, at its place."""
        self.file.write(json.dumps({"path": path, "value": value}) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        place(self.found, path, value)

    def end(self, complete):
        self.put("complete", value=complete)
        self.file.close()
        with open(self.output, "w", encoding="utf-8") as file:
            json.dump(read(self.lines), file, indent=1)
        return self.output


def place(found, path, value):
    for name in path[:-1]:
        found = found.setdefault(name, {})
    found[path[-1]] = value


def read(lines):
    """What was written so far; a last line that was cut off does not count."""
    found = {}
    with open(lines, encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                break
            entry = json.loads(line)
            place(found, entry["path"], entry["value"])
    return found

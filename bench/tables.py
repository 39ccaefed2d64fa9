"""What was measured, as people read it."""


def line(title, *cells):
    return f"{title:44}" + "".join(f" {cell:>15}" for cell in cells)


def number(value):
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def comparison(rows, names):
    """Each row with the ratio to each peer; then what it cost, and the slowest of a hundred."""
    peers = [name for name in names if name != "sijil"]
    speed = [line("MB/s, or a second", "sijil", *[word for name in peers for word in (name, "ratio")])]
    cost = [line("server CPU s/GB, or ms each", *names)]
    memory, slowest = [line("peak memory, MiB", *names)], [line("p99, ms", *names)]
    for title, figures in rows.items():
        ours = figures["sijil"]
        unit = "mb_per_second" if ours["mb_per_second"] > 0 else "per_second"
        speed.append(line(title, number(ours[unit]), *[word for name in peers for word in
                                                        (number(figures[name][unit]), f"{ours[unit] / figures[name][unit]:.2f}")]))
        each = [figures[name] for name in names]
        cost.append(line(title, *[f"{run['server_cpu_seconds_per_gb']:.2f}" if unit == "mb_per_second" else
                                  f"{1000 * run['server_cpu_seconds'] / run['requests']:.3f}" for run in each]))
        memory.append(line(title, *[f"{run['server_peak_mib']:.0f}" for run in each]))
        slowest.append(line(title, *[f"{run['p99_ms']:.1f}" for run in each]))
    return "\n\n".join("\n".join(part) for part in (speed, cost, slowest, memory))


def behind(rows, names):
    """The rows in which a peer is faster."""
    found = []
    for title, figures in rows.items():
        for name in names:
            if name != "sijil" and figures[name]["per_second"] > figures["sijil"]["per_second"]:
                found.append(f"behind {name}: {title}, {figures['sijil']['per_second'] / figures[name]['per_second']:.2f}")
    return "\n".join(found) or "ahead of each peer in each row"


# What the project wants of a run on two cores: row, figure, least or most. "of docker-registry" is a ratio.
MARKS = [(f"push 1024 MiB, {clients} clients", "of docker-registry", 2) for clients in (1, 4)]
MARKS += [(f"push 200 x 1 MiB, {clients} clients", "of docker-registry", 2) for clients in (1, 4)]
MARKS += [("manifest GET, 16 clients", "of docker-registry", 4), ("manifest GET, 16 clients", "a second", 10000)]


def speed_of(run):
    return run["mb_per_second"] or run["per_second"]


def verdict(what, value, mark, most=False):
    met = value <= mark if most else value >= mark
    said = number(value) if value >= 100 else f"{value:.2f}"
    return f"{what:66} {said:>8}   {'at most' if most else 'at least'} {mark:<6} {'met' if met else 'MISSED'}"


def marks(results):
    """Each mark, and whether this run met it."""
    rows, pull = results["rows"], results["pull beside nginx MB/s"]
    lines = []
    for title, unit, mark in MARKS:
        if title not in rows:
            continue  # --quick has others
        ours, peer = speed_of(rows[title]["sijil"]), speed_of(rows[title]["docker-registry"])
        lines.append(verdict(f"{title}, {unit}", ours / peer if unit.startswith("of") else ours, mark))
    lines.append(verdict("pull beside nginx with the plain file", pull["sijil"] / pull["nginx"], 0.9))
    lines.append(verdict("audit events a second, 256 at a time", results["audit events"]["256 at a time"]["per_second"], 20000))
    lines.append(verdict("p99 of GETs beside 3 uploads, ms", rows["manifest GET beside 3 uploads"]["sijil"]["p99_ms"], 10, most=True))
    lines += [verdict(f"server CPU of {title}, of its parts {how}", figures[name], 1.15, most=True)
              for how, name in (("alone", "ratio"), ("in a straight line", "ratio to straight line"))
              for title, figures in results["push and its parts"].items()]
    return "\n".join(lines)


def push_and_parts(found):
    lines = []
    for title, figures in found.items():
        parts = " + ".join(f"{name} {value:.2f}" for name, value in figures["parts"].items())
        lines.append(f"server CPU of {title}: {figures['sijil']:.2f} s/GB; its parts alone: {parts} = {figures['sum']:.2f}; "
                     f"ratio {figures['ratio']:.2f}")
        lines.append(f"  the parts in a straight line: {figures['straight line']:.2f}; ratio {figures['ratio to straight line']:.2f}")
        lines.append(f"  at most {figures['bound MB/s']:.0f} MB/s on these cores: the parts and {figures['client']:.2f} s/GB of the "
                     f"client; Sijil {figures['sijil MB/s']:.0f}, {figures['sijil MB/s'] / figures['bound MB/s']:.2f} of it")
    return "\n".join(lines)


def others(results):
    pull, lines = results["pull beside nginx MB/s"], [line("", "sijil", "nginx", "ratio")]
    lines.append(line("pull, one curl, beside nginx", number(pull["sijil"]), number(pull["nginx"]), f"{pull['sijil'] / pull['nginx']:.2f}"))
    for title, run in results["tokens"].items():
        lines.append(line(title + ", a second", number(run["per_second"])) + f"   p50 {run['p50_ms']:.2f} ms, p99 {run['p99_ms']:.2f} ms, "
                     f"{1000 * run['server_cpu_seconds'] / run['requests']:.3f} ms of CPU")
    for title, run in results["audit events"].items():
        lines.append(line(f"audit events, {title}, a second", number(run["per_second"])) + f"   p50 {run['p50 ms']} ms, p99 {run['p99 ms']} ms")
    for name, value in results["bounds"].items():
        lines += ["bound: " + text for text in value] if isinstance(value, list) else [f"bound: {name}: {value}"]
    return "\n".join(lines)

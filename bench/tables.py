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


def push_and_parts(found):
    lines = []
    for title, figures in found.items():
        parts = " + ".join(f"{name} {value:.2f}" for name, value in figures["parts"].items())
        lines.append(f"server CPU of {title}: {figures['sijil']:.2f} s/GB; its parts alone: {parts} = {figures['sum']:.2f}; "
                     f"ratio {figures['ratio']:.2f} (mark: at most 1.15)")
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

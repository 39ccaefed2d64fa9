"""Ports for the servers of tests: no two tests of this machine have the same one, also of two suites that run at once."""
import random
import socket

held = []  # a socket name in the kernel for each port that this process has reserved


def candidates():
    """Outside the kernel's range of automatic ports."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    return range(first - 16000, first) if first > 18000 else range(18000, 34000)  # in some kernels that range has all ports


def reserve(port):
    """The name that keeps other tests from the port; None: one of them has it, or a program listens there."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0sijil-test-port-{port}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        name.close()
        return None
    return name


def free_ports(count):
    """The first of `count` neighbouring ports that no other test gets until this one ends, also while their servers are down."""
    ports = candidates()
    for first in random.SystemRandom().sample(ports[:-count], 1000):
        names = []
        for port in range(first, first + count):
            name = reserve(port)
            if name is None:
                break
            names.append(name)
        if len(names) == count:
            held.extend(names)
            return first
        for name in names:
            name.close()
    raise AssertionError(f"no {count} neighbouring ports are free")


def free_port():
    return free_ports(1)

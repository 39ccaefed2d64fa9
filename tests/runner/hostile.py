"""Attacks that training code may try, one function each. It runs inside the sandbox, prints its results, and ends with 0 if the sandbox
held."""
import ctypes
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
# x86-64 (asm/unistd_64.h); a call of another architecture would be another number.
EPERM_CALLS = {"ptrace": 101, "mount": 165, "umount2": 166, "unshare": 272, "setns": 308, "keyctl": 250, "add_key": 248, "request_key": 249,
               "process_vm_readv": 310, "pidfd_getfd": 438, "chroot": 161, "pivot_root": 155, "setuid": 105, "capset": 126, "mknod": 133,
               "perf_event_open": 298, "personality": 135}
ENOSYS_CALLS = {"clone3": 435, "io_uring_setup": 425, "landlock_create_ruleset": 444, "process_madvise": 440, "name_to_handle_at": 303,
                "inotify_init": 253, "inotify_init1": 294, "inotify_add_watch": 254, "fanotify_init": 300, "fanotify_mark": 301}
KILLED_CALLS = {"bpf": 321, "init_module": 175, "kexec_load": 246, "userfaultfd": 323, "open_by_handle_at": 304, "fsopen": 430, "reboot": 169}


def call(number, *words):
    ctypes.set_errno(0)
    return LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in words)), ctypes.get_errno()


def calls():
    for table, wanted in ((EPERM_CALLS, errno.EPERM), (ENOSYS_CALLS, errno.ENOSYS)):
        for name, number in table.items():
            done, why = call(number, 0, 0, 0, 0)
            assert (done, why) == (-1, wanted), (name, done, errno.errorcode.get(why))
    for name, number in KILLED_CALLS.items():
        child = os.fork()
        if child == 0:
            call(number, 0, 0, 0, 0)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSYS, name
    for flags in (0x10000000, 0x00020000, 0x40000000):  # CLONE_NEWUSER, NEWNS, NEWNET
        assert call(56, flags | signal.SIGCHLD, 0, 0, 0) == (-1, errno.ENOSYS), hex(flags)


def watching():
    """Files of /usr are those of the machine, and of all runs on it: nobody is told who uses them. The kernel takes 32 bits of a command."""
    folder = os.open("/usr/bin", os.O_RDONLY)
    for high in (0, 1 << 32, -1 << 63):
        for command in (1024, 1025, 1026):  # F_SETLEASE, F_GETLEASE, F_NOTIFY
            assert call(72, folder, high | command, 1) == (-1, errno.ENOSYS), (high, command)
        assert call(16, 0, high | 0x5412, 0) == (-1, errno.ENOSYS), high  # TIOCSTI
    assert fcntl.fcntl(folder, fcntl.F_GETFD) == 1 and fcntl.fcntl(folder, fcntl.F_DUPFD_CLOEXEC, 0) > 0
    assert call(16, folder, 0x5401, 0) == (-1, errno.ENOTTY)  # TCGETS: other commands reach the device


def namespaces():
    done = subprocess.run(["unshare", "-U", "true"], capture_output=True, check=False)
    assert done.returncode != 0
    assert not os.path.exists("/usr/bin/sudo") or subprocess.run(["/usr/bin/sudo", "-n", "true"], check=False).returncode != 0
    assert os.getuid() == 1000


def network():
    port, name = int(sys.argv[2]), sys.argv[3]
    for address in ("169.254.169.254", "192.0.2.1", "1.1.1.1"):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as each:
                each.settimeout(2)
                try:
                    each.connect((address, 53))
                    raise AssertionError(address)
                except OSError as why:
                    assert why.errno == errno.ENETUNREACH, (address, why)
    for family, address in ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, "\0" + name)):
        with socket.socket(family) as each:
            try:
                each.connect(address)
                raise AssertionError(address)
            except ConnectionRefusedError:
                pass
    for family in (socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK, 38):  # 38: AF_ALG
        try:
            socket.socket(family, socket.SOCK_RAW)
            raise AssertionError(family)
        except OSError as why:
            assert why.errno in (errno.ENOSYS, errno.EPERM), (family, why)
    try:
        socket.getaddrinfo("example.com", 80)
        raise AssertionError("a name was resolved")
    except socket.gaierror:
        pass


def files():
    secret = sys.argv[2]
    for path in ("/root", "/home", "/var", "/etc/shadow", "/etc/hostname", "/sys", "/run/dbus", "/proc/1/root" + secret, secret):
        assert not os.path.exists(path), path
    for path in ("/usr/x", "/code/x", "/in/x", "/x", "/dev/x", "/etc/x", "/run/x"):
        try:
            with open(path, "w", encoding="ascii"):
                raise AssertionError(path)
        except OSError as why:
            assert why.errno in (errno.EROFS, errno.EACCES), (path, why)
    for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/kcore"):
        assert not os.access(path, os.W_OK), path
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            shown = os.readlink("/proc/self/fd/" + descriptor)
        except FileNotFoundError:
            continue
        assert shown == "/dev/null" or shown.startswith(("pipe:", "/proc/")), (descriptor, shown)


def processes():
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    assert len(numbers) <= 3 and max(numbers) < 20, numbers
    with open("/proc/1/cmdline", "rb") as file:
        assert sys.argv[2][::-1].encode() not in file.read()  # the path is given backwards, because this is our own command line too
    with open("/proc/1/environ", "rb") as file:
        assert file.read() == b""
    for number in (1, os.getppid()):
        assert call(101, 16, number, 0, 0)[0] == -1  # PTRACE_ATTACH


def inputs():
    with open("/in/data/a.txt", encoding="ascii") as file:
        assert file.read() == "input\n"
    assert os.stat("/in/data/a.txt").st_nlink == 1
    try:
        os.chmod("/in/data/a.txt", 0o666)
        raise AssertionError("an input was changed")
    except OSError as why:
        assert why.errno == errno.EROFS
    print(" ".join(sorted(os.environ)))


def stay():
    """Ignores TERM, and leaves children in sessions of their own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
    print("ready", flush=True)
    time.sleep(1000)


def polite():
    def end(*_):
        print("TERM came", flush=True)
        os._exit(7)
    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    time.sleep(1000)


def bomb():
    count = 0
    try:
        while True:
            if os.fork() == 0:
                time.sleep(1000)
            count += 1
    except OSError as why:
        assert why.errno == errno.EAGAIN
    print("forks", count, flush=True)


def flood():
    block = b"0123456789" * 6553
    for _ in range(200):
        os.write(1, block)


def fill():
    try:
        with open("/out/big", "wb", buffering=0) as file:
            while True:
                file.write(bytes(65536))
    except OSError as why:
        assert why.errno in (errno.ENOSPC, errno.EFBIG), why
    os.unlink("/out/big")
    with open("/out/small", "wb") as file:
        file.write(b"kept")


def memory():
    hold = []
    while True:
        hold.append(bytearray(os.urandom(1 << 20)))


def outputs():
    kind = sys.argv[2]
    os.mkdir("/out/d")
    name = "/out/d/x"
    if kind == "symlink":
        os.symlink("/etc/passwd", name)
    elif kind == "hardlink":
        open("/out/d/a", "wb").close()
        os.link("/out/d/a", name)
    elif kind == "fifo":
        os.mkfifo(name)  # mknod(2), which the filter refuses, so this is impossible
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as each:
            each.bind(name)
    elif kind == "setuid":
        open(name, "wb").close()
        os.chmod(name, 0o4755)
    elif kind == "control":
        open("/out/d/a\x1b[2Jb", "wb").close()
    elif kind == "bytes":
        open(b"/out/d/\xff\xfe", "wb").close()
    elif kind == "long":
        open("/out/d/" + "n" * 200, "wb").close()
    elif kind == "sparse":
        with open(name, "wb") as file:
            file.truncate(1 << 20)
    elif kind == "deep":
        os.makedirs("/out/" + "/".join("d" * 20))
    elif kind == "count":
        for i in range(30):
            open(f"/out/d/{i}", "wb").close()


def beat():
    for i in range(3):
        with open(os.environ["SIJIL_HEARTBEAT"], "w", encoding="ascii") as file:
            file.write(f"epoch {i}\x1b[31m\n")
        time.sleep(0.4)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("held")

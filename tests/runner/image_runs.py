#!/usr/bin/env python3
"""usage: image_runs.py BUILD-FOLDER   Runs in container images, made here byte for byte: what a run sees of an image and of this machine, and hostile
images."""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time

from try_world import BUILD, HERE, RUNNER, SECONDS, run_tests

sys.path.insert(0, os.path.join(HERE, "../support"))
from images import Image  # noqa: E402  (its folder is not a package)

PROGRAM = os.path.join(BUILD, "tests/runner/image_program")
MIB = 1 << 20


def image(world, *layers):
    """An image whose first layer has the program; its folder."""
    world.images = getattr(world, "images", 0) + 1
    made = Image(os.path.join(world.folder, f"image{world.images}"))
    made.add_layer({"usr/bin/program": Image.file_of(PROGRAM), "bin": Image.link("usr/bin"), "etc": Image.folder_entry()})
    for layer in layers:
        made.add_layer(layer)
    return made


def run(world, made, *words, options=(), **members):
    """(exit status, report, lines that it printed, errors)"""
    folder = made if isinstance(made, str) else made.write()
    code, report, out, errors = world.run(*words, options=(f"--image={folder}", *options), **members)
    lines = out.decode("utf-8", "replace").splitlines()
    return code, report, lines[:-1] if report is not None else lines, errors


def seen(world, made, *words, **more):
    code, _, lines, errors = run(world, made, *words, **more)
    assert code == 0, (words, code, lines, errors)
    return lines


def an_image_is_the_root(world):
    made = image(world, {"etc/name": Image.file(b"mine\n"), "opt/tool/data": Image.file(b"data", 0o640), "sys/kernel": Image.file(b"x"),
                         "run/docker.sock": Image.file(b"x"), "dev/null": Image.file(b"fake"), "proc/cmdline": Image.file(b"x"), "srv/a b/ü": Image.file(b"y")})
    top = set(seen(world, made, "program", "ls", "/"))
    assert top == {"bin", "checkpoints", "code", "dev", "etc", "in", "opt", "out", "proc", "run", "srv", "tmp", "usr"}, top
    assert seen(world, made, "/bin/program", "ls", "/usr", "/usr/bin") == ["bin", "program"]
    assert set(seen(world, made, "program", "ls", "/run")) == {"sijil", "sijil-inside"}
    assert seen(world, made, "program", "cat", "/etc/name", "/srv/a b/ü") == ["mine", "y"]
    assert seen(world, made, "program", "cat", "/etc/passwd") == ["run:x:1000:1000::/tmp:/bin/sh"]
    assert seen(world, made, "program", "kind", "/dev/null")[0].startswith("device")
    assert seen(world, made, "program", "ls", "/sys", "/home", "/root", "/var")[0].startswith("none")
    assert seen(world, made, "program", "id") == ["1000 1000"]


def tasks_in_an_image_know_their_own_name(world):
    """Whatever /etc/hosts of the image is. A program that reaches nobody sees that of the image."""
    for hosts, own in (({"etc/hosts": Image.link("/etc/name"), "etc/name": Image.file(b"of the image\n")}, "of the image"), ({"etc/hosts": Image.file(b"mine\n")}, "mine")):
        made = image(world, hosts)
        assert sorted(seen(world, made, "program", "cat", "/etc/hosts", tasks=2)) == ["[0] 127.0.0.1 localhost", "[0] 127.0.0.1 sandbox", "[1] 127.0.0.1 localhost",
                                                                                       "[1] 127.0.0.1 sandbox"]
        assert seen(world, made, "program", "cat", "/etc/hosts") == [own]


def nothing_of_it_can_be_changed(world):
    made = image(world, {"etc/name": Image.file(b"mine\n", 0o666), "opt/own": Image.folder_entry(0o777)})
    lines = seen(world, made, "program", "write", "/etc/name", "/opt/own/new", "/new", "/usr/bin/program", "/etc/passwd", "/code/x", "/dev/x", "/run/x")
    assert all(line.startswith("refused") for line in lines) and len(lines) == 8, lines
    assert seen(world, made, "program", "write", "/tmp/x", "/out/x", "/dev/shm/x") == ["written"] * 3


def a_run_in_an_image_has_outputs(world):
    code, report, _, errors = run(world, image(world), "program", "keep", "/out/model", "weights", options=(f"--code={world.code}",))
    assert code == 0 and [one["path"] for one in report["outputs"]] == ["model"], errors
    assert seen(world, image(world), "program", "ls", "/code", options=(f"--code={world.code}",)) == ["hostile.py"]


def layers_lie_on_each_other(world):
    made = image(world, {"opt/a": Image.file(b"one"), "opt/b": Image.file(b"one"), "opt/deep/x": Image.file(b"x"), "opt/deep/y": Image.file(b"y")},
                 {"opt/a": Image.file(b"two\n"), "opt/.wh.b": Image.file(), "opt/deep/.wh..wh..opq": Image.file(), "opt/deep/z": Image.file(b"z")})
    assert sorted(seen(world, made, "program", "ls", "/opt", "/opt/deep")) == ["a", "deep", "z"]
    assert seen(world, made, "program", "cat", "/opt/a") == ["two"]


def media_types_of_docker_and_plain_tar(world):
    made = Image(os.path.join(world.folder, "docker"))
    made.add_layer({"bin/program": Image.file_of(PROGRAM)}, "application/vnd.docker.image.rootfs.diff.tar.gzip")
    made.add_layer({"etc/x": Image.file(b"plain\n")}, "application/vnd.oci.image.layer.v1.tar")
    made.add_layer({"etc/x": Image.file(b"plain\n")}, "application/vnd.oci.image.layer.v1.tar")  # the same blob again
    config = {"mediaType": "application/vnd.docker.container.image.v1+json"}
    text = json.loads(made.manifest())
    assert seen(world, made.write(config={**text["config"], **config}), "program", "cat", "/etc/x") == ["plain"]


def its_config_gives_nothing(world):
    """Argv and environment are those of the specification: complete."""
    lines = seen(world, image(world), "program", "environment", environment={"MINE": "1"})
    assert "MINE=1" in lines and "PATH=/usr/local/bin:/usr/bin:/bin" in lines and not any(line.startswith("FROM_IMAGE") for line in lines), lines


def modes_are_settled(world):
    made = image(world, {"opt": Image.folder_entry(0o1777), "opt/setuid": Image.file(b"x", 0o6755), "opt/closed": Image.folder_entry(0),
                         "opt/closed/file": Image.file(b"read\n", 0), "opt/hard": Image.hard_link("opt/setuid")})
    assert seen(world, made, "program", "kind", "/opt/setuid", "/opt/hard") == ["file 755 "] * 2
    assert seen(world, made, "program", "cat", "/opt/closed/file") == ["read"]


def names_and_links_stay_inside(world):
    outside = os.path.join(world.folder, "outside")
    os.makedirs(outside, exist_ok=True)
    os.chmod(outside, 0o777)
    made = image(world, [("../../../opt/dots", Image.file(b"1\n")), ("/opt/absolute", Image.file(b"2\n")), ("opt/up", Image.link("../../../../../../..")),
                         ("opt/out", Image.link(outside)), ("opt/out/through", Image.file(b"3\n")), ("opt/up/by-dots", Image.file(b"4\n")),
                         ("opt/secret", Image.link("/etc/shadow")), ("opt/own", Image.link("/proc/1/root/etc/shadow"))])
    assert seen(world, made, "program", "cat", "/opt/dots", "/opt/absolute", "/by-dots") == ["1", "2", "4"]
    assert os.listdir(outside) == [] and not os.path.exists("/by-dots") and not os.path.exists("/opt/dots")
    assert all(line.startswith("none") for line in seen(world, made, "program", "cat", "/opt/secret", "/opt/own"))


def deep(count, last=0o755):
    return [("opt/" + "d/" * at, Image.folder_entry(last)) for at in range(count)]


def refused_images(world):
    outside = os.path.join(world.folder, "target")
    os.makedirs(outside, exist_ok=True)
    os.chmod(outside, 0o777)
    device = {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 1, "mode": 0o666}
    rows = {"a pipe": ({"opt/fifo": {"type": tarfile.FIFOTYPE, "mode": 0o666}}, "can't be unpacked"),
            "a hard link out": ({"opt/hard": Image.hard_link("/etc/shadow")}, "can't be unpacked"),
            "a hard link by dots": ({"opt/hard": Image.hard_link("../../../../../../etc/hostname")}, "can't be unpacked"),
            "too deep": (deep(100), "deep"),
            "deeper than a removal": (deep(1500, 0o300), ""),
            "too many files": ({f"opt/{at}": Image.file() for at in range(11000)}, "more than 10256 files"),
            "a bomb": ({"opt/zeros": Image.file(bytes(40 * MIB))}, "more than 1048576 bytes"),
            "bombs": ({f"opt/{at}": Image.file(bytes(MIB // 2)) for at in range(20)}, "more than 1048576 bytes"),
            "etc is a link": ([(".wh.etc", Image.file()), ("etc", Image.link(outside))], "/etc of the image is no folder"),
            "passwd is a folder": ({"etc/passwd/x": Image.file()}, "/etc/passwd of the image is a folder")}
    for name, (layer, wanted) in rows.items():
        made = image(world).without_layers()
        made.add_layer(layer)
        code, report, lines, errors = run(world, made, "program", "id", options=(f"--image-bytes={MIB}",))
        assert code == 126 and report is None and wanted in errors, (name, code, lines, errors)
        world.nothing_is_left()
    made = image(world, {"opt/device": device, "etc/passwd": Image.link(outside + "/passwd")})
    assert seen(world, made, "program", "kind", "/opt/device", "/etc/passwd") == ["file 666 ", "file 644 "]
    assert os.listdir(outside) == []


def damaged_images(world):
    def changed(change, **more):
        made = image(world)
        change(made)
        return made.write(**more)

    def blob(made, data):
        digest = made.layers[0]["digest"]
        made.blobs[digest] = data(made.blobs[digest])

    digest = {"digest": "sha256:" + "0" * 64, "size": 5}
    rows = [(lambda made: blob(made, lambda data: data[:-1] + bytes([data[-1] ^ 1])), "does not match its digest"),
            (lambda made: blob(made, lambda data: data + b"x"), "larger than its manifest says"),
            (lambda made: made.layers[0].update(size=made.layers[0]["size"] - 1), "larger than its manifest says"),
            (lambda made: made.differences.__setitem__(0, "sha256:" + "1" * 64), "can't be unpacked"),
            (lambda made: made.differences.pop(), "can't be unpacked"),
            (lambda made: made.add_tar(b"no tar at all" * 100), "can't be unpacked"),
            (lambda made: made.add_tar(Image.tar({"a": Image.file(b"x" * 5000)})[:3000]), "can't be unpacked"),
            (lambda made: made.layers.append({"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **made.blob(b"\x1f\x8b no gzip")}), "can't be unpacked"),
            (lambda made: made.layers.append({"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd", **digest}), "tar+zstd"),
            (lambda made: made.layers.append({"mediaType": "application/x.other", **digest}), "application/x.other"),
            (lambda made: made.layers.extend(made.layers * 128), "more than 128 layers"),
            (lambda made: made.layers.clear(), "no layers"),
            (lambda made: made.layers.append({"mediaType": made.layers[0]["mediaType"], **digest}), "No such file"),
            (lambda made: made.layers[0].update(digest="sha256:../../../../etc/passwd"), ""),
            (lambda made: made.layers[0].update(size=1 << 50), "no size"),
            (lambda made: made.layers[0].update(size=1 << 39), "takes at most")]
    for at, (change, wanted) in enumerate(rows):
        code, report, lines, errors = run(world, changed(change), "program", "id")
        assert code == 126 and report is None and wanted in errors, (at, wanted, code, lines, errors)
        world.nothing_is_left()
    for more, wanted in (({"manifests": []}, "an index"), ({"config": {"mediaType": "application/vnd.oci.empty.v1+json", **digest}}, "no container image")):
        code, _, _, errors = run(world, image(world).write(**more), "program", "id")
        assert code == 126 and wanted in errors, (more, errors)
    folder = image(world).write()
    with open(os.path.join(folder, "index.json"), "w", encoding="ascii") as file:
        file.write('{"manifests": []}')
    assert "exactly one image" in run(world, folder, "program", "id")[3]
    assert "/no/where" in run(world, "/no/where", "program", "id")[3]
    code, _, _, errors = world.run("true", image={"repository": "a/b/c", "digest": "sha256:" + "0" * 64})
    assert code == 126 and "--image" in errors, errors
    assert subprocess.run([RUNNER, "try", "--image-bytes=5", "x"], capture_output=True, check=False).returncode == 2


def a_killed_unpacking_leaves_nothing(world):
    made = image(world, {f"opt/{at}": Image.file(os.urandom(MIB)) for at in range(200)})
    command = world.command(world.spec(), "program", "id", options=(f"--image={made.write()}",))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **world.user()) as process:
        until = time.monotonic() + SECONDS
        while not any(os.path.isdir(os.path.join(world.work, name, "root/opt")) for name in (os.listdir(world.work) if os.path.isdir(world.work) else [])):
            assert time.monotonic() < until and process.poll() is None, "it did not begin to unpack"
            time.sleep(0.01)
        process.kill()
    assert os.listdir(world.work) != []
    assert world.run("true")[0] == 0
    world.nothing_is_left()
    shutil.rmtree(made.folder)


if not os.access("/usr/bin/umoci", os.X_OK):
    print("left out: there is no umoci")
    sys.exit(77)
run_tests((an_image_is_the_root, tasks_in_an_image_know_their_own_name, nothing_of_it_can_be_changed, a_run_in_an_image_has_outputs, layers_lie_on_each_other, media_types_of_docker_and_plain_tar,
           its_config_gives_nothing, modes_are_settled, names_and_links_stay_inside, refused_images, damaged_images, a_killed_unpacking_leaves_nothing))

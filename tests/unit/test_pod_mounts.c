/* What may be mounted in the container of a payload (runner/pod/mounts.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/pod/mounts.h"
#include "tests/support/unit.h"

/* As containerd makes them, with control groups of version 1. */
#define USUAL                                                                                                  \
    "900 800 0:50 / / ro,relatime - overlay overlay rw,lowerdir=/a\n"                                          \
    "901 900 0:53 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"                                    \
    "902 900 0:54 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755\n"                                    \
    "903 902 0:55 / /dev/pts rw,nosuid,noexec,relatime - devpts devpts rw,gid=5\n"                             \
    "904 902 0:46 / /dev/mqueue rw,nosuid,nodev,noexec,relatime - mqueue mqueue rw\n"                          \
    "905 900 0:49 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs rw\n"                                   \
    "906 905 0:71 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,mode=755\n"                \
    "906 906 0:32 /kubepods /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,memory\n" \
    "907 900 0:40 / /gate ro,relatime - tmpfs tmpfs rw,size=16384k\n"                                          \
    "908 900 0:41 / /out rw,relatime - tmpfs tmpfs rw,size=1024k\n"                                            \
    "909 902 0:42 / /dev/shm rw,relatime shared:7 master:3 - tmpfs tmpfs rw\n"                                 \
    "910 901 0:54 /null /dev/null rw,nosuid - tmpfs tmpfs rw,size=65536k\n"                                    \
    "911 901 0:56 / /proc/acpi ro,relatime - tmpfs tmpfs ro\n"

static const struct mounts_row {
    const char *name, *more, *open; /* lines after the usual ones; a part of what is said, or NULL */
} rows[] = {
    {"what a runtime makes", "", NULL},
    {"control groups of version 2", "920 905 0:28 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n", NULL},
    {"a volume of the image", "920 900 8:1 /volumes/1 /data rw,relatime - ext4 /dev/vda rw\n", "/data is a volume"},
    {"one in memory", "920 900 0:60 / /data rw,relatime - tmpfs tmpfs rw\n", "/data is a volume"},
    {"one that can't be written to", "920 900 8:1 /volumes/1 /data ro,relatime - ext4 /dev/vda rw\n", NULL},
    {"one on a file system that can't be written to",
     "920 900 8:1 / /data rw,relatime - squashfs /dev/loop0 ro,errors=continue\n", NULL},
    {"one over the control group", "920 900 8:1 /volumes/1 /sys/fs/cgroup rw,relatime - ext4 /dev/vda rw\n", "/sys/fs/cgroup is"},
    {"one over the outputs", "920 900 8:1 /volumes/1 /out rw,relatime - ext4 /dev/vda rw\n", "/out is"},
    {"one in the outputs", "920 908 8:1 /volumes/1 /out/deep rw,relatime - ext4 /dev/vda rw\n", "/out/deep is"},
    {"one over /dev", "920 900 8:1 /volumes/1 /dev rw,relatime - ext4 /dev/vda rw\n", "/dev is"},
    {"one over /proc", "920 900 8:1 /volumes/1 /proc rw,relatime - ext4 /dev/vda rw\n", "/proc is"},
    {"one in the gate", "920 907 8:1 /volumes/1 /gate/shut rw,relatime - ext4 /dev/vda rw\n", "/gate/shut is"},
    {"one in the gate that can't be written to", "920 907 8:1 /volumes/1 /gate/shut ro,relatime - ext4 /dev/vda rw\n",
     "/gate/shut is"},
    {"the file of last words, if it could be reached", "920 907 8:1 /w /gate/shut/word rw,relatime - ext4 /dev/vda rw\n",
     "/gate/shut/word is"},
    {"a folder with a similar name", "920 900 8:1 /v /gates rw,relatime - ext4 /dev/vda rw\n", "/gates is"},
    {"a name with a blank", "920 900 8:1 /v /a\\040b rw,relatime - ext4 /dev/vda rw\n", "/a b is"},
    {"a name that ends in a backslash", "920 900 8:1 /v /a\\ rw,relatime - ext4 /dev/vda rw\n", "/a\\ is"},
    {"a name with ro", "920 900 8:1 /v /ro rw,ron,nro - ext4 /dev/vda rw\n", "/ro is"},
    {"a line that is cut off", "920 900 8:1 /v /data", "can't be read"},
    {"a line without a name", "920 900\n", "can't be read"},
    {"an empty line", "\n", "can't be read"},
    {"a name that is no path", "920 900 8:1 /v data ro - ext4 /dev/vda rw\n", "can't be read"},
};

static void only_known_places_may_be_written_to(void **state)
{
    const struct mounts_row *row = *state;
    char text[8192];

    (void)snprintf(text, sizeof text, "%s%s", USUAL, row->more);
    const char *open = mounts_open_in(bytes_of_text(text), "/gate");
    if (row->open == NULL) assert_null(open);
    else {
        assert_non_null(open);
        assert_non_null(strstr(open, row->open));
    }
}

static void a_long_name_is_refused(void **state)
{
    char text[2048], name[1500];

    (void)state;
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    (void)snprintf(text, sizeof text, "920 900 8:1 /v /%s ro - ext4 /dev/vda rw\n", name);
    assert_non_null(mounts_open_in(bytes_of_text(text), "/gate"));
}

/* This machine is no container of a payload. */
static void the_real_file_is_read(void **state)
{
    (void)state;
    assert_non_null(mounts_what_is_open("/gate"));
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(a_long_name_is_refused), cmocka_unit_test(the_real_file_is_read)};

    return RUN_TABLE(rows, only_known_places_may_be_written_to) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}

#include "runner/pod/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "runner/pod/pod.h"

#define MOUNTINFO     "/proc/self/mountinfo"
#define MOUNTINFO_MAX 65536 /* a container has about thirty */
#define PLACE_SIZE    512
#define SAID_SIZE     600

struct mount {
    char place[PLACE_SIZE];
    struct bytes kind; /* of file system */
    bool is_read_only;
};

/*
 * What may be written to: the volumes of the job, and what a container runtime makes. Of control groups of version 1 runc mounts a tmpfs for their folders,
 * which root alone may write to; limits.c believes only what lies in a file system of control groups.
 */
static const struct {
    const char *place, *kind;
} writable[] = {{"/out", "tmpfs"},         {"/tmp", "tmpfs"},           {"/dev/shm", "tmpfs"},
                {"/dev", "tmpfs"},         {"/proc", "proc"},           {"/dev/pts", "devpts"},
                {"/dev/mqueue", "mqueue"}, {"/sys/fs/cgroup", "tmpfs"}, {"/proc/driver/nvidia", "tmpfs"}};

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes_equal(bytes, bytes_of_text(text));
}

/* A word of options, such as "rw,relatime". */
static bool is_read_only(struct bytes options)
{
    while (options.length > 0)
        if (is_text(text_cut(&options, ','), "ro")) return true;
    return false;
}

/* A blank is \040 there. False: the name is too long. */
static bool unescape(struct bytes name, char place_out[PLACE_SIZE])
{
    size_t length = 0;

    for (size_t i = 0; i < name.length; i++, length++) {
        const uint8_t *at = name.data + i;
        if (length + 1 >= PLACE_SIZE) return false;
        place_out[length] = (char)*at;
        if (*at != '\\' || name.length - i < 4) continue;
        if (strspn((const char[]){(char)at[1], (char)at[2], (char)at[3], '\0'}, "01234567") != 3) continue;
        place_out[length] = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
        i += 3;
    }
    place_out[length] = '\0';
    return length > 0 && place_out[0] == '/';
}

/* "36 35 98:0 /root /place rw,noatime shared:1 - ext4 /dev/vda rw,errors=continue": any number of words before the hyphen. */
static bool read_line(struct bytes line, struct mount *mount)
{
    struct bytes word = {NULL, 0};

    for (unsigned i = 0; i < 4; i++) (void)text_cut(&line, ' ');
    if (!unescape(text_cut(&line, ' '), mount->place)) return false;
    mount->is_read_only = is_read_only(text_cut(&line, ' '));
    do word = text_cut(&line, ' ');
    while (line.length > 0 && !is_text(word, "-"));
    mount->kind = text_cut(&line, ' ');
    (void)text_cut(&line, ' ');
    mount->is_read_only = mount->is_read_only || is_read_only(line);
    return mount->kind.length > 0;
}

static bool is_listed(const struct mount *mount)
{
    for (size_t i = 0; i < sizeof writable / sizeof writable[0]; i++)
        if (strcmp(mount->place, writable[i].place) == 0) return is_text(mount->kind, writable[i].kind);
    return false;
}

/* A volume is a folder. Single files and devices are the runtime's: /etc/hosts, which root alone may write; the devices of /dev, and those that hide files. */
static bool is_closed_file(const struct mount *mount)
{
    struct stat status;

    if (lstat(mount->place, &status) != 0) return false;
    return S_ISCHR(status.st_mode) || (S_ISREG(status.st_mode) && access(mount->place, W_OK) != 0);
}

/* What both sides share has nothing mounted in it but the file of last words, and that can't be reached. */
static bool is_in_gate(const struct mount *mount, const char *gate)
{
    const size_t length = strlen(gate);

    return strncmp(mount->place, gate, length) == 0 && mount->place[length] == '/';
}

static bool is_shut_away(const struct mount *mount, const char *gate)
{
    char word[POD_PATH_SIZE];

    (void)snprintf(word, sizeof word, "%s/" POD_SHUT "/" POD_WORD, gate);
    return strcmp(mount->place, word) == 0 && access(word, F_OK) != 0 && errno == EACCES;
}

static bool is_allowed(const struct mount *mount, const char *gate)
{
    if (is_in_gate(mount, gate)) return is_shut_away(mount, gate);
    return mount->is_read_only || is_listed(mount) || is_closed_file(mount);
}

const char *mounts_open_in(struct bytes mountinfo, const char *gate)
{
    static char said[SAID_SIZE];

    while (mountinfo.length > 0) {
        struct mount mount;
        const struct bytes line = text_cut(&mountinfo, '\n');
        if (!read_line(line, &mount)) return "a mount whose line can't be read";
        if (is_allowed(&mount, gate)) continue;
        (void)snprintf(said, sizeof said, "%.200s is a volume that the job has not (an image must not name VOLUMEs)",
                       mount.place);
        return said;
    }
    return NULL;
}

const char *mounts_what_is_open(const char *gate)
{
    static char text[MOUNTINFO_MAX];
    const int fd = open(MOUNTINFO, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = 1;

    while (fd >= 0 && got > 0 && length < sizeof text) {
        got = read(fd, text + length, sizeof text - length);
        if (got > 0) length += (size_t)got;
    }
    if (fd >= 0) (void)close(fd);
    if (got != 0 || length == 0) return "what is mounted can't be read, or is too much";
    return mounts_open_in((struct bytes){(const uint8_t *)text, length}, gate);
}

/* What a folder says about itself: its mark, and its file system. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/text.h"
#include "storage/driver_fs_priv.h"

#define MARK_FILE "sijil-region" /* in the folder itself: a listing looks at the folders below alone */

#define XFS_MAGIC  0x58465342
#define ZFS_MAGIC  0x2fc12fc1
#define CIFS_MAGIC 0xff534d42
#define CEPH_MAGIC 0x00c36400
#define VZFS_MAGIC 0x0bd00bd0 /* Lustre */

/* Those of which the page says something; others are named by their number. */
static const struct {
    unsigned long magic;
    const char *name;
} kinds[] = {{EXT4_SUPER_MAGIC, "ext4"}, {XFS_MAGIC, "xfs"},       {BTRFS_SUPER_MAGIC, "btrfs"},
             {TMPFS_MAGIC, "tmpfs"},     {NFS_SUPER_MAGIC, "nfs"}, {OVERLAYFS_SUPER_MAGIC, "overlay"},
             {ZFS_MAGIC, "zfs"},         {CIFS_MAGIC, "cifs"},     {SMB2_SUPER_MAGIC, "cifs"},
             {FUSE_SUPER_MAGIC, "fuse"}, {CEPH_MAGIC, "ceph"},     {VZFS_MAGIC, "lustre"}};

static struct result read_file_system(const struct fs_driver *fs, char *name, size_t size, struct error *err)
{
    struct statfs status;

    if (fault_is_due(FAULT_FILE) || fstatfs(fs->root, &status) != 0)
        return failure(err, ERROR_UNAVAILABLE, "its file system does not tell its kind: %s", strerror(errno));
    const unsigned long magic = (unsigned long)status.f_type & 0xffffffffUL;
    (void)snprintf(name, size, "0x%lx", magic);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].magic == magic) (void)snprintf(name, size, "%s", kinds[i].name);
    return SUCCESS;
}

static struct result read_mark(const struct fs_driver *fs, char mark_out[DRIVER_MARK_SIZE], struct error *err)
{
    OWNED_FD file = -1;
    uint8_t text[DRIVER_MARK_SIZE + 1];
    size_t length = 0;

    const struct result opened = file_open_at(fs->root, MARK_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &file, err);
    mark_out[0] = '\0';
    if (!opened.ok && err->kind == ERROR_NOT_FOUND) return SUCCESS;
    TRY(opened);
    TRY(file_read_some(file, text, sizeof text, 0, &length, err));
    driver_mark_read((struct bytes){text, length}, mark_out);
    return SUCCESS;
}

struct result fs_survey(struct driver *driver, struct driver_survey *survey_out, struct error *err)
{
    struct driver_survey survey = {
        .copies = {.told = RULES_NONE}, .expiry = {.told = RULES_NONE}, .versions = {.told = RULES_NONE}};
    struct error why = {0};

    /* A folder that was removed or covered is this machine's trouble: nothing is read or written below its path, and nothing is known. */
    if (!fs_check_root(fs_of(driver), &why).ok) return failure(err, ERROR_UNAVAILABLE, "%s", why.message);
    TRY(read_file_system(fs_of(driver), survey.place, sizeof survey.place, err));
    if (!read_mark(fs_of(driver), survey.mark, &why).ok) return failure(err, ERROR_UNAVAILABLE, "%s", why.message);
    *survey_out = survey;
    return SUCCESS;
}

static struct result write_named(int root, const char *name, const char *text, struct error *err)
{
    OWNED_FD file = -1;

    TRY(file_open_at(root, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &file, err));
    TRY(file_write_all(file, (const uint8_t *)text, strlen(text), err));
    TRY(file_sync(file, err));
    if (!fault_is_due(FAULT_FILE) && linkat(root, name, root, MARK_FILE, 0) == 0) return file_sync(root, err);
    return failure(err, errno == EEXIST ? ERROR_CONFLICT : ERROR_UNAVAILABLE, "can't write the mark: %s", strerror(errno));
}

/* Written under another name first, so nobody reads half a mark. */
struct result fs_mark(struct driver *driver, const char *mark, struct error *err)
{
    const int root = fs_of(driver)->root;
    char text[DRIVER_MARK_SIZE + 1], name[sizeof MARK_FILE + DRIVER_MARK_SIZE];

    (void)snprintf(text, sizeof text, "%.32s\n", mark);
    (void)snprintf(name, sizeof name, MARK_FILE ".%.32s", mark);
    const struct result written = write_named(root, name, text, err);
    (void)unlinkat(root, name, 0);
    return written;
}

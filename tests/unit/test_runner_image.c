/* The manifest of an image, the walk over unpacked files, and blobs that are kept; with the failures of each call. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/image/cache.h"
#include "runner/image/plan.h"
#include "runner/image/tree.h"
#include "runner/sandbox/copy.h"

#define SHA     "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OCI     "application/vnd.oci.image."
#define PART(t) "{\"mediaType\":\"" t "\",\"digest\":\"" SHA "\",\"size\":7}"
#define CONFIG  "\"config\":" PART(OCI "config.v1+json")
#define LAYER   PART(OCI "layer.v1.tar+gzip")

static const struct plan_row {
    const char *name, *text;
    enum error_kind kind;
    const char *says;
} plan_rows[] = {
    {"an OCI image", "{" CONFIG ",\"layers\":[" LAYER "]}", ERROR_NONE, ""},
    {"a number that nobody reads", "{" CONFIG ",\"layers\":[" LAYER "],\"x\":1e400}", ERROR_NONE, ""},
    {"a Docker image",
     "{\"config\":" PART("application/vnd.docker.container.image.v1+json") ",\"layers\":[" PART(
         "application/vnd.docker.image.rootfs.diff.tar.gzip") "]}",
     ERROR_NONE, ""},
    {"an index", "{\"manifests\":[]}", ERROR_INVALID, "name the digest of one of them"},
    {"no layers", "{" CONFIG ",\"layers\":[]}", ERROR_INVALID, "no layers"},
    {"layers that are no list", "{" CONFIG ",\"layers\":{}}", ERROR_INVALID, "no layers"},
    {"no config", "{\"layers\":[" LAYER "]}", ERROR_INVALID, "no container image"},
    {"another config", "{\"config\":" PART("application/x") ",\"layers\":[" LAYER "]}", ERROR_INVALID, "application/x"},
    {"zstd", "{" CONFIG ",\"layers\":[" PART(OCI "layer.v1.tar+zstd") "]}", ERROR_INVALID, "tar+zstd"},
    {"a layer without a type", "{" CONFIG ",\"layers\":[{}]}", ERROR_INVALID, "(none)"},
    {"a layer without a digest", "{" CONFIG ",\"layers\":[{\"mediaType\":\"" OCI "layer.v1.tar\",\"size\":1}]}", ERROR_INVALID,
     "no digest"},
    {"a layer without a size", "{" CONFIG ",\"layers\":[{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"" SHA "\"}]}",
     ERROR_INVALID, "no size"},
    {"a negative size", "{" CONFIG ",\"layers\":[{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"" SHA "\",\"size\":-1}]}",
     ERROR_INVALID, "no size"},
    {"a path as digest",
     "{" CONFIG ",\"layers\":[{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"sha256:../../x\",\"size\":1}]}", ERROR_INVALID,
     ""},
    {"a config of 2 MiB",
     "{\"config\":{\"mediaType\":\"" OCI "config.v1+json\",\"digest\":\"" SHA "\",\"size\":2097152},\"layers\":[" LAYER "]}",
     ERROR_LIMIT, "too large"},
    {"a list", "[]", ERROR_INVALID, ""},
    {"no JSON", "{", ERROR_INVALID, ""},
};

static void is_read_or_refused(void **state)
{
    const struct plan_row *row = *state;
    struct image_plan plan = {.count = 0};
    struct error err = {0};

    assert_int_equal(image_plan_read(bytes_of_text(row->text), &plan, &err).ok, row->kind == ERROR_NONE);
    assert_int_equal(err.kind, row->kind);
    assert_non_null(strstr(err.message, row->says));
    assert_int_equal(plan.count, row->kind == ERROR_NONE ? 1 : 0);
}

static struct result write_again(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(IMAGE_MANIFEST_MAX);
    struct image_plan plan;

    (void)context;
    TRY(image_plan_read(bytes_of_text(plan_rows[0].text), &plan, err));
    return image_plan_write(&plan, &text, err);
}

/* ---- unpacked files ---- */

static char folder[] = "/tmp/sijil-image-XXXXXX";

static int open_folder(void)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static int make_folder(void **state)
{
    (void)state;
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    return mkdtemp(folder) == NULL ? 1 : 0;
}

static int remove_folder(void **state)
{
    struct error err = {0};

    (void)state;
    return copy_remove(AT_FDCWD, folder, &err).ok && access(folder, F_OK) != 0 ? 0 : 1;
}

static void make(int at, const char *name, mode_t mode)
{
    const int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0 && write(fd, "0123456789", 10) == 10 && fchmod(fd, mode) == 0 && close(fd) == 0);
}

static mode_t mode_of(int at, const char *name)
{
    struct stat about;

    assert_int_equal(fstatat(at, name, &about, AT_SYMLINK_NOFOLLOW), 0);
    return about.st_mode;
}

static const struct tree_limits roomy = {.bytes_max = 1 << 20, .files_max = 100};

static void modes_are_settled(void **state)
{
    OWNED_FD root = open_folder();
    struct error err = {0};

    (void)state;
    assert_int_equal(mkdirat(root, "etc", 0700), 0);
    assert_int_equal(mkdirat(root, "closed", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", root, "etc/passwd"), 0);
    assert_int_equal(symlinkat("/etc/shadow", root, "link"), 0);
    make(root, "setuid", 06711);
    if (!tree_settle(root, &roomy, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(mode_of(root, "setuid") & 07777, 0711);
    assert_int_equal(mode_of(root, "closed") & 07777, 0700);
    assert_true(S_ISLNK(mode_of(root, "link")) && S_ISREG(mode_of(root, "etc/passwd")));
}

static void a_hard_link_counts_once(void **state)
{
    const struct tree_limits narrow = {.bytes_max = 11, .files_max = 3};
    OWNED_FD root = open_folder();
    struct error err = {0};

    (void)state;
    make(root, "a", 0644);
    assert_int_equal(linkat(root, "a", root, "b", 0), 0);
    if (!tree_settle(root, &narrow, &err).ok) fail_msg("%s", err.message);
    make(root, "c", 0644);
    assert_true(!tree_measure(root, &narrow, &err).ok && err.kind == ERROR_LIMIT && strstr(err.message, "11 bytes") != NULL);
    assert_int_equal(unlinkat(root, "c", 0), 0);
    assert_int_equal(symlinkat("x", root, "d"), 0);
    assert_int_equal(symlinkat("x", root, "e"), 0);
    assert_true(!tree_measure(root, &narrow, &err).ok && err.kind == ERROR_LIMIT && strstr(err.message, "3 files") != NULL);
}

struct odd_row {
    const char *name;
    void (*make)(int root);
    const char *says;
};

static void make_pipe(int root)
{
    assert_int_equal(mkfifoat(root, "pipe", 0644), 0);
}
static void make_link(int root)
{
    assert_int_equal(symlinkat("/tmp", root, "etc"), 0);
}
static void make_passwd(int root)
{
    assert_true(mkdirat(root, "etc", 0755) == 0 && mkdirat(root, "etc/passwd", 0755) == 0);
}

static void make_deep(int root, int depth)
{
    OWNED_FD at = dup(root);

    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(at, "d", 0700), 0);
        const int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0 && fchmod(next, i % 2 == 0 ? 0700 : 0300) == 0);
        (void)close(at);
        at = next;
    }
}

static void make_too_deep(int root)
{
    make_deep(root, TREE_DEPTH_MAX + 1);
}

static const struct odd_row refused_rows[] = {
    {"a pipe", make_pipe, "device, pipe or socket"},
    {"etc is a link", make_link, "no folder"},
    {"passwd is a folder", make_passwd, "is a folder"},
    {"too deep", make_too_deep, "deep"},
};

static void is_refused(void **state)
{
    const struct odd_row *row = *state;
    OWNED_FD root = -1;
    struct error err = {0};

    assert_int_equal(make_folder(NULL), 0);
    root = open_folder();
    row->make(root);
    assert_false(tree_settle(root, &roomy, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_non_null(strstr(err.message, row->says));
    assert_int_equal(remove_folder(NULL), 0);
}

static struct result settle_fresh(void *context, struct error *err)
{
    OWNED_FD root = open_folder();

    (void)context;
    (void)unlinkat(root, "etc/passwd", 0);
    return tree_settle(root, &roomy, err);
}

static void failures_of_a_walk_are_said(void **state)
{
    OWNED_FD root = open_folder();

    (void)state;
    assert_true(mkdirat(root, "etc", 0755) == 0 && mkdirat(root, "opt", 0755) == 0);
    make(root, "opt/a", 0644);
    fail_each(settle_fresh, NULL, ERROR_NONE, 3);
}

static const struct fallible_row fallible_rows[] = {{"a manifest that is written again", write_again, 5}};

/* Deeper than this process has descriptors for. */
static void a_deep_tree_is_removed(void **state)
{
    OWNED_FD root = open_folder();

    (void)state;
    make_deep(root, 1500); /* the setup's counterpart removes it */
}

/* ---- kept blobs ---- */

static struct image_part part_of(int root, const char *name)
{
    struct image_part part = {.size = 0};
    struct error err = {0};
    OWNED(hasher) *hasher = NULL;
    OWNED_FD fd = openat(root, name, O_RDONLY | O_CLOEXEC);
    uint8_t piece[65536];
    size_t got = 0;

    must(hasher_new(DIGEST_SHA256, &hasher, &err), &err);
    do {
        must(file_read_some(fd, piece, sizeof piece, (uint64_t)part.size, &got, &err), &err);
        hasher_add(hasher, (struct bytes){piece, got});
        part.size += (int64_t)got;
    } while (got > 0);
    const struct digest digest = hasher_digest(hasher);
    digest_format(&digest, part.digest);
    return part;
}

static void make_large(int root, const char *name, size_t size, int letter)
{
    static uint8_t content[5 << 20];
    struct error err = {0};
    OWNED_FD fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    assert_in_range(size, 0, sizeof content);
    memset(content, letter, size);
    must(file_write_all(fd, content, size, &err), &err);
}

static bool is_kept(const struct image_cache *cache, const char *project, const struct image_part *part, int root)
{
    struct error err = {0};

    const bool taken = image_cache_take(cache, project, part, root, "taken", &err).ok;
    if (!taken) {
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_int_not_equal(faccessat(root, "taken", F_OK, 0), 0);
        return false;
    }
    const struct image_part again = part_of(root, "taken");
    assert_string_equal(again.digest, part->digest);
    assert_int_equal(unlinkat(root, "taken", 0), 0);
    return true;
}

static void blobs_are_kept_for_their_project(void **state)
{
    static const size_t sizes[] = {0, 1, (1 << 20) - 1, 1 << 20, (3 << 20) + 5};
    OWNED_FD root = open_folder();
    OWNED(image_cache) *cache = NULL;
    struct error err = {0};

    (void)state;
    must(image_cache_new(root, "kept", 64 << 20, &cache, &err), &err);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char name[] = {(char)('a' + i), '\0'};
        make_large(root, name, sizes[i], 'a' + (int)i);
        const struct image_part part = part_of(root, name);
        assert_false(is_kept(cache, "acme/models", &part, root));
        must(image_cache_keep(cache, "acme/models", &part, root, name, &err), &err);
        assert_true(is_kept(cache, "acme/models", &part, root));
        assert_false(is_kept(cache, "acme/other", &part, root));
    }
    image_cache_remove(cache);
    assert_int_not_equal(faccessat(root, "kept", F_OK, 0), 0);
}

/* The first file of the cache, opened for changes. */
static int open_kept(int root)
{
    char command[128], name[128] = "";

    (void)snprintf(command, sizeof command, "ls %s/kept", folder);
    FILE *names = popen(command, "re");
    assert_non_null(names);
    assert_non_null(fgets(name, sizeof name, names));
    (void)pclose(names);
    name[strcspn(name, "\n")] = '\0';
    (void)snprintf(command, sizeof command, "kept/%.100s", name);
    return openat(root, command, O_RDWR | O_CLOEXEC);
}

static void what_is_kept_is_sealed(void **state)
{
    static uint8_t sealed[1 << 20];
    OWNED_FD root = open_folder();
    OWNED(image_cache) *cache = NULL;
    OWNED(image_cache) *later = NULL;
    struct error err = {0};

    (void)state;
    must(image_cache_new(root, "kept", 64 << 20, &cache, &err), &err);
    make_large(root, "a", 1 << 20, 'x');
    const struct image_part part = part_of(root, "a");
    must(image_cache_keep(cache, "acme/models", &part, root, "a", &err), &err);
    OWNED_FD file = open_kept(root);
    must(file_read_at(file, sealed, sizeof sealed, 0, &err), &err);
    assert_null(memmem(sealed, sizeof sealed, "xxxxxxxx", 8));
    sealed[0] = (uint8_t)(sealed[5000] ^ 1);
    must(file_write_at(file, sealed, 1, 5000, &err), &err);
    assert_false(is_kept(cache, "acme/models", &part, root)); /* and it is removed */
    must(image_cache_keep(cache, "acme/models", &part, root, "a", &err), &err);
    assert_true(is_kept(cache, "acme/models", &part, root));
    must(image_cache_new(root, "kept", 64 << 20, &later, &err), &err); /* another process */
    assert_false(is_kept(later, "acme/models", &part, root));
}

static void the_least_recently_used_make_room(void **state)
{
    OWNED_FD root = open_folder();
    OWNED(image_cache) *cache = NULL;
    struct image_part parts[3];
    struct error err = {0};

    (void)state;
    must(image_cache_new(root, "kept", (2 << 20) + 8192, &cache, &err), &err);
    for (size_t i = 0; i < COUNT(parts); i++) {
        char name[] = {(char)('a' + i), '\0'};
        make_large(root, name, 1 << 20, 'a' + (int)i);
        parts[i] = part_of(root, name);
        if (i == 2) assert_true(is_kept(cache, "p/q", &parts[0], root)); /* so the second is the oldest */
        must(image_cache_keep(cache, "p/q", &parts[i], root, name, &err), &err);
        (void)usleep(20000);
    }
    assert_true(is_kept(cache, "p/q", &parts[0], root) && !is_kept(cache, "p/q", &parts[1], root));
    assert_true(is_kept(cache, "p/q", &parts[2], root));
    make_large(root, "large", 3 << 20, 'z');
    const struct image_part large = part_of(root, "large");
    assert_false(image_cache_keep(cache, "p/q", &large, root, "large", &err).ok);
    assert_int_equal(err.kind, ERROR_FULL);
}

static struct result keep_and_take(void *context, struct error *err)
{
    const struct image_part *part = context;
    OWNED_FD root = open_folder();
    OWNED(image_cache) *cache = NULL;

    (void)unlinkat(root, "taken", 0);
    TRY(image_cache_new(root, "kept", 64 << 20, &cache, err));
    TRY(image_cache_keep(cache, "p/q", part, root, "a", err));
    return image_cache_take(cache, "p/q", part, root, "taken", err);
}

static void failures_of_keeping_are_said(void **state)
{
    OWNED_FD root = open_folder();

    (void)state;
    make_large(root, "a", 3 << 20, 'x');
    struct image_part part = part_of(root, "a");
    fail_each(keep_and_take, &part, ERROR_NONE, 10);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test_setup_teardown(failures_of_a_walk_are_said, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(modes_are_settled, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_hard_link_counts_once, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(blobs_are_kept_for_their_project, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_is_kept_is_sealed, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_least_recently_used_make_room, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(failures_of_keeping_are_said, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_deep_tree_is_removed, make_folder, remove_folder),
    };

    return RUN_TABLE(plan_rows, is_read_or_refused) + RUN_TABLE(fallible_rows, failures_are_said) +
           RUN_TABLE(refused_rows, is_refused) + cmocka_run_group_tests_name("images", others, NULL, NULL);
}

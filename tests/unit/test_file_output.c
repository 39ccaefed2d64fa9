/* Output to a path that the user names: `sijil policy sign -o /dev/null` replaced the device by a regular file. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char root[] = "/tmp/sijil-test-XXXXXX";
static char folder[sizeof root + 8], outside[sizeof root + 8];

/* Makes both folders of each case, with nothing else in them. */
static int make_folders(void **state)
{
    struct error err = {0};
    char path[sizeof folder + 16];

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/in", root);
    (void)snprintf(outside, sizeof outside, "%s/out", root);
    assert_int_equal(mkdir(folder, 0700) + mkdir(outside, 0700), 0);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/plain", i == 0 ? folder : outside);
        assert_true(file_replace(path, bytes_of_text("old"), 0600, &err).ok);
    }
    (void)snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)snprintf(path, sizeof path, "%s/inner", folder);
    assert_int_equal(symlink("plain", path), 0);
    (void)snprintf(path, sizeof path, "%s/outer", folder);
    assert_int_equal(symlink("../out/plain", path), 0);
    (void)snprintf(path, sizeof path, "%s/nothing", folder);
    assert_int_equal(symlink("missing", path), 0);
    (void)snprintf(path, sizeof path, "%s/piped", folder);
    return symlink("pipe", path);
}

static int remove_folders(void **state)
{
    char command[100];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s/*", root);
    return system(command); /* NOLINT(cert-env33-c): our own mkdtemp() name */
}

static void holds(const char *where, const char *name, const char *wanted)
{
    struct buffer OWNED_BUFFER content = BUFFER(100);
    char path[sizeof folder + 16];
    struct error err = {0};

    (void)snprintf(path, sizeof path, "%s/%s", where, name);
    assert_true(file_read(path, &content, &err).ok);
    assert_string_equal(buffer_text(&content), wanted);
}

static mode_t kind_of(const char *name)
{
    struct stat status;
    char path[sizeof folder + 16];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return lstat(path, &status) == 0 ? status.st_mode & S_IFMT : 0;
}

static const struct output_row {
    const char *name, *output;
    mode_t kind;                           /* the kind of file that has the name afterwards */
    const char *plain, *piped, *elsewhere; /* the content of the file, of the pipe, and of the file outside */
    bool ok;
} output_rows[] = {
    {"a new file", "new", S_IFREG, "old", "", "old", true},
    {"a file that is there", "plain", S_IFREG, "new", "", "old", true},
    {"a link to it stays", "inner", S_IFLNK, "new", "", "old", true},
    {"a link to a file of another folder", "outer", S_IFLNK, "old", "", "new", true},
    {"a link to nothing", "nothing", S_IFLNK, "old", "", "old", false},
    {"a pipe is written to", "pipe", S_IFIFO, "old", "new", "old", true},
    {"a link to a pipe", "piped", S_IFLNK, "old", "new", "old", true},
    {"a folder", "", S_IFDIR, "old", "", "old", false},
    {"a folder that is not there", "missing/new", 0, "old", "", "old", false},
};

static void outputs(void **state)
{
    const struct output_row *row = *state;
    char path[sizeof folder + 16], came[10] = "";
    struct error err = {0};

    assert_int_equal(make_folders(state), 0);
    (void)snprintf(path, sizeof path, "%s/pipe", folder);
    OWNED_FD pipe = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(pipe >= 0);
    (void)snprintf(path, sizeof path, "%s/%s", folder, row->output);
    assert_int_equal(file_write_output(path, bytes_of_text("new"), 0600, &err).ok, row->ok);
    assert_int_equal(kind_of(row->output), row->kind);
    const ssize_t length = read(pipe, came, sizeof came - 1);
    assert_int_equal(length > 0 ? length : 0, strlen(row->piped));
    assert_string_equal(came, row->piped);
    holds(folder, "plain", row->plain);
    holds(outside, "plain", row->elsewhere);
    assert_int_equal(remove_folders(state), 0);
}

/* With `>> file`, output to "-" and to /dev/stdout is appended to the file. */
static void standard_output_is_not_replaced(void **state)
{
    char path[sizeof folder + 16], link[sizeof folder + 16];
    const char *const names[] = {"-", link};
    struct error err = {0};

    assert_int_equal(make_folders(state), 0);
    (void)snprintf(link, sizeof link, "%s/stdout", folder);
    assert_int_equal(symlink("/proc/self/fd/1", link), 0);
    (void)snprintf(path, sizeof path, "%s/plain", folder);
    (void)fflush(stdout);
    OWNED_FD kept = dup(STDOUT_FILENO);
    OWNED_FD file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(kept >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    bool ok = true;
    for (size_t i = 0; i < COUNT(names); i++) ok = file_write_output(names[i], bytes_of_text("+new"), 0600, &err).ok && ok;
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    assert_true(ok);
    holds(folder, "plain", "old+new+new");
    assert_int_equal(remove_folders(state), 0);
}

static const struct beneath_row {
    const char *name, *path;
    enum error_kind kind; /* ERROR_NONE: it is opened */
} beneath_rows[] = {
    {"a file", "plain", ERROR_NONE},
    {"a link that stays below", "inner", ERROR_NONE},
    {"a link that leads out", "outer", ERROR_DENIED},
    {"a path that climbs", "../out/plain", ERROR_DENIED},
    {"an absolute path", "/dev/zero", ERROR_DENIED},
    {"nothing", "missing", ERROR_NOT_FOUND},
};

static void beneath(void **state)
{
    const struct beneath_row *row = *state;
    OWNED_FD directory = -1;
    OWNED_FD fd = -1;
    struct error err = {0};

    assert_int_equal(make_folders(state), 0);
    assert_true(file_open(folder, O_RDONLY | O_DIRECTORY, 0, &directory, &err).ok);
    assert_int_equal(file_open_beneath(directory, row->path, O_RDONLY, &fd, &err).ok, row->kind == ERROR_NONE);
    assert_int_equal(err.kind, row->kind);
    assert_int_equal(fd >= 0, row->kind == ERROR_NONE);
    assert_int_equal(remove_folders(state), 0);
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(standard_output_is_not_replaced)};

    if (mkdtemp(root) == NULL) return 1;
    const int failed = RUN_TABLE(output_rows, outputs) + RUN_TABLE(beneath_rows, beneath) +
                       cmocka_run_group_tests_name("standard output", others, NULL, NULL);
    return rmdir(root) == 0 ? failed : 1;
}

/* The files of a push. A link out of a pushed folder published its target. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "client/files.h"

static char root[] = "/tmp/sijil-test-XXXXXX";

/* One file in the folder "in", one outside, and the row's commands. */
static void prepare(const char *command)
{
    char line[500];

    (void)snprintf(
        line, sizeof line,
        "cd %s && rm -rf in out other && mkdir -p in/sub out other && echo inside > in/file && echo secret > out/file && %s",
        root, command);
    assert_int_equal(system(line), 0); /* NOLINT(cert-env33-c): a row's words in our own mkdtemp() name */
}

static const struct push_row {
    const char *name, *before, *meanwhile; /* shell commands: before it is listed, and before it is opened */
    const char *wanted;                    /* of the second file; NULL: refused */
    bool follows_links;
} push_rows[] = {
    {"a file", "echo second > in/second", "true", "second\n", false},
    {"a link to a file of the folder", "ln -s ../file in/sub/link", "true", "inside\n", false},
    {"a link out", "ln -s ../../out/file in/sub/link", "true", NULL, false},
    {"a link out that the user wants", "ln -s ../../out/file in/sub/link", "true", "secret\n", true},
    {"an absolute link, also into the folder", "ln -s $PWD/in/file in/sub/link", "true", NULL, false},
    {"a link to a link out", "ln -s ../out/file in/b; ln -s ../b in/sub/link", "true", NULL, false},
    {"a link to nothing", "ln -s nothing in/link", "true", NULL, false},
    {"a link to a folder", "ln -s sub in/link", "true", NULL, false},
    {"a pipe", "mkfifo in/pipe", "true", NULL, false},
    {"a file that becomes a link out", "echo second > in/second", "ln -sf ../out/file in/second", NULL, false},
    {"a folder below that becomes a link out", "echo second > in/sub/file", "rm -r in/sub && ln -s ../out in/sub", NULL, false},
    {"the folder becomes a link", "echo second > in/second; echo s > out/second", "mv in other/in && ln -s out in", NULL, false},
    {"the folder becomes another", "echo second > in/second; echo s > out/second", "mv in other/in && mv out in", NULL, false},
    {"a file that becomes a pipe", "echo second > in/second", "rm in/second && mkfifo in/second", NULL, false},
};

static struct result read_second(struct file_list *list, const char *meanwhile, struct buffer *content, struct error *err)
{
    OWNED_FD fd = -1;
    char path[100];
    uint8_t text[20];
    size_t length = 0;

    (void)snprintf(path, sizeof path, "%s/in", root);
    TRY(file_list_add(list, path, false, err));
    assert_int_equal(list->count, 2);
    (void)snprintf(path, sizeof path, "cd %s && %s", root, meanwhile);
    assert_int_equal(system(path), 0); /* NOLINT(cert-env33-c): a row's words in our own mkdtemp() name */
    TRY(file_list_open(&list->files[1], &fd, err));
    TRY(file_read_some(fd, text, sizeof text, 0, &length, err));
    return buffer_add(content, text, length, err);
}

static void pushes(void **state)
{
    const struct push_row *row = *state;
    OWNED_FILE_LIST list = {.follows_links = row->follows_links};
    struct buffer OWNED_BUFFER content = BUFFER(100);
    struct error err = {0};

    prepare(row->before);
    const bool ok = read_second(&list, row->meanwhile, &content, &err).ok;
    assert_int_equal(ok, row->wanted != NULL);
    if (ok) assert_string_equal(buffer_text(&content), row->wanted);
    if (!ok) assert_true(err.kind == ERROR_INVALID || err.kind == ERROR_NOT_FOUND);
}

/* A path that the user gives may be a link. */
static void named_links_are_followed(void **state)
{
    OWNED_FILE_LIST list = {.count = 0};
    OWNED_FD fd = -1;
    char path[100];
    struct error err = {0};

    (void)state;
    prepare("ln -s ../out/file in/link && ln -s in folder");
    (void)snprintf(path, sizeof path, "%s/in/link", root);
    assert_true(file_list_add(&list, path, false, &err).ok);
    assert_true(file_list_open(&list.files[0], &fd, &err).ok);
    prepare("true");
    (void)snprintf(path, sizeof path, "%s/folder/", root);
    assert_true(file_list_add(&list, path, false, &err).ok);
    assert_string_equal(list.files[1].title, "file");
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(named_links_are_followed)};
    char command[100];

    if (mkdtemp(root) == NULL) return 1;
    const int failed = RUN_TABLE(push_rows, pushes) + cmocka_run_group_tests_name("others", others, NULL, NULL);
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) == 0 ? failed : 1; /* NOLINT(cert-env33-c): our own mkdtemp() name */
}

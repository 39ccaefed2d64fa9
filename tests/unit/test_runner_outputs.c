/* The outputs of a payload, and the rules that refuse all of them; with the failures of each call. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/sandbox/copy.h"
#include "runner/sandbox/outputs.h"
#include "tests/support/signal_process.h"

static char folder[] = "/tmp/sijil-outputs-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static struct result note(void *context, const struct output_file *file, struct error *err)
{
    return buffer_format(context, err, "%s %lld %llo;", file->path, (long long)file->size, (unsigned long long)file->mode);
}

static struct result walk_all(void *context, struct error *err)
{
    struct output_walk walk = {.what = "output", .rules = {.files_max = 10, .bytes_max = 100}, .take = note, .context = context};
    OWNED_FD fd = -1;

    TRY(file_open(folder, O_RDONLY | O_DIRECTORY, 0, &fd, err));
    return output_walk(&walk, fd, err);
}

static void files_come_in_order(void **state)
{
    struct buffer OWNED_BUFFER said = BUFFER(4096);
    struct error err = {0};

    (void)state;
    if (!walk_all(&said, &err).ok) fail_msg("%s", err.message);
    assert_string_equal(buffer_text(&said), "a 1 644;d/b 2 644;z 3 644;");
}

static struct result walk_fresh(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER said = BUFFER(4096);

    (void)context;
    return walk_all(&said, err);
}

static void each_failure_is_said(void **state)
{
    (void)state;
    fail_each(walk_fresh, NULL, ERROR_NONE, 10);
}

static struct result change_it(void *context, const struct output_file *file, struct error *err)
{
    struct stat about;

    (void)context, (void)err;
    if (strcmp(file->path, "a") != 0) return SUCCESS;
    write_file("d/b", "longer than before");
    return fstat(file->fd, &about) == 0 ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "no status");
}

static void a_tighter_rule_refuses(void **state)
{
    const struct output_rules rules[] = {{.files_max = 3, .bytes_max = 100}, {.files_max = 10, .bytes_max = 5}};
    struct buffer OWNED_BUFFER said = BUFFER(4096);
    OWNED_FD fd = -1;
    struct error err = {0};

    (void)state;
    assert_true(file_open(folder, O_RDONLY | O_DIRECTORY, 0, &fd, &err).ok);
    for (size_t i = 0; i < COUNT(rules); i++) {
        struct output_walk walk = {.what = "output", .rules = rules[i], .take = note, .context = &said};
        assert_false(output_walk(&walk, fd, &err).ok);
        assert_int_equal(err.kind, ERROR_LIMIT);
    }
    struct output_walk walk = {.what = "output", .rules = {.files_max = 10, .bytes_max = 100}, .take = change_it};
    assert_true(output_walk(&walk, fd, &err).ok); /* a file may change before the walk reaches it */
    write_file("d/b", "bb");
}

/* Appends to a file until it is killed. */
static pid_t start_writer(const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    const pid_t writer = fork();
    if (writer != 0) return writer;
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    while (write(fd, "x", 1) == 1) {
    }
    _exit(1);
}

static void a_change_while_reading_is_noticed(void **state)
{
    struct buffer OWNED_BUFFER said = BUFFER(4096);
    struct output_walk walk = {
        .what = "output", .rules = {.files_max = 10, .bytes_max = 1 << 30}, .take = note, .context = &said};
    OWNED_FD fd = -1;
    struct error err = {0};
    struct result walked = SUCCESS;
    int status = 0;

    (void)state;
    assert_true(file_open(folder, O_RDONLY | O_DIRECTORY, 0, &fd, &err).ok);
    const pid_t writer = start_writer("z");
    assert_true(writer > 0);
    for (int i = 0; i < 10000 && walked.ok; i++) {
        buffer_clear(&said);
        walk.files = walk.bytes = 0;
        walked = output_walk(&walk, fd, &err);
    }
    assert_true(signal_process(writer, SIGKILL));
    assert_int_equal(waitpid(writer, &status, 0), writer);
    write_file("z", "zzz");
    assert_false(walked.ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_non_null(strstr(err.message, "output z: it "));
}

static const struct {
    const char *name, *broken; /* a part of the rule; NULL: none */
} names[] = {{"weights.onnx", NULL},
             {"r\xc3\xa9sum\xc3\xa9", NULL},
             {" a", "blank"},
             {"a ", "blank"},
             {"a\nb", "steer"},
             {"\xff", "steer"},
             {"\xe2\x80\xae", "steer"},
             {"a\xc2\x9b"
              "b",
              "steer"}};

static void names_are_judged(void **state)
{
    char long_name[OUTPUT_NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *broken = output_name_breaks(names[i].name);
        if ((broken == NULL) != (names[i].broken == NULL)) fail_msg("row %zu: %s", i, broken == NULL ? "taken" : broken);
        if (broken != NULL) assert_non_null(strstr(broken, names[i].broken));
    }
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[OUTPUT_NAME_MAX + 1] = '\0';
    assert_non_null(output_name_breaks(long_name));
    long_name[OUTPUT_NAME_MAX] = '\0';
    assert_null(output_name_breaks(long_name));
}

static void a_copy_is_no_link(void **state)
{
    const struct copy_source source = {.what = "code", .path = folder};
    OWNED_FD fd = -1;
    struct digest digest;
    struct stat about;
    struct error err = {0};

    (void)state;
    assert_true(file_open("/tmp", O_RDONLY | O_DIRECTORY, 0, &fd, &err).ok);
    if (!copy_in(&source, fd, "sijil-outputs-copy", &digest, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(fstatat(fd, "sijil-outputs-copy/d/b", &about, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(about.st_nlink, 1);
    assert_int_equal(about.st_mode & 07777, 0444);
    assert_true(copy_remove(fd, "sijil-outputs-copy", &err).ok);
    assert_int_equal(faccessat(fd, "sijil-outputs-copy", F_OK, 0), -1);
}

static int make_folder(void **state)
{
    char path[256];

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/d", folder);
    (void)umask(022);
    assert_int_equal(mkdir(path, 0755), 0);
    write_file("z", "zzz");
    write_file("a", "a");
    write_file("d/b", "bb");
    return 0;
}

static int remove_folder(void **state)
{
    OWNED_FD fd = open("/tmp", O_RDONLY | O_DIRECTORY);
    struct error err = {0};

    (void)state;
    assert_true(copy_remove(fd, strrchr(folder, '/') + 1, &err).ok);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_come_in_order),
                                       cmocka_unit_test(a_tighter_rule_refuses),
                                       cmocka_unit_test(a_change_while_reading_is_noticed),
                                       cmocka_unit_test(names_are_judged),
                                       cmocka_unit_test(a_copy_is_no_link),
                                       cmocka_unit_test(each_failure_is_said)};

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

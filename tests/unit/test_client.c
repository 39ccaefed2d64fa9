#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/hosts.h"
#include "client/http.h"
#include "client/jobs.h"
#include "client/layout.h"
#include "client/progress.h"
#include "client/terminal.h"
#include "client/trace.h"
#include "crypto/digest.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
static const struct layer_file two_files[] = {
    {.path = "a",
     .title = "model.onnx",
     .media_type = "application/vnd.cncf.model.weight.v1.raw",
     .digest = "sha256:" HEX64,
     .size = 7},
    {.path = "b",
     .title = "a \"quoted\" name",
     .media_type = "application/vnd.cncf.model.doc.v1.raw",
     .digest = "sha256:" HEX64,
     .size = 8},
};

static void manifests_are_valid_json_with_both_names(void **state)
{
    struct buffer OWNED_BUFFER config = BUFFER(4096);
    struct buffer OWNED_BUFFER manifest = BUFFER(4096);
    OWNED_JSON value = NULL;
    OWNED_JSON annotations = json_pack("{s:s}", "key", "value");
    struct error err = {0};

    (void)state;
    assert_true(layout_config("digits", two_files, COUNT(two_files), &config, &err).ok);
    assert_true(layout_manifest(two_files, COUNT(two_files), buffer_bytes(&config), annotations, &manifest, &err).ok);
    assert_true(json_read(buffer_bytes(&manifest), 4096, &value, &err).ok);
    const json_t *layers = json_object_get(value, "layers");
    assert_int_equal(json_array_size(layers), 2);
    const json_t *named = json_object_get(json_array_get(layers, 1), "annotations");
    assert_string_equal(json_text_of(named, "org.opencontainers.image.title"), "a \"quoted\" name");
    assert_string_equal(json_text_of(named, "org.cncf.model.filepath"), "a \"quoted\" name");
    assert_string_equal(json_text_of(json_object_get(value, "annotations"), "key"), "value");

    const struct digest digest = digest_of(DIGEST_SHA256, buffer_bytes(&config));
    char text[DIGEST_TEXT_SIZE];
    digest_format(&digest, text);
    assert_string_equal(json_text_of(json_object_get(value, "config"), "digest"), text);
}

/* A link in the target folder, from an earlier pull or another person, is not followed. */
static void links_are_not_followed(void **state)
{
    char folder[] = "/tmp/sijil-test-XXXXXX";
    OWNED_FD target = -1;
    OWNED_FD fd = -1;
    struct error err = {0};

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_true(file_open(folder, O_RDONLY | O_DIRECTORY, 0, &target, &err).ok);
    assert_int_equal(symlinkat("/tmp", target, "link"), 0);
    assert_int_equal(symlinkat("/etc/passwd", target, "file"), 0);
    assert_false(title_open(target, "link/x", O_WRONLY | O_CREAT, &fd, &err).ok);
    assert_false(title_open(target, "file", O_WRONLY | O_CREAT, &fd, &err).ok);
    assert_int_equal(fd, -1);
    assert_true(title_open(target, "new/deep/file", O_WRONLY | O_CREAT, &fd, &err).ok);
    assert_int_equal(unlinkat(target, "link", 0) + unlinkat(target, "file", 0) + unlinkat(target, "new/deep/file", 0), 0);
    assert_int_equal(unlinkat(target, "new/deep", AT_REMOVEDIR) + unlinkat(target, "new", AT_REMOVEDIR) + rmdir(folder), 0);
}

static void sizes_read_well(void **state)
{
    char text[24];

    (void)state;
    format_size(0, text);
    assert_string_equal(text, "0 B");
    format_size(1536, text);
    assert_string_equal(text, "1.5 KiB");
    format_size((uint64_t)100 << 30, text);
    assert_string_equal(text, "100.0 GiB");
}

static const struct trace_row {
    const char *name, *path;
    bool is_session;
    const char *shown;
} trace_rows[] = {
    {"a path", "/v2/a/b/c/tags/list", false, "/v2/a/b/c/tags/list"},
    {"a query", "/token?scope=SECRET", false, "/token?..."},
    {"a whole URL", "https://h:1/v2/?SECRET", false, "/v2/?..."},
    {"the start of an upload", "/v2/a/b/c/blobs/uploads/", false, "/v2/a/b/c/blobs/uploads/"},
    {"an upload", "/v2/a/b/c/blobs/uploads/SECRET?_state=SECRET", true, "/v2/a/b/c/blobs/uploads/(session)"},
    {"an upload that is not marked", "https://h:1/v2/a/blobs/uploads/SECRET", false, "/v2/a/blobs/uploads/(session)"},
    {"an upload elsewhere", "/write/SECRET?x", true, "/(session)"},
    {"an upload in a query", "/x?SECRET/blobs/uploads/SECRET", true, "/(session)"},
    {"control letters", "/a\x1b[2J\n\x7f", false, "/a?[2J??"},
    {"an override",
     "/a\xe2\x80\xae"
     "b",
     false, "/a???b"},
};

static void verbose_hides_secrets(void **state)
{
    const struct trace_row *row = *state;
    const struct http_request request = {.method = "GET",
                                         .path = row->path,
                                         .is_session = row->is_session,
                                         .authorization = "Bearer SECRET",
                                         .body = bytes_of_text("SECRET")};
    const struct http_response response = {.status = 200, .audit = "17", .request_id = "r\x1b", .location = "SECRET"};
    const struct trace trace = {.origin = "https://h:1",
                                .request = &request,
                                .response = &response,
                                .sent_bytes = 6,
                                .received_bytes = 7,
                                .duration_ms = 5};
    struct buffer OWNED_BUFFER text = BUFFER(1024), expected = BUFFER(1024);
    struct error err = {0};

    assert_true(trace_write(&trace, &text, &err).ok);
    assert_true(
        buffer_format(&expected, &err, "> GET %s\n< 200 in 5 ms, sent 6 bytes, received 7, request r?, audit 17\n", row->shown)
            .ok);
    assert_string_equal(buffer_text(&text), buffer_text(&expected));
}

static const struct warning_row {
    const char *name, *lines[3], *kept;
} warning_rows[] = {
    {"one", {"Warning: 299 - \"it is old\"\r\n"}, "it is old\n"},
    {"in other letters", {"WARNING:299 - \"a\""}, "a\n"},
    {"two", {"warning: 299 - \"a\"", "Warning: 299 - \"b\""}, "a\nb\n"},
    {"with quotes", {"Warning: 299 - \"the tag \\\"x\\\\y\\\" moved\""}, "the tag \"x\\y\" moved\n"},
    {"an empty one", {"Warning: 299 - \"\""}, "\n"},
    {"another code", {"Warning: 199 - \"a\""}, ""},
    {"an agent", {"Warning: 299 here \"a\""}, ""},
    {"no end", {"Warning: 299 - \"a"}, ""},
    {"nothing but a quote", {"Warning: 299 - \""}, ""},
    {"a backslash at the end", {"Warning: 299 - \"a\\\""}, "a\\\n"},
    {"a control character", {"Warning: 299 - \"a\x1b[2J\""}, ""},
    {"another header", {"X-Warning: 299 - \"a\""}, ""},
};

static void warnings_are_read(void **state)
{
    const struct warning_row *row = *state;
    struct http_response *response = memory_zeroed(1, sizeof *response);

    assert_non_null(response);
    for (size_t i = 0; i < COUNT(row->lines) && row->lines[i] != NULL; i++)
        http_response_take(response, bytes_of_text(row->lines[i]));
    assert_string_equal(response->warnings, row->kept);
    free(response);
}

static void warnings_beyond_the_room_are_left_out(void **state)
{
    struct http_response *response = memory_zeroed(1, sizeof *response);
    char line[1000];

    (void)state;
    assert_non_null(response);
    (void)snprintf(line, sizeof line, "Warning: 299 - \"%0900d\"", 7);
    for (int i = 0; i < 20; i++) http_response_take(response, bytes_of_text(line));
    assert_int_equal(strlen(response->warnings), 4 * 901);
    http_response_take(response, bytes_of_text("Warning: 299 - \"short\""));
    assert_string_equal(response->warnings + 4 * 901, "short\n");
    free(response);
}

/* `sijil audit tail` printed the subject that an issuer chose as it came. */
static void a_name_does_not_steer_the_terminal(void **state)
{
    OWNED_JSON name = json_string("ci\x1b[2J\r\xc2\x9b"
                                  "1m\x7f caf\xc3\xa9");
    char cell[CELL_MAX];

    (void)state;
    cell_text(name, cell);
    assert_string_equal(cell, "ci?[2J???1m? caf\xc3\xa9");
    cell_text(NULL, cell);
    assert_string_equal(cell, "-");
}

static const struct cell_row {
    const char *name, *json, *cell;
} cell_rows[] = {
    {"a label", "{\"class\":\"sensitive\",\"subjects\":[\"health\",\"children\"]}", "class=sensitive subjects=health,children"},
    {"regimes", "[\"AE\",\"DIFC\"]", "AE,DIFC"},
    {"something deeper stays JSON", "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
    {"numbers stay JSON", "[1,2]", "[1,2]"},
    {"a control character", "[\"a\\u001b\"]", "a?"},
};

static void cells(void **state)
{
    const struct cell_row *row = *state;
    OWNED_JSON value = NULL;
    char cell[CELL_MAX];
    struct error err = {0};

    assert_true(json_read(bytes_of_text(row->json), 1000, &value, &err).ok);
    cell_text(value, cell);
    assert_string_equal(cell, row->cell);
}

/* `sijil policy show` printed "-" for two policies. */
static void a_long_value_is_cut_and_says_so(void **state)
{
    static const char *const pieces[] = {"x", "caf\xc3\xa9", "\xf0\x9f\x98\x80", "1,"};

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct buffer OWNED_BUFFER made = BUFFER(4096);
        struct error err = {0};
        char cell[CELL_MAX];
        while (made.length < CELL_MAX + 5) assert_true(buffer_add_text(&made, pieces[i], &err).ok);
        OWNED_JSON text = json_pack("s", buffer_text(&made));
        OWNED_JSON deep = json_pack("[[s]]", buffer_text(&made)); /* shown as JSON */
        for (int each = 0; each < 2; each++) {
            cell_text(each == 0 ? text : deep, cell);
            assert_in_range(strlen(cell), CELL_MAX - 8, CELL_MAX - 1);
            assert_string_equal(cell + strlen(cell) - 3, "...");
            assert_null(strchr(cell, '?')); /* no character is cut in two */
        }
    }
}

/* A registry that names another holder than the signed document must not be believed by an approver. */
static void a_holder_is_shown_if_its_hash_is_the_documents(void **state)
{
    static const struct {
        const char *issuer, *subject;
        bool is_shown;
    } rows[] = {{"https://issuer.example", "alice", true},
                {"https://issuer.example", "mallory", false},
                {"https://other.example", "alice", false},
                {"https://issuer.example\nalice", "", false},
                {NULL, "alice", false}};
    static const char text[] = "https://issuer.example\nalice";
    char principal[SIGNING_PRINCIPAL_SIZE] = "ext:";
    uint8_t digest[SHA256_SIZE];

    (void)state;
    sha256_of(bytes_of_text(text), digest);
    text_hex(digest, sizeof digest, principal + 4);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OWNED_JSON key = json_pack("{s:{s:s*, s:s}}", "holder", "issuer", rows[i].issuer, "subject", rows[i].subject);
        assert_int_equal(verified_holder(key, principal) != NULL, rows[i].is_shown);
        assert_null(verified_holder(key, NULL));
        assert_null(verified_holder(key, "robot:00000000-0000-4000-8000-000000000000"));
    }
}

struct many_jobs {
    atomic_uint runs[40], gave_up;
    size_t failing; /* SIZE_MAX: none */
};

/* One job fails while another one works; the others wait until they must give up. */
static struct result count_run(void *context, size_t index, struct session *session, struct error *err)
{
    struct many_jobs *many = context;

    atomic_fetch_add(&many->runs[index], 1);
    if (many->failing == SIZE_MAX) return SUCCESS;
    if (index == many->failing) {
        (void)snprintf(session_report(session)->explanation, 20, "job %zu", index);
        return failure(err, ERROR_DENIED, "number %zu failed", index);
    }
    session_pause(session, 60, &(const struct error){.message = "a test"});
    if (!session_gives_up(session)) return failure(err, ERROR_CORRUPT, "nobody told %zu to give up", index);
    atomic_fetch_add(&many->gave_up, 1);
    return failure(err, ERROR_UNAVAILABLE, "number %zu gave up", index);
}

static const struct line_row {
    const char *name, *label;
    uint64_t done, total;
    int64_t passed_ms;
    unsigned columns;
    const char *wanted;
} line_rows[] = {
    {"a wide terminal", "model.onnx", 512 << 10, 1 << 20, 1000, 119,
     "model.onnx [====================                    ]  50%  512.0 KiB of 1.0 MiB  512.0 KiB/s  0:01 left"},
    {"80 columns", "model.onnx", 512 << 10, 1 << 20, 1000, 79,
     "model.onnx [=======        ]  50%  512.0 KiB of 1.0 MiB  512.0 KiB/s  0:01 left"},
    {"a long label", "weights/a-very-long-name-of-a-file.safetensors", 0, 1 << 20, 1000, 79,
     "weights/a-very-long-n... [                               ]   0%  0 B of 1.0 MiB"},
    {"a long label beside a free terminal", "weights/a-very-long-name-of-a-file.safetensors", 0, 1 << 20, 1000, 119,
     "weights/a-very-long-name-of-a-file.safetensors [                                        ]   0%  0 B of 1.0 MiB"},
    {"no room for a bar", "model.onnx", 512 << 10, 1 << 20, 1000, 30, "mod  50%  512.0 KiB of 1.0 MiB"},
    {"next to none", "model.onnx", 512 << 10, 1 << 20, 1000, 5, "  50%"},
    {"one", "model.onnx", 512 << 10, 1 << 20, 1000, 1, " "},
    {"letters of two bytes", "\u0646\u0645\u0648\u0630\u062c", 1 << 20, 1 << 20, 0, 60,
     "\u0646\u0645\u0648\u0630\u062c [===========================] 100%  1.0 MiB of 1.0 MiB"},
};

static void progress_fits_the_terminal(void **state)
{
    const struct line_row *row = *state;
    struct progress progress = {.done = row->done, .total = row->total, .began_ms = 1000};
    char line[PROGRESS_LINE_MAX];
    unsigned columns = 0;

    (void)snprintf(progress.label, sizeof progress.label, "%s", row->label);
    progress_line(&progress, 1000 + row->passed_ms, row->columns, line);
    (void)terminal_fit(line, UINT_MAX, &columns);
    assert_true(columns <= row->columns);
    assert_string_equal(line, row->wanted);
    assert_null(strstr(line, "0 B/s"));
}

/* The names of files were cut at the front, without a mark, even without a terminal. */
static void a_name_is_shown_whole_at_the_end(void **state)
{
    const char name[] = "weights/of-the-second-model/a-file-with-a-rather-long-name-for-a-terminal.safetensors";
    struct progress progress;
    char *text = NULL;
    size_t length = 0;
    FILE *const complaints = stderr, *const said = open_memstream(&text, &length);

    (void)state;
    assert_non_null(said);
    stderr = said;
    progress_begin(&progress, name, 0, 2, false);
    progress_set(&progress, 2);
    progress_end(&progress, "pushed");
    stderr = complaints;
    (void)fclose(said);
    assert_non_null(strstr(text, name));
    assert_null(strstr(text, "/s")); /* two bytes in no time are no rate */
    free(text);
}

static const struct jobs_row {
    const char *name;
    size_t count, failing;
    unsigned parallel, gave_up;
} jobs_rows[] = {
    {"none", 0, SIZE_MAX, 4, 0},
    {"one", 1, SIZE_MAX, 4, 0},
    {"one after the other", 10, SIZE_MAX, 1, 0},
    {"more jobs than work", 3, SIZE_MAX, 16, 0},
    {"many", 40, SIZE_MAX, 16, 0},
    {"the first fails alone", 5, 0, 1, 0},
    {"one fails beside others", 8, 3, 4, 3},
};

static void jobs(void **state)
{
    const struct jobs_row *row = *state;
    const struct host_login login = {.username = "robot$ci", .password = "secret"};
    struct invocation *invocation = memory_zeroed(1, sizeof *invocation);
    struct many_jobs many = {.failing = row->failing};
    const struct jobs work = {.count = row->count, .parallel = row->parallel, .work = count_run, .context = &many};
    struct session *session = NULL;
    struct error err = {0};

    assert_non_null(invocation);
    assert_true(session_open(&invocation->report, "registry.example", &login, &session, &err).ok);
    const bool fails = row->failing != SIZE_MAX;
    assert_int_equal(jobs_run(&work, session, &err).ok, !fails);
    for (size_t i = 0; i < row->count && !fails; i++) assert_int_equal(atomic_load(&many.runs[i]), 1);
    assert_int_equal(atomic_load(&many.gave_up), row->gave_up);
    if (fails) assert_int_equal(err.kind, ERROR_DENIED);
    if (fails) assert_int_equal(strncmp(invocation->report.explanation, "job ", 4), 0);
    session_free(session);
    free(invocation);
}

#define FIFTY        "It stays in the country; this is told in many words"
#define LONG_MESSAGE FIFTY " " FIFTY " " FIFTY " " FIFTY ": ask the officer"

static const struct refusal_row {
    const char *name, *body, *sentence, *explained, *not_explained;
} refusal_rows[] = {
    {"an answer to HEAD", "", "403 from the registry", "request", "JSON"},
    {"a web page", "<html>", "403 from the registry", "is this a Sijil registry?", "rule"},
    {"a short message", "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"not here\",\"detail\":{\"rule\":\"A-1\"}}]}",
     "403 DENIED: not here", "A-1", "not here"},
    {"a long message, with the way out at its end", "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"" LONG_MESSAGE "\"}]}",
     "403 DENIED", LONG_MESSAGE, "JSON"},
};

static void refusals(void **state)
{
    const struct refusal_row *row = *state;
    struct invocation *invocation = memory_zeroed(1, sizeof *invocation);
    struct http_response *response = memory_zeroed(1, sizeof *response);
    struct error err = {0};

    assert_true(invocation != NULL && response != NULL);
    *response = RESPONSE;
    response->status = 403;
    (void)snprintf(response->request_id, sizeof response->request_id, "r1");
    assert_true(buffer_add_text(&response->body, row->body, &err).ok);
    assert_false(refusal(&invocation->report, response, &err).ok);
    assert_int_equal(strncmp(err.message, row->sentence, strlen(row->sentence)), 0);
    assert_non_null(strstr(invocation->report.explanation, row->explained));
    assert_null(strstr(invocation->report.explanation, row->not_explained));
    assert_int_equal(exit_code_of(invocation, &err), EXIT_DENIED);
    http_response_done(response);
    free(response);
    free(invocation);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_name_is_shown_whole_at_the_end),
        cmocka_unit_test(a_name_does_not_steer_the_terminal),
        cmocka_unit_test(a_long_value_is_cut_and_says_so),
        cmocka_unit_test(a_holder_is_shown_if_its_hash_is_the_documents),
        cmocka_unit_test(warnings_beyond_the_room_are_left_out),
        cmocka_unit_test(manifests_are_valid_json_with_both_names),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(sizes_read_well),
    };

    return RUN_TABLE(refusal_rows, refusals) + RUN_TABLE(trace_rows, verbose_hides_secrets) +
           RUN_TABLE(warning_rows, warnings_are_read) + RUN_TABLE(jobs_rows, jobs) + RUN_TABLE(cell_rows, cells) +
           RUN_TABLE(line_rows, progress_fits_the_terminal) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}

/*
 * `sijil` against a hostile registry: with any answer, nothing is written outside the target folder, files that were "pulled and
 * verified" match their digests, and no answer steers the terminal.
 *
 * Input: a byte that picks the command, then answers divided by 0x1e, each "STATUS\nname: value\n...\n\nbody". The value
 * "=" of Docker-Content-Digest stands for the digest of the body. client/http.c alone is replaced (http_stand_in.h).
 */
#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/command.h"
#include "crypto/digest.h"
#include "tests/fuzz/http_stand_in.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define EXCHANGES_MAX 64
#define REFERENCE     "registry.example/acme/models/digits:v1"
#define HOST          "registry.example"
#define RUN           "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11"
#define OTHER_RUN     "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a12"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct bytes answers; /* the remaining answers of the registry */
static unsigned exchanges;
static char home[] = "/dev/shm/sijil-fuzz-XXXXXX";
static int home_folder = -1, start_folder = -1;
static struct buffer manifest_said = {.maximum = HTTP_ANSWER_MAX};

/* The waits between attempts take no time here. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)wanted;
    (void)left;
    return 0;
}

static struct bytes take(struct bytes *left, const char *mark)
{
    const size_t length = strlen(mark);
    const uint8_t *stop = left->length == 0 ? NULL : memmem(left->data, left->length, mark, length);
    const struct bytes part = {left->data, stop == NULL ? left->length : (size_t)(stop - left->data)};
    const size_t used = part.length + (stop == NULL ? 0 : length);

    left->data += used;
    left->length -= used;
    return part;
}

static struct result deliver(const struct http_request *request, struct http_response *response, struct bytes body,
                             struct error *err)
{
    if (request->take == NULL || response->status < 200 || response->status >= 300)
        return buffer_add(&response->body, body.data, body.length, err);
    const size_t half = body.length / 2;
    TRY(request->take(request->context, (struct bytes){body.data, half}, err));
    return request->take(request->context, (struct bytes){body.data + half, body.length - half}, err);
}

static void say_digest(struct http_response *response, struct bytes body)
{
    if (strcmp(response->digest, "=") != 0) return;
    const struct digest digest = digest_of(DIGEST_SHA256, body);
    digest_format(&digest, response->digest);
}

static long status_of(struct bytes text)
{
    uint64_t status = 0;

    return text_to_u64(text, 999, &status) ? (long)status : 0;
}

struct result http_call(struct http *http, const struct http_request *request, struct http_response *response, struct error *err)
{
    struct bytes answer = take(&answers, "\x1e");

    (void)http;
    if (++exchanges > EXCHANGES_MAX || answer.length == 0) return failure(err, ERROR_UNAVAILABLE, "the line is dead");
    const struct bytes status = take(&answer, "\n");
    response->status = status_of(status);
    for (struct bytes line; (line = take(&answer, "\n")).length > 0;) http_response_take(response, line);
    say_digest(response, answer);
    response->length = (int64_t)answer.length;
    if (strstr(request->path, "/manifests/") != NULL) {
        buffer_clear(&manifest_said);
        TRY(buffer_add(&manifest_said, answer.data, answer.length, err));
    }
    return deliver(request, response, answer, err);
}

/* ---- the user's machine ---- */

static const struct step {
    const char *command, *operands[4];
    struct option_value value;
    bool json;
} steps[] = {
    {"pull", {REFERENCE}, {'o', "out"}, false},
    {"pull", {REFERENCE}, {'o', "out"}, true},
    {"push", {"in.onnx", REFERENCE}, {0, NULL}, false},
    {"push", {"in.onnx", REFERENCE}, {0, NULL}, true},
    {"tags", {"registry.example/acme/models/digits"}, {0, NULL}, false},
    {"tags", {"registry.example/acme/models/digits"}, {0, NULL}, true},
    {"audit tail", {HOST}, {0, NULL}, false},
    {"audit tail", {HOST}, {0, NULL}, true},
    {"audit show", {HOST, "1"}, {0, NULL}, false},
    {"audit search", {HOST}, {'y', ""}, false},
    {"audit actors", {HOST}, {'C', ""}, false},
    {"audit proof", {HOST, "1"}, {'o', "out"}, false},
    {"audit key", {HOST}, {0, NULL}, false},
    {"admin project list", {HOST}, {0, NULL}, false},
    {"admin project list", {HOST}, {0, NULL}, true},
    {"admin robot create", {HOST, "acme/ci"}, {0, NULL}, false},
    {"admin binding create", {HOST, "robot$acme+ci", "publisher", "acme/models"}, {0, NULL}, false},
    {"policy show", {HOST}, {0, NULL}, false},
    {"run show", {HOST, "acme/models", RUN}, {0, NULL}, false},
    {"run show", {HOST, "acme/models", RUN}, {'f', ""}, false},
    {"run list", {HOST, "acme/models"}, {0, NULL}, false},
    {"run bundle", {HOST, "acme/models", RUN}, {'o', "out/bundle"}, false},
    {"run compare", {HOST, "acme/models", RUN, OTHER_RUN}, {0, NULL}, false},
    {"run compare", {HOST, "acme/models", RUN, OTHER_RUN}, {0, NULL}, true},
    {"ci rule list", {HOST}, {0, NULL}, false},
    {"ci rule show", {HOST, "gh-acme-train"}, {0, NULL}, false},
    {"policy show", {HOST}, {'d', ""}, true},
    {"policy export", {HOST}, {'o', "out/set"}, false},
};

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    if (place->level > 0) assert((type == FTW_DP ? rmdir(path) : unlink(path)) == 0);
    return 0;
}

static void write_file(const char *name, const char *content)
{
    struct error err;
    assert(file_replace(name, bytes_of_text(content), 0600, &err).ok);
}

static void make_home(void)
{
    assert(nftw(".", remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
    assert(mkdir("out", 0700) == 0 && mkdir("config", 0700) == 0 && mkdir("cache", 0700) == 0);
    write_file("in.onnx", "a small model");
    write_file("canary", "untouched");
}

static unsigned entries;

static int count_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    assert(type == FTW_D || type == FTW_F); /* no link anywhere */
    if (place->level == 1) entries++;
    if (strcmp(path, "./canary") == 0) assert(status->st_size == (off_t)strlen("untouched"));
    return 0;
}

static void check_home(void)
{
    entries = 0;
    assert(nftw(".", count_one, 16, FTW_PHYS) == 0);
    assert(entries == 5);
}

static void remove_home(void)
{
    (void)nftw(home, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    (void)rmdir(home);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    assert(mkdtemp(home) != NULL && atexit(remove_home) == 0);
    home_folder = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    start_folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert(home_folder >= 0 && start_folder >= 0);
    assert(setenv("SIJIL_USERNAME", "robot$acme+ci", 1) == 0 && setenv("SIJIL_PASSWORD", "secret", 1) == 0);
    assert(setenv("XDG_CONFIG_HOME", "/proc/self/cwd/config", 1) == 0);
    assert(setenv("XDG_CACHE_HOME", "/proc/self/cwd/cache", 1) == 0);
    return 0;
}

/* ---- what must be true afterwards ---- */

/* After a successful pull every layer with a name exists and is complete. */
static void check_pulled(void)
{
    OWNED_JSON manifest = NULL;
    struct error err;
    size_t i;
    const json_t *layer;

    assert(json_read(buffer_bytes(&manifest_said), HTTP_ANSWER_MAX, &manifest, &err).ok);
    json_array_foreach (json_object_get(manifest, "layers"), i, layer) {
        struct buffer OWNED_BUFFER path = BUFFER(8192), content = BUFFER(HTTP_ANSWER_MAX);
        struct digest wanted;
        const json_t *annotations = json_object_get(layer, "annotations");
        const char *title = json_text_of(annotations, "org.opencontainers.image.title");
        if (title == NULL) title = json_text_of(annotations, "org.cncf.model.filepath");
        if (title == NULL) continue;
        assert(buffer_format(&path, &err, "out/%s", title).ok && file_read(buffer_text(&path), &content, &err).ok);
        assert(digest_parse(bytes_of_text(json_text_of(layer, "digest")), &wanted, &err).ok);
        const struct digest got = digest_of(wanted.algorithm, buffer_bytes(&content));
        assert(digest_equal(&wanted, &got));
    }
}

/* No control character reaches a terminal but the end of a line, neither ASCII's nor Latin-1's. */
static void check_shown(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const unsigned char letter = (unsigned char)text[i];
        assert(letter == '\n' || (letter >= 0x20 && letter != 0x7f));
        if (letter == 0xc2 && i + 1 < length) assert((unsigned char)text[i + 1] >= 0xa0);
    }
}

static void check_json(const char *text, size_t length)
{
    OWNED_JSON value = NULL;
    struct error err;
    const uint8_t *end = memchr(text, '\n', length);

    if (length == 0) return;
    const struct bytes line = {(const uint8_t *)text, end == NULL ? length : (size_t)(end - (const uint8_t *)text)};
    assert(json_read(line, 16 * HTTP_ANSWER_MAX, &value, &err).ok);
}

/* As client_main(): runs one command, then reports its failure. */
static bool run(const struct step *step)
{
    static struct invocation invocation;
    size_t count = 0;
    const struct command *table = commands_table(&count);
    struct error err = {0};

    memset(&invocation, 0, sizeof invocation);
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, step->command) == 0) invocation.command = &table[i];
    assert(invocation.command != NULL);
    for (size_t i = 0; i < COUNT(step->operands) && step->operands[i] != NULL; i++) invocation.operand_count++;
    invocation.operands = step->operands;
    if (step->value.value != NULL) invocation.values[invocation.value_count++] = step->value;
    /* One file at a time: answers are taken in the order of the input, by one thread. */
    invocation.values[invocation.value_count++] = (struct option_value){.letter = 'J', .value = "1"};
    invocation.json = step->json;
    const bool done = invocation.command->run(&invocation, &err).ok;
    if (!done) {
        assert(err.kind != ERROR_NONE);
        command_report(&invocation, &err);
    }
    return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *const output = stdout, *const complaints = stderr;
    char *shown = NULL, *said = NULL;
    size_t shown_length = 0, said_length = 0;

    if (size == 0) return 0;
    const struct step *step = &steps[data[0] % COUNT(steps)];
    answers = (struct bytes){data + 1, size - 1};
    exchanges = 0;
    buffer_clear(&manifest_said);
    assert(fchdir(home_folder) == 0);
    make_home();
    stdout = open_memstream(&shown, &shown_length);
    stderr = open_memstream(&said, &said_length);
    const bool done = run(step);
    assert(fclose(stdout) == 0 && fclose(stderr) == 0);
    stdout = output;
    stderr = complaints;
    check_home();
    if (done && strcmp(step->command, "pull") == 0) check_pulled();
    check_shown(shown, shown_length);
    check_shown(said, said_length);
    if (step->json) check_json(shown, shown_length);
    if (step->json && !done) {
        assert(said_length > 0);
        check_json(said, said_length);
    }
    free(shown);
    free(said);
    assert(fchdir(start_folder) == 0); /* the fuzzer's own paths may be relative */
    return 0;
}

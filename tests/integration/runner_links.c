/*
 * A program that is not `sijil`, made of libraries that any program may link: supervision, sandbox, journal, DSSE, and the
 * client's session and transfers. runner_links.py runs it against a registry of its own.
 *
 *     runner_links HOST CA-FILE STATE-FOLDER NOTES-FOLDER NUMBER
 *
 * Takes the number, which counts once; runs a program in a sandbox; signs its output; pushes and fetches it. It prints one word
 * for each finished step. Status 3: the number was used. Status 4: the registry can't be reached now, and another run goes on.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sandbox.h"
#include "base/text.h"
#include "client/fetch.h"
#include "client/hash.h"
#include "client/hosts.h"
#include "client/upload.h"
#include "crypto/dsse.h"
#include "journal/journal.h"
#include "supervision/child_pipe.h"

#define OUTPUT_SIZE ((size_t)5 << 20) /* too much for one POST */
#define SCOPE       "repository:acme/models/runs:pull,push"
#define USED_MAX    16

enum { STATUS_USED = 3, STATUS_LATER = 4 };

/* --- numbers that count once --- */

struct used {
    uint32_t count;
    uint64_t numbers[USED_MAX];
};

static size_t used_size(uint8_t version)
{
    return version == 1 ? 4 + 8 * USED_MAX : 0;
}

static void used_write(const void *context, uint8_t *body_out)
{
    const struct used *used = context;

    store_u32(body_out, used->count);
    for (size_t i = 0; i < USED_MAX; i++) store_u64(body_out + 4 + 8 * i, used->numbers[i]);
}

static void used_read(uint8_t version, struct bytes body, void *state_out)
{
    struct used *used = state_out;

    (void)version;
    used->count = load_u32(body.data);
    for (size_t i = 0; i < USED_MAX; i++) used->numbers[i] = load_u64(body.data + 4 + 8 * i);
}

static const struct journal_format format = {.name = "used",
                                             .magic = "USED",
                                             .version = 1,
                                             .copy_size = 4096,
                                             .body_size = used_size,
                                             .write = used_write,
                                             .read = used_read};
static const uint8_t journal_key[JOURNAL_KEY_SIZE] = {1};

static struct result open_used(int folder, struct used *used, struct journal **journal_out, struct error *err)
{
    const struct used none = {0};
    const struct result opened = journal_open(folder, &format, journal_key, used, journal_out, err);

    if (opened.ok || err->kind != ERROR_NOT_FOUND) return opened;
    TRY(journal_create(folder, &format, journal_key, &none, err));
    return journal_open(folder, &format, journal_key, used, journal_out, err);
}

static struct result use_number(const char *folder, uint64_t number, struct error *err)
{
    OWNED(journal) *journal = NULL;
    OWNED_FD fd = -1;
    struct used used;

    TRY(file_open(folder, O_RDONLY | O_DIRECTORY, 0, &fd, err));
    TRY(open_used(fd, &used, &journal, err));
    for (uint32_t i = 0; i < used.count; i++)
        if (used.numbers[i] == number) return failure(err, ERROR_CONFLICT, "the number was used");
    if (used.count == USED_MAX) return failure(err, ERROR_LIMIT, "no room for another number");
    used.numbers[used.count++] = number;
    return journal_write(journal, &used, err);
}

/* --- the program --- */

static struct result confine(void *context, struct error *err)
{
    (void)context;
    return sandbox_enter_program(err);
}

static struct result keep(void *context, enum child_stream stream, struct bytes piece, struct error *err)
{
    return stream == CHILD_OUTPUT ? file_write_all(*(const int *)context, piece.data, piece.length, err) : SUCCESS;
}

static struct result read_all(struct child_output *output, struct error *err)
{
    for (bool open = true; open;) TRY(child_output_read(output, 10000, &open, err));
    return SUCCESS;
}

/* Its output goes into an unnamed file. */
static struct result run_program(int fd, struct error *err)
{
    char *const arguments[] = {
        (char[]){"/bin/sh"}, (char[]){"-c"},
        (char[]){"(setsid sleep 1000 &); unshare --user true 2>&1 | grep -c permitted >&2; head -c 5242880 /dev/zero"}, NULL};
    char *const environment[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
    const struct child_output_options kept = {.maximum = OUTPUT_SIZE + 4096, .take = keep, .context = &fd};
    struct child_descriptor ends[CHILD_STREAMS];
    OWNED(child_output) *output = NULL;
    pid_t pid = 0;
    int status = -1;

    TRY(child_output_new(&kept, &output, err));
    child_output_ends(output, ends);
    const struct child_options options = {.arguments = arguments,
                                          .environment = environment,
                                          .descriptors = ends,
                                          .descriptor_count = 2,
                                          .death_signal = SIGKILL,
                                          .stop_signal = SIGTERM,
                                          .grace_ms = 1000,
                                          .whole_tree = true,
                                          .confine = confine};
    TRY(child_start(&options, &pid, err));
    const struct result read = read_all(output, err);
    if (!read.ok) (void)child_end(pid, SIGTERM, 5000, &status);
    TRY(read);
    if (!child_wait(pid, 10000, &status) || status != 0) return failure(err, ERROR_UNAVAILABLE, "the program failed");
    return SUCCESS;
}

/* --- what is said of it --- */

static struct result sign(const char *digest, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(16384);
    OWNED(ecdsa_key) *key = NULL;
    OWNED(ecdsa_key) *other = NULL;
    OWNED(dsse) *dsse = NULL;

    TRY(ecdsa_key_new(&key, err));
    TRY(ecdsa_key_new(&other, err));
    const struct ecdsa_key *const signers[] = {key};
    TRY(dsse_write("application/vnd.in-toto+json", bytes_of_text(digest), signers, 1, &envelope, err));
    TRY(dsse_read(buffer_bytes(&envelope), envelope.maximum, &dsse, err));
    TRY(dsse_check_signer(dsse, key, err));
    if (dsse_check_signer(dsse, other, err).ok) return failure(err, ERROR_CORRUPT, "another key has signed it");
    return SUCCESS;
}

/* --- the registry --- */

static atomic_bool is_pushing, gives_up;

/* A push is continued by another run, a fetch by this run. */
static void give_up(const char *why, unsigned seconds)
{
    (void)why;
    (void)seconds;
    if (atomic_load(&is_pushing)) atomic_store(&gives_up, true);
}

static struct result fetch(struct session *session, const char *digest, struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    OWNED_FD fd = memfd_create("fetched", MFD_CLOEXEC);

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    struct fetch fetched = {.session = session,
                            .repository = "acme/models/runs",
                            .scope = SCOPE,
                            .digest = digest,
                            .name = "result",
                            .fd = fd,
                            .size = OUTPUT_SIZE,
                            .hasher = hasher};
    TRY(fetch_blob(&fetched, err));
    return fetch_check(&fetched, err);
}

static struct result transfer(char **arguments, int fd, const char *digest, struct error *err)
{
    struct report report = {.wait = give_up};
    struct host_login login = {.username = "runner", .password = "of the lease"};
    OWNED(session) *session = NULL;
    atomic_bool wants_sessions = false;

    (void)snprintf(login.ca_file, sizeof login.ca_file, "%s", arguments[2]);
    TRY(session_open(&report, arguments[1], &login, &session, err));
    session_give_up_when(session, &gives_up);
    const struct upload upload = {.session = session,
                                  .host = arguments[1],
                                  .repository = "acme/models/runs",
                                  .scope = SCOPE,
                                  .label = "result",
                                  .digest = digest,
                                  .fd = fd,
                                  .size = OUTPUT_SIZE,
                                  .notes = arguments[4],
                                  .quiet = true,
                                  .wants_sessions = &wants_sessions};
    atomic_store(&is_pushing, true);
    TRY(upload_blob(&upload, err));
    atomic_store(&is_pushing, false);
    (void)puts("pushed");
    TRY(fetch(session, digest, err));
    (void)puts("fetched");
    return SUCCESS;
}

static struct result digest_file(int fd, char digest_out[DIGEST_TEXT_SIZE], struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    uint64_t hashed = 0;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    TRY(hash_file(fd, OUTPUT_SIZE, hasher, NULL, &hashed, err));
    if (hashed != OUTPUT_SIZE) return failure(err, ERROR_CORRUPT, "the program printed %llu bytes", (unsigned long long)hashed);
    const struct digest digest = hasher_digest(hasher);
    digest_format(&digest, digest_out);
    return SUCCESS;
}

static struct result run(char **arguments, uint64_t number, struct error *err)
{
    OWNED_FD fd = memfd_create("result", MFD_CLOEXEC);
    char digest[DIGEST_TEXT_SIZE];

    TRY(use_number(arguments[3], number, err));
    (void)puts("number");
    TRY(run_program(fd, err));
    (void)puts("ran");
    TRY(digest_file(fd, digest, err));
    TRY(sign(digest, err));
    (void)puts("signed");
    return transfer(arguments, fd, digest, err);
}

int main(int count, char **arguments)
{
    struct error err = {0};
    uint64_t number = 0;

    if (count != 6 || !text_to_u64(bytes_of_text(arguments[5]), UINT64_MAX, &number)) return 2;
    if (!sandbox_prepare(&err).ok) return 2;
    if (run(arguments, number, &err).ok) return 0;
    (void)fprintf(stderr, "%s: %s\n", error_kind_name(err.kind), err.message);
    if (err.kind == ERROR_UNAVAILABLE && atomic_load(&gives_up)) return STATUS_LATER;
    return err.kind == ERROR_CONFLICT ? STATUS_USED : 1;
}

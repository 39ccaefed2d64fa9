/* The promises of the real sijil-keyd about the log, and the conditions of its start. */
#include "tests/integration/keyd_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "audit/format/checkpoint.h"
#include "audit/format/note.h"

enum { LEAVES = 600 };

/* ---- a log in memory, whose leaf i is hashed from one byte that a fork can change ---- */

struct memory_log {
    struct merkle_source source;
    uint64_t forked_at; /* leaves from here on differ */
};

static struct merkle_hash leaf(const struct memory_log *log, uint64_t index)
{
    const uint8_t text[3] = {(uint8_t)index, (uint8_t)(index >> 8), index >= log->forked_at};
    struct merkle_hash hash;

    merkle_leaf_hash((struct bytes){text, sizeof text}, &hash);
    return hash;
}

static struct result node(struct merkle_source *source, unsigned level, uint64_t index, struct merkle_hash *hash_out,
                          struct error *err)
{
    const struct memory_log *log = (const struct memory_log *)source;
    struct merkle_hash left, right;

    if (level == 0) {
        *hash_out = leaf(log, index);
        return SUCCESS;
    }
    TRY(node(source, level - 1, 2 * index, &left, err));
    TRY(node(source, level - 1, 2 * index + 1, &right, err));
    merkle_node_hash(&left, &right, hash_out);
    return SUCCESS;
}

static struct checkpoint_request request_for(uint64_t old_size, uint64_t size, uint64_t forked_at)
{
    struct memory_log log = {.source = {.node = node}, .forked_at = forked_at};
    struct checkpoint_request request = {.old_size = old_size, .size = size, .now_s = time(NULL)};
    struct merkle_hash root = merkle_empty_root();
    struct merkle_proof proof = {0};
    struct error err = {0};

    if (size > 0) assert_true(merkle_root_at(&log.source, size, &root, &err).ok);
    if (old_size > 0 && old_size <= size) assert_true(merkle_prove_consistency(&log.source, old_size, size, &proof, &err).ok);
    memcpy(request.root, root.bytes, sizeof request.root);
    request.proof_count = proof.count;
    for (size_t i = 0; i < proof.count; i++) memcpy(request.proof[i], proof.hashes[i].bytes, 32);
    return request;
}

static enum error_kind sign(const struct checkpoint_request *request, struct buffer *note)
{
    struct error err = {0};

    return keyd_sign_checkpoint(client, request, note, &err).ok ? ERROR_NONE : err.kind;
}

static enum error_kind sign_sizes(uint64_t old_size, uint64_t size)
{
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);
    const struct checkpoint_request request = request_for(old_size, size, LEAVES);

    return sign(&request, &note);
}

static void checkpoints_are_notes(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(KEYD_NOTE_MAX);
    const struct checkpoint_request request = request_for(0, 7, LEAVES);
    struct note_key key;
    struct checkpoint checkpoint;
    static struct note note;
    struct error err = {0};

    (void)state;
    assert_int_equal(sign(&request, &text), ERROR_NONE);
    assert_true(note_key_read(bytes_of_text(identify().log_vkey), &key, &err).ok);
    assert_string_equal(key.name, KEYD_DAEMON_ORIGIN);
    assert_true(note_read(buffer_bytes(&text), &note, &err).ok);
    assert_true(note_verify(&note, &key, NULL, &err).ok);
    assert_true(checkpoint_read(note.text, &checkpoint, &err).ok);
    assert_string_equal(checkpoint.origin, KEYD_DAEMON_ORIGIN);
    assert_int_equal(checkpoint.size, 7);
    assert_memory_equal(checkpoint.root.bytes, request.root, 32);
}

static const struct growth_row {
    const char *name;
    uint64_t old_size, size, forked_at; /* after (0, 5) and (5, 100) */
    int64_t clock_s;
    int spoil; /* the hash of the proof that gets a wrong bit; -1: none */
    enum error_kind kind;
} growth_rows[] = {
    {"grows", 100, 333, LEAVES, 0, -1, ERROR_NONE},
    {"the same again", 100, 100, LEAVES, 0, -1, ERROR_NONE},
    {"grows by one", 100, 101, LEAVES, 0, -1, ERROR_NONE},
    {"shrinks", 100, 99, LEAVES, 0, -1, ERROR_FORKED},
    {"shrinks to nothing", 100, 0, LEAVES, 0, -1, ERROR_FORKED},
    {"smaller than what another gateway had signed meanwhile", 5, 99, LEAVES, 0, -1, ERROR_CONFLICT},
    {"another log of the same size", 100, 100, 50, 0, -1, ERROR_FORKED},
    {"a fork before the last size", 100, 333, 99, 0, -1, ERROR_FORKED},
    {"a fork after it is no fork", 100, 333, 100, 0, -1, ERROR_NONE},
    {"a proof from an older size", 5, 333, LEAVES, 0, -1, ERROR_CONFLICT},
    {"a proof from a size never signed", 120, 333, LEAVES, 0, -1, ERROR_CONFLICT},
    {"a proof that says it starts from nothing", 0, 333, LEAVES, 0, -1, ERROR_CONFLICT},
    {"a damaged proof", 100, 333, LEAVES, 0, 0, ERROR_FORKED},
    {"a clock a minute ahead", 100, 333, LEAVES, 70, -1, ERROR_INVALID},
    {"a clock a minute behind", 100, 333, LEAVES, -70, -1, ERROR_INVALID},
    {"a clock at the end of time", 100, 333, LEAVES, INT64_MAX / 2, -1, ERROR_INVALID},
};

static void the_log_only_grows(void **state)
{
    const struct growth_row *row = *state;
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);

    (void)start(NULL);
    assert_int_equal(sign_sizes(0, 5), ERROR_NONE);
    assert_int_equal(sign_sizes(5, 100), ERROR_NONE);
    struct checkpoint_request request = request_for(row->old_size, row->size, row->forked_at);
    request.now_s += row->clock_s;
    if (row->spoil >= 0) request.proof[row->spoil][0] ^= 1;
    assert_int_equal(sign(&request, &note), row->kind);
    assert_int_equal(note.length > 0, row->kind == ERROR_NONE);
    assert_int_equal(identify().log_size, row->kind == ERROR_NONE ? row->size : 100);
    (void)stop(NULL);
}

static void the_last_size_survives(void **state)
{
    (void)state;
    assert_int_equal(sign_sizes(0, 42), ERROR_NONE);
    (void)keyd_daemon_end(&process, SIGTERM);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(identify().log_size, 42);
    assert_int_equal(sign_sizes(42, 7), ERROR_FORKED);
    assert_int_equal(sign_sizes(42, 43), ERROR_NONE);
}

/* Signs until keyd has ended; writes each size with a released signature. */
static void sign_until_killed(int told)
{
    uint64_t size = identify().log_size;

    while (size < LEAVES && sign_sizes(size, size + 1) == ERROR_NONE) {
        size++;
        if (write(told, &size, sizeof size) != (ssize_t)sizeof size) break;
    }
    _exit(0);
}

static uint64_t last_size_told(int from)
{
    uint64_t size = 0, last = 0;

    while (read(from, &size, sizeof size) == (ssize_t)sizeof size) last = size;
    return last;
}

/* One round: returns the last size that was released before the kill, 0 for none. */
static uint64_t sign_and_kill(long pause_ms)
{
    const struct timespec pause = {.tv_nsec = pause_ms * 1000000};
    int told[2];

    assert_int_equal(pipe(told), 0);
    const pid_t signer = fork();
    if (signer == 0) sign_until_killed(told[1]);
    (void)close(told[1]);
    (void)nanosleep(&pause, NULL);
    (void)keyd_daemon_end(&process, SIGKILL);
    const uint64_t last = last_size_told(told[0]);
    (void)close(told[0]);
    (void)waitpid(signer, NULL, 0);
    return last;
}

static void killing_never_takes_a_size_back(void **state)
{
    uint64_t size = 0; /* the last size with a released signature, or the size that keyd reported after a restart */
    bool any = false;

    (void)state;
    for (unsigned round = 0; round < 12 || (!any && round < 100); round++) {
        const uint64_t released = sign_and_kill(15 + 7 * (long)round % 300);
        any = any || released > 0;
        if (released > size) size = released;
        keyd_daemon_start(&process, NULL);
        const struct keyd_identity identity = identify();
        assert_in_range(identity.log_size, size, size + 1); /* +1: durable, but not released */
        const struct checkpoint_request now = request_for(0, identity.log_size, LEAVES);
        if (identity.log_size > 0) assert_memory_equal(identity.log_root, now.root, 32);
        size = identity.log_size;
    }
    assert_true(any);
}

static void a_dead_keyd_is_unavailable_and_comes_back(void **state)
{
    struct keyd_identity identity;
    struct error err = {0};

    (void)state;
    (void)identify();
    (void)keyd_daemon_end(&process, SIGKILL);
    assert_false(keyd_identify(client, &identity, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    keyd_daemon_start(&process, NULL);
    (void)identify();
}

/* ---- how it starts ---- */

static void starting_is_refused_with_a_reason(void **state)
{
    const char *const wrong[] = {"--socket", process.socket, "--passphrase-fd", "0", NULL};
    const char *const right[] = {"--socket", process.socket, "--passphrase-file", process.passphrase, NULL};
    const char *const init[] = {"--init", "--origin", "x/y", "--passphrase-file", process.passphrase, NULL};
    char said[1024];
    int words[2];

    (void)state;
    assert_int_equal(keyd_daemon_run(&process, right, said, sizeof said), 1);
    assert_non_null(strstr(said, "another sijil-keyd runs"));
    assert_int_equal(keyd_daemon_run(&process, init, said, sizeof said), 1);
    assert_non_null(strstr(said, "key ring already"));
    (void)keyd_daemon_end(&process, SIGTERM);

    assert_int_equal(pipe(words), 0);
    assert_int_equal(write(words[1], "wrong\n", 6), 6);
    (void)close(words[1]);
    const int input = dup(STDIN_FILENO);
    (void)dup2(words[0], STDIN_FILENO);
    assert_int_equal(keyd_daemon_run(&process, wrong, said, sizeof said), 2); /* a new start alone does not help */
    (void)dup2(input, STDIN_FILENO);
    (void)close(input);
    (void)close(words[0]);
    assert_non_null(strstr(said, "passphrase does not open"));

    assert_int_equal(chmod(process.passphrase, 0644), 0);
    assert_int_equal(keyd_daemon_run(&process, right, said, sizeof said), 2); /* a new start alone does not help */
    assert_non_null(strstr(said, "chmod 600"));
    assert_int_equal(chmod(process.passphrase, 0600), 0);
    assert_int_equal(chmod(process.directory, 0755), 0);
    assert_int_equal(keyd_daemon_run(&process, right, said, sizeof said), 2); /* a new start alone does not help */
    assert_non_null(strstr(said, "chmod 700"));
    assert_int_equal(chmod(process.directory, 0700), 0);
    assert_int_equal(keyd_daemon_run(&process, (const char *const[]){"--nonsense", NULL}, said, sizeof said), 2);
}

static void it_is_closed_off(void **state)
{
    char path[64], text[4096];

    (void)state;
    (void)identify();
    (void)snprintf(path, sizeof path, "/proc/%d/status", process.pid);
    FILE *status = fopen(path, "re");
    assert_non_null(status);
    text[fread(text, 1, sizeof text - 1, status)] = '\0';
    (void)fclose(status);
    assert_non_null(strstr(text, "Seccomp:\t2"));
    assert_non_null(strstr(text, "NoNewPrivs:\t1"));
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test_setup_teardown(checkpoints_are_notes, start, stop),
        cmocka_unit_test_setup_teardown(the_last_size_survives, start, stop),
        cmocka_unit_test_setup_teardown(killing_never_takes_a_size_back, start, stop),
        cmocka_unit_test_setup_teardown(a_dead_keyd_is_unavailable_and_comes_back, start, stop),
        cmocka_unit_test_setup_teardown(starting_is_refused_with_a_reason, start, stop),
        cmocka_unit_test_setup_teardown(it_is_closed_off, start, stop),
    };

    return RUN_TABLE(growth_rows, the_log_only_grows) + cmocka_run_group_tests_name("the log", others, NULL, NULL);
}

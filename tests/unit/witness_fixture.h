/*
 * tests/unit/witness_fixture.h -- a witness in a folder of its own, and a log with two histories to show it.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/audit_vectors.h"

#include <fcntl.h>
#include <unistd.h>

#include "audit/format/add_checkpoint.h"
#include "base/file.h"
#include "base/memory.h"
#include "crypto/ed25519.h"
#include "witness/answer.h"

#define ORIGIN      "sijil.example/audit"
#define LOG_VKEY    "sijil.example/audit+d589d843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
#define SOME_TIME_S 1767225600 /* of the vector */
#define LEAVES      16

/* The tree of the vectors, and one that has the same first three leaves. */
struct history {
    struct merkle_source source; /* first */
    struct merkle_hash leaves[LEAVES];
};

struct fixture {
    char folder[40];
    int directory;
    struct log_list *list;
    struct witness_identity identity;
    struct witness_state *state;
    struct secret *log_seed;
    struct note_key log_key;
    struct history honest, forked;
};

static inline struct result history_node(struct merkle_source *source, unsigned level, uint64_t index,
                                         struct merkle_hash *hash_out, struct error *err)
{
    const struct history *history = (const struct history *)(const void *)source;

    (void)err;
    *hash_out = tree_hash(history->leaves + (index << level), (uint64_t)1 << level);
    return SUCCESS;
}

static inline void make_history(struct history *history, const char *suffix)
{
    history->source.node = history_node;
    read_tree8(history->leaves);
    for (unsigned i = suffix[0] == '\0' ? 8 : 3; i < LEAVES; i++) {
        char leaf[32]; /* a number and a suffix */
        (void)snprintf(leaf, sizeof leaf, "%u%s", i, suffix);
        merkle_leaf_hash(bytes_of_text(leaf), &history->leaves[i]);
    }
}

static inline struct secret *seed_of(const char *owner)
{
    struct secret *seed = NULL;
    struct error err = {0};
    uint8_t raw[ED25519_SEED_SIZE];

    assert_true(text_from_hex(bytes_of_text(json_text_of(vector(vectors, owner), "seed_hex")), raw, sizeof raw));
    must(secret_copy((struct bytes){raw, sizeof raw}, &seed, &err), &err);
    return seed;
}

static inline void sign_note(const struct fixture *fixture, struct bytes text, struct buffer *note)
{
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    must(ed25519_sign(fixture->log_seed, text, signature, &err), &err);
    must(note_write_text(note, text, &err), &err);
    must(note_write_signature(note, &fixture->log_key, (struct bytes){signature, sizeof signature}, &err), &err);
}

static inline void checkpoint_note(const struct fixture *fixture, const struct history *history, uint64_t size,
                                   struct buffer *note)
{
    struct buffer OWNED_BUFFER text = BUFFER(512);
    struct checkpoint checkpoint = {.size = size, .root = tree_hash(history->leaves, size)};
    struct error err = {0};

    memcpy(checkpoint.origin, ORIGIN, sizeof ORIGIN);
    must(checkpoint_write(&checkpoint, &text, &err), &err);
    sign_note(fixture, buffer_bytes(&text), note);
}

/* A body from `old_size` to `size` of one history. */
static inline void make_body(struct fixture *fixture, struct history *history, uint64_t old_size, uint64_t size,
                             struct buffer *body)
{
    struct buffer OWNED_BUFFER note = BUFFER(2048);
    struct add_checkpoint request = {.old_size = old_size};
    struct error err = {0};

    checkpoint_note(fixture, history, size, &note);
    if (old_size > 0 && old_size <= size)
        must(merkle_prove_consistency(&history->source, old_size, size, &request.proof, &err), &err);
    request.note = buffer_bytes(&note);
    must(add_checkpoint_write(&request, body, &err), &err);
}

static inline void open_state(struct fixture *fixture)
{
    struct error err = {0};

    must(witness_state_open(fixture->directory, fixture->list, &fixture->identity.key, &fixture->state, &err), &err);
}

static inline void close_state(struct fixture *fixture)
{
    witness_state_free(fixture->state);
    fixture->state = NULL;
}

/* The log is accepted, and nothing of it was seen. */
static inline void make_fixture(struct fixture *fixture)
{
    const json_t *own = vector(vectors, "witness_key");
    struct error err = {0};

    *fixture = (struct fixture){.folder = "/tmp/sijil-test-witness.XXXXXX"};
    assert_non_null(mkdtemp(fixture->folder));
    must(file_open(fixture->folder, O_RDONLY | O_DIRECTORY, 0, &fixture->directory, &err), &err);
    must(log_list_read(bytes_of_text("log " LOG_VKEY "\n"), &fixture->list, &err), &err);
    must(note_key_read(bytes_of_text(json_text_of(own, "vkey")), &fixture->identity.key, &err), &err);
    must(note_key_read(bytes_of_text(LOG_VKEY), &fixture->log_key, &err), &err);
    fixture->identity.seed = seed_of("witness_key");
    fixture->log_seed = seed_of("log_key");
    make_history(&fixture->honest, "");
    make_history(&fixture->forked, "forked");
    must(witness_state_accept(fixture->directory, fixture->list, ORIGIN, &err), &err);
    open_state(fixture);
}

static inline void free_fixture(struct fixture *fixture)
{
    char line[80]; /* the folder, and the words around it */

    witness_state_free(fixture->state);
    log_list_free(fixture->list);
    secret_free(fixture->identity.seed);
    secret_free(fixture->log_seed);
    (void)close(fixture->directory);
    (void)snprintf(line, sizeof line, "rm -r '%s'", fixture->folder);
    assert_int_equal(system(line), 0);
}

static inline unsigned submit(struct fixture *fixture, struct bytes body, uint64_t now_s, struct buffer *text)
{
    const struct witness witness = {&fixture->identity, fixture->state};
    struct witness_answer answer = {.text = BUFFER(WITNESS_ANSWER_MAX)};
    struct error err = {0};

    must(witness_add(&witness, body, now_s, &answer, &err), &err);
    assert_true(answer.text.length > 0);
    if (text != NULL) must(buffer_add(text, answer.text.data, answer.text.length, &err), &err);
    assert_string_equal(answer.content_type, answer.status == 409 ? "text/x.tlog.size" : "text/plain; charset=utf-8");
    buffer_done(&answer.text);
    return answer.status;
}

/* Submits what make_body() makes. */
static inline unsigned submit_sizes(struct fixture *fixture, struct history *history, uint64_t old_size, uint64_t size)
{
    struct buffer OWNED_BUFFER body = BUFFER(ADD_CHECKPOINT_MAX);

    make_body(fixture, history, old_size, size, &body);
    return submit(fixture, buffer_bytes(&body), SOME_TIME_S, NULL);
}

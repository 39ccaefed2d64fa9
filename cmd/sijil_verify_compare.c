/* sijil-verify compare: whether two checkpoints are of one log, and the evidence if not. */
#include "cmd/sijil_verify_compare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/add_checkpoint.h"
#include "audit/format/dump.h"
#include "audit/format/fork.h"
#include "audit/format/note.h"
#include "base/file.h"

#define BLOCK_SIZE ((size_t)256 << 10)

/* A checkpoint, with a proof from an older one if the file has one. */
struct side {
    struct buffer content;
    bool has_proof;
    struct add_checkpoint proof;
    struct bytes note;
};

static void side_done(struct side *side)
{
    buffer_done(&side->content);
}
#define OWNED_SIDE __attribute__((cleanup(side_done))) struct side

static struct result as_verdict(struct result checked, struct error *err)
{
    if (!checked.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    return checked;
}

/* Which of the files it is: a request whose token had expired has answered with something else, for example. */
static struct result check_note(const char *name, struct bytes text, struct error *err)
{
    struct error why = {0};
    struct note note;

    if (note_read(text, &note, &why).ok) return SUCCESS;
    return failure(err, ERROR_DENIED, "%.100s is no checkpoint: %.200s", name, why.message);
}

static struct result read_side(const char *name, struct side *side, struct error *err)
{
    static const char beginning[] = "old ";

    TRY(file_read(name, &side->content, err));
    side->note = buffer_bytes(&side->content);
    side->has_proof = strncmp(buffer_text(&side->content), beginning, strlen(beginning)) == 0;
    if (!side->has_proof) return check_note(name, side->note, err);
    TRY(as_verdict(add_checkpoint_read(side->note, &side->proof, err), err));
    side->note = side->proof.note;
    return SUCCESS;
}

/* ---- with a dump ---- */

static struct result add_entry(void *context, const struct dump_record *record, struct error *err)
{
    struct merkle_hash hash;

    (void)err;
    if (record->type != DUMP_ENTRY || record->entry.leaf.length > LEAF_MAX) return SUCCESS;
    if (record->entry.leaf.length > 0) merkle_leaf_hash(record->entry.leaf, &hash);
    else
        memcpy(hash.bytes, record->entry.hash.data,
               sizeof hash.bytes); /* archived; the signed root tells whether it is the true one */
    fork_walk_add(context, &hash);
    return SUCCESS;
}

static struct result read_dump(int fd, const char *name, struct fork_walk *walk, struct error *err)
{
    OWNED(dump_reader) *reader = NULL;
    struct buffer OWNED_BUFFER block = BUFFER(BLOCK_SIZE);
    uint8_t *into = NULL;

    TRY(dump_reader_new(&reader, err));
    TRY(buffer_reserve(&block, BLOCK_SIZE, &into, err));
    for (;;) {
        const ssize_t count = read(fd, into, BLOCK_SIZE);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return failure(err, ERROR_UNAVAILABLE, "%.180s: %s", name, strerror(errno));
        if (count == 0) return as_verdict(dump_reader_end(reader, err), err);
        TRY(as_verdict(dump_reader_feed(reader, (struct bytes){into, (size_t)count}, add_entry, walk, err), err));
    }
}

static struct result prefix_of_dump(const char *name, const struct fork_pair *pair, struct fork_prefix *prefix, struct error *err)
{
    OWNED(fork_walk) *walk = NULL;
    OWNED_FD fd = -1;

    TRY(fork_walk_new(pair, &walk, err));
    TRY(file_open(name, O_RDONLY, 0, &fd, err));
    TRY(read_dump(fd, name, walk, err));
    return as_verdict(fork_walk_end(walk, prefix, err), err);
}

/* ---- with a proof ---- */

static struct result prefix_of_proof(const struct side sides[2], const struct fork_pair *pair, struct fork_prefix *prefix,
                                     struct error *err)
{
    const struct checkpoint *old = &pair->checkpoints[0], *new = &pair->checkpoints[1];

    for (size_t i = 0; i < 2; i++) {
        if (!sides[i].has_proof || sides[i].proof.old_size != old->size || sides[i].note.data != pair->notes[1].data) continue;
        if (fork_prefix_of_proof(pair, &sides[i].proof.proof, prefix)) return SUCCESS;
        *prefix = (struct fork_prefix){old->root, sides[i].proof.proof};
        if (merkle_verify_consistency(old->size, new->size, &old->root, &new->root, &prefix->proof)) return SUCCESS;
        return failure(
            err, ERROR_DENIED,
            "the proof does not lead from the checkpoint of %llu entries to that of %llu, and a proof from this size names no other root: "
            "give the --dump of the longer log",
            (unsigned long long)old->size, (unsigned long long)new->size);
    }
    return failure(
        err, ERROR_DENIED,
        "the checkpoints are of %llu and %llu entries. Give the answer of the registry to GET /api/v1/audit/consistency?old=%llu&size=%llu as the "
        "second file, or the --dump of the longer log",
        (unsigned long long)old->size, (unsigned long long)new->size, (unsigned long long)old->size,
        (unsigned long long)new->size);
}

static struct result find_prefix(const struct compare_request *request, const struct side sides[2], const struct fork_pair *pair,
                                 struct fork_prefix *prefix, struct error *err)
{
    if (request->dump != NULL) return prefix_of_dump(request->dump, pair, prefix, err);
    return prefix_of_proof(sides, pair, prefix, err);
}

static struct result write_evidence(const struct compare_request *request, const struct fork_pair *pair,
                                    const struct fork_prefix *prefix, struct error *err)
{
    struct buffer OWNED_BUFFER evidence = BUFFER(FORK_EVIDENCE_MAX);

    if (request->output == NULL) return SUCCESS;
    TRY(fork_evidence_write(pair, prefix, &evidence, err));
    return file_write_output(request->output, buffer_bytes(&evidence), 0644, err);
}

static struct result check_evidence(const struct compare_request *request, struct buffer *answer, struct error *err)
{
    struct buffer OWNED_BUFFER evidence = BUFFER(FORK_EVIDENCE_MAX);
    struct fork_pair pair;

    TRY(file_read(request->evidence, &evidence, err));
    TRY(as_verdict(fork_evidence_check(bytes_of_text(request->key), buffer_bytes(&evidence), &pair, err), err));
    return fork_report_text(&pair, FORK_PROVEN, answer, err);
}

struct result compare_checkpoints(const struct compare_request *request, struct buffer *answer, bool *is_one_log_out,
                                  struct error *err)
{
    OWNED_SIDE first = {.content = BUFFER(ADD_CHECKPOINT_MAX)};
    OWNED_SIDE second = {.content = BUFFER(ADD_CHECKPOINT_MAX)};
    struct fork_pair pair;
    struct fork_prefix prefix;
    enum fork_verdict verdict = FORK_SAME;

    *is_one_log_out = true;
    if (request->evidence != NULL) return check_evidence(request, answer, err);
    TRY(read_side(request->first, &first, err));
    TRY(read_side(request->second, &second, err));
    TRY(fork_pair_read(bytes_of_text(request->key), first.note, second.note, &pair, err));
    const bool is_long = pair.checkpoints[0].size != pair.checkpoints[1].size;
    const struct side sides[2] = {first, second};
    if (is_long) TRY(find_prefix(request, sides, &pair, &prefix, err));
    TRY(fork_decide(&pair, is_long ? &prefix : NULL, &verdict, err));
    *is_one_log_out = verdict != FORK_PROVEN;
    if (verdict == FORK_PROVEN) TRY(write_evidence(request, &pair, is_long ? &prefix : NULL, err));
    return fork_report_text(&pair, verdict, answer, err);
}

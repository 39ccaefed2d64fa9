#include "witness/answer.h"

#include <string.h>

#include "audit/format/add_checkpoint.h"
#include "base/log.h"
#include "base/memory.h"
#include "crypto/ed25519.h"

#define TEXT_TYPE "text/plain; charset=utf-8"
#define SIZE_TYPE "text/x.tlog.size"

/* One request, as far as it was read. */
struct submission {
    struct add_checkpoint body;
    struct note note;
    struct checkpoint checkpoint;
    struct watched_log *log;
    struct watched_position position;
};

static struct result say(struct witness_answer *answer, unsigned status, const char *why, struct error *err)
{
    answer->status = status;
    answer->content_type = TEXT_TYPE;
    buffer_clear(&answer->text);
    return buffer_format(&answer->text, err, "%.900s\n", why);
}

/* Reads the body. Nothing in it is verified yet. False: it is malformed, and the answer is 400. */
static struct result read_body(struct bytes body, struct submission *submission, struct witness_answer *answer, struct error *err)
{
    struct error why = {0};

    if (add_checkpoint_read(body, &submission->body, &why).ok && note_read(submission->body.note, &submission->note, &why).ok &&
        checkpoint_read(submission->note.text, &submission->checkpoint, &why).ok)
        return SUCCESS;
    if (why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
    return say(answer, 400, why.message, err);
}

static struct result find_log(const struct witness *witness, struct submission *submission, struct witness_answer *answer,
                              struct error *err)
{
    submission->log = witness_state_find(witness->state, submission->checkpoint.origin);
    if (submission->log == NULL) return say(answer, 404, "this witness does not know the log", err);
    if (watched_log_position(submission->log).is_accepted) return SUCCESS;
    return say(
        answer, 404,
        "this witness has no state of the log: it is new here, or the state was lost. Its operator accepts the log from zero with "
        "sijil-witness --accept",
        err);
}

static bool is_by(const struct note_signature *signature, const struct note_key *key)
{
    return bytes_equal(signature->name, bytes_of_text(key->name)) && memcmp(signature->id, key->id, NOTE_KEY_ID_SIZE) == 0;
}

static bool claims(const struct note *note, const struct note_key *key)
{
    for (size_t i = 0; i < note->count; i++)
        if (is_by(&note->signatures[i], key)) return true;
    return false;
}

/* At least one key of the log has signed, and no signature by a key of the log is bad. */
static struct result check_signatures(const struct submission *submission, struct witness_answer *answer, struct error *err)
{
    const struct listed_log *about = watched_log_about(submission->log);
    size_t good = 0;

    for (size_t i = 0; i < about->key_count; i++) {
        struct error why = {0};
        if (!claims(&submission->note, &about->keys[i])) continue;
        if (!note_verify(&submission->note, &about->keys[i], NULL, &why).ok) {
            if (why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
            return say(answer, 403, "a signature of the log is not good", err);
        }
        good++;
    }
    return good > 0 ? SUCCESS : say(answer, 403, "no key of the log has signed the checkpoint", err);
}

/* ---- while no other thread moves the log ---- */

/* NULL: the checkpoint continues what we know. */
static const char *find_fault(const struct submission *submission, bool *is_fork_out)
{
    const struct checkpoint *checkpoint = &submission->checkpoint;
    const struct watched_position *known = &submission->position;
    const struct merkle_hash empty = merkle_empty_root();
    const size_t hashes = submission->body.proof.count;

    if (checkpoint->size == 0 && !merkle_hash_equal(&checkpoint->root, &empty)) return "an empty log has another root";
    if (submission->body.old_size == 0) return hashes == 0 ? NULL : "from an empty log there is no proof: leave it out";
    if (checkpoint->size == known->size) {
        *is_fork_out = !merkle_hash_equal(&checkpoint->root, &known->root);
        if (*is_fork_out) return "the log has signed another root of this size before: it has two histories";
        return hashes == 0 ? NULL : "from a log to itself there is no proof: leave it out";
    }
    if (merkle_verify_consistency(known->size, checkpoint->size, &known->root, &checkpoint->root, &submission->body.proof))
        return NULL;
    return "the proof does not show that the log continues what this witness has cosigned";
}

static struct result sign(const struct witness *witness, struct bytes text, uint64_t time_s, struct buffer *line,
                          struct error *err)
{
    struct buffer OWNED_BUFFER message = BUFFER(CHECKPOINT_TEXT_MAX + 64), payload = BUFFER(8 + ED25519_SIGNATURE_SIZE);
    uint8_t signature[ED25519_SIGNATURE_SIZE];

    TRY(note_cosignature_message(&message, time_s, text, err));
    TRY(ed25519_sign(witness->identity->seed, buffer_bytes(&message), signature, err));
    TRY(buffer_add_u64(&payload, time_s, err));
    TRY(buffer_add(&payload, signature, sizeof signature, err));
    return note_write_signature(line, &witness->identity->key, buffer_bytes(&payload), err);
}

/* The note for monitors: the signatures of the log, verbatim, and ours. Those of strangers are left out, because nobody here checked them. */
static struct result write_note(const struct submission *submission, const struct buffer *line, struct buffer *note,
                                struct error *err)
{
    const struct listed_log *about = watched_log_about(submission->log);

    TRY(note_write_text(note, submission->note.text, err));
    for (size_t i = 0; i < submission->note.count; i++) {
        const struct note_signature *signature = &submission->note.signatures[i];
        bool is_of_log = false;
        for (size_t k = 0; k < about->key_count; k++) is_of_log = is_of_log || is_by(signature, &about->keys[k]);
        if (!is_of_log) continue;
        TRY(buffer_format(note, err, "\xe2\x80\x94 %.*s %.*s\n", (int)signature->name.length, (const char *)signature->name.data,
                          (int)signature->base64.length, (const char *)signature->base64.data));
    }
    return buffer_add(note, line->data, line->length, err);
}

static struct result move(const struct submission *submission, uint64_t time_s, struct bytes note, struct witness_answer *answer,
                          struct error *err)
{
    const struct watched_position next = {
        .is_accepted = true, .size = submission->checkpoint.size, .root = submission->checkpoint.root, .time_s = time_s};
    struct error why = {0};

    if (watched_log_move(submission->log, &next, note, &why).ok) return SUCCESS;
    if (why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
    log_error("the state of a log can't be written: nothing is cosigned for it until the next start", &why);
    return say(answer, 503, "this witness can't write its state", err);
}

/* The time never goes back, so that the newest cosignature is the one with the latest time. */
static struct result cosign(const struct witness *witness, const struct submission *submission, uint64_t now_s,
                            struct witness_answer *answer, struct error *err)
{
    const uint64_t time_s = now_s > submission->position.time_s ? now_s : submission->position.time_s;
    struct buffer OWNED_BUFFER line = BUFFER(WITNESS_ANSWER_MAX), note = BUFFER(ADD_CHECKPOINT_MAX + WITNESS_ANSWER_MAX);

    TRY(sign(witness, submission->note.text, time_s, &line, err));
    TRY(write_note(submission, &line, &note, err));
    TRY(move(submission, time_s, buffer_bytes(&note), answer, err));
    if (answer->status != 0) return SUCCESS;
    answer->status = 200;
    answer->content_type = TEXT_TYPE;
    return buffer_add(&answer->text, line.data, line.length, err);
}

static struct result compare(const struct witness *witness, struct submission *submission, uint64_t now_s,
                             struct witness_answer *answer, struct error *err)
{
    submission->position = watched_log_position(submission->log);
    if (submission->position.is_broken)
        return say(answer, 503, "this witness could not write its state; its operator starts it again", err);
    if (submission->body.old_size != submission->position.size) {
        answer->status = 409;
        answer->content_type = SIZE_TYPE;
        return buffer_format(&answer->text, err, "%llu\n", (unsigned long long)submission->position.size);
    }
    const char *fault = find_fault(submission, &answer->is_fork);
    if (fault != NULL) return say(answer, 422, fault, err);
    return cosign(witness, submission, now_s, answer, err);
}

static struct result decide(const struct witness *witness, struct bytes body, uint64_t now_s, struct submission *submission,
                            struct witness_answer *answer, struct error *err)
{
    TRY(read_body(body, submission, answer, err));
    if (answer->status == 0) TRY(find_log(witness, submission, answer, err));
    if (answer->status == 0) TRY(check_signatures(submission, answer, err));
    if (answer->status == 0 && submission->body.old_size > submission->checkpoint.size)
        TRY(say(answer, 400, "the old size is larger than that of the checkpoint", err));
    if (answer->status != 0) return SUCCESS;
    watched_log_begin(submission->log);
    const struct result compared = compare(witness, submission, now_s, answer, err);
    watched_log_end(submission->log);
    return compared;
}

struct result witness_add(const struct witness *witness, struct bytes body, uint64_t now_s, struct witness_answer *answer,
                          struct error *err)
{
    struct submission *submission = memory_zeroed(1, sizeof *submission); /* too large for the stack */

    if (submission == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    answer->status = 0;
    answer->is_fork = false;
    const struct result decided = decide(witness, body, now_s, submission, answer, err);
    free(submission);
    return decided;
}

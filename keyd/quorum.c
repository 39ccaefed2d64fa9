#include "keyd/quorum.h"

#include <pthread.h>
#include <string.h>

#include "audit/format/checkpoint.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"

struct quorum {
    pthread_mutex_t mutex;
    int64_t started_s;
    unsigned patience_s;
    bool is_open;            /* the quorum has cosigned since the start, or the policy was pinned since */
    uint64_t since_s;        /* of the newest quorum */
    int64_t age_s, taken_ms; /* how old that was when it came, and when it came: clock_monotonic_ms() */
};

struct result quorum_new(unsigned patience_s, struct quorum **quorum_out, struct error *err)
{
    struct quorum *quorum = memory_zeroed(1, sizeof *quorum);

    if (quorum == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the quorum of witnesses");
    (void)pthread_mutex_init(&quorum->mutex, NULL);
    quorum->started_s = clock_wall_ms() / 1000;
    quorum->taken_ms = clock_monotonic_ms();
    quorum->patience_s = patience_s;
    *quorum_out = quorum;
    return SUCCESS;
}

void quorum_free(struct quorum *quorum)
{
    if (quorum == NULL) return;
    (void)pthread_mutex_destroy(&quorum->mutex);
    free(quorum);
}

/* ---- the pin ---- */

static struct result read_policy(const struct quorum_place *place, struct bytes text, struct witness_policy **policy_out,
                                 struct error *err)
{
    OWNED(witness_policy) *policy = NULL;
    struct log_keys keys;

    TRY(witness_policy_read(text, &policy, err));
    log_rotation_keys(place->rotation, &keys);
    if (!witness_policy_is_about(policy, &keys))
        return failure(err, ERROR_INVALID, "the policy of witnesses does not list the key of this log");
    *policy_out = GIVE(policy);
    return SUCCESS;
}

/* The first line of what the root signs: "sijil-witness-policy/v1 ORIGIN EPOCH". */
static struct result read_title(const struct quorum_place *place, struct bytes *payload, uint64_t *epoch_out, struct error *err)
{
    const uint8_t *end = payload->length == 0 ? NULL : memchr(payload->data, '\n', payload->length);
    struct bytes line = {payload->data, end == NULL ? 0 : (size_t)(end - payload->data)};
    const struct bytes title = text_cut(&line, ' '), origin = text_cut(&line, ' ');

    if (end == NULL || !bytes_equal(title, bytes_of_text(WITNESS_POLICY_TITLE)) || !text_to_u64(line, INT64_MAX, epoch_out) ||
        *epoch_out == 0)
        return failure(err, ERROR_INVALID, "the signed policy of witnesses does not begin with %s, an origin and an epoch",
                       WITNESS_POLICY_TITLE);
    if (!bytes_equal(origin, bytes_of_text(log_rotation_registry(place->rotation))))
        return failure(err, ERROR_DENIED, "the signed policy of witnesses is for another log");
    *payload = (struct bytes){end + 1, payload->length - (size_t)(end + 1 - payload->data)};
    return SUCCESS;
}

struct pinning {
    uint8_t digest[SHA256_SIZE];
    uint64_t epoch; /* 0: nobody has signed it */
};

/* The root signs; the text in the envelope must be the policy that the gateway gave. */
static struct result read_envelope(const struct quorum_place *place, const struct keyd_witness_policy *request,
                                   struct pinning *pinning, struct error *err)
{
    OWNED(ecdsa_key) *root = NULL;
    OWNED(dsse) *dsse = NULL;
    struct ledger_state state;

    ledger_read(place->ledger, &state);
    TRY(dsse_read(request->envelope, KEYD_WITNESS_ENVELOPE_MAX, &dsse, err));
    if (strcmp(dsse->payload_type, WITNESS_POLICY_PAYLOAD) != 0)
        return failure(err, ERROR_INVALID, "the signed document is no policy of witnesses");
    if (!ecdsa_key_from_public(state.approver, &root, err).ok)
        return failure(err, ERROR_DENIED, "no root of approvers is pinned that could sign a policy of witnesses");
    TRY(dsse_check_signer(dsse, root, err));
    struct bytes payload = buffer_bytes(&dsse->payload);
    TRY(read_title(place, &payload, &pinning->epoch, err));
    if (bytes_equal(payload, request->policy)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the signed policy of witnesses is another one");
}

static struct result set_pin(const void *context, struct ledger_state *state, struct error *err)
{
    const struct pinning *pinning = context;

    if (memcmp(state->witness_digest, pinning->digest, sizeof pinning->digest) == 0) return SUCCESS;
    if (ledger_has_witnesses(state) && pinning->epoch == 0)
        return failure(err, ERROR_DENIED,
                       "another policy of witnesses is pinned: the root of approvers must sign a new one (docs/witness.md)");
    if (ledger_has_witnesses(state) && pinning->epoch <= state->witness_epoch)
        return failure(err, ERROR_DENIED, "the pinned policy of witnesses has epoch %llu: sign a larger one",
                       (unsigned long long)state->witness_epoch);
    memcpy(state->witness_digest, pinning->digest, sizeof state->witness_digest);
    state->witness_epoch = pinning->epoch;
    return SUCCESS;
}

/* A policy that is pinned for the first time is not held against a log that no witness has seen. A later one is: its quorum has to cosign. */
static void open_first(struct quorum *quorum)
{
    (void)pthread_mutex_lock(&quorum->mutex);
    quorum->is_open = true;
    quorum->age_s = 0;
    quorum->taken_ms = clock_monotonic_ms();
    (void)pthread_mutex_unlock(&quorum->mutex);
}

struct result quorum_pin(const struct quorum_place *place, const struct keyd_witness_policy *request, struct error *err)
{
    OWNED(witness_policy) *policy = NULL;
    struct pinning pinning = {.epoch = 0};
    struct ledger_state before;

    TRY(read_policy(place, request->policy, &policy, err));
    if (request->envelope.length > 0) TRY(read_envelope(place, request, &pinning, err));
    sha256_of(request->policy, pinning.digest);
    ledger_read(place->ledger, &before);
    TRY(ledger_change(place->ledger, set_pin, &pinning, err));
    if (!ledger_has_witnesses(&before)) open_first(place->quorum);
    return SUCCESS;
}

/* ---- cosigned checkpoints ---- */

static struct result judge(const struct quorum_place *place, const struct keyd_cosigned *request,
                           struct checkpoint *checkpoint_out, struct witness_verdict *verdict_out, struct error *err)
{
    OWNED(witness_policy) *policy = NULL;
    struct note *note = NULL;
    struct log_keys keys;

    log_rotation_keys(place->rotation, &keys);
    TRY(read_policy(place, request->policy, &policy, err));
    note = memory_zeroed(1, sizeof *note); /* too large for the stack */
    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    struct result result = note_read(request->note, note, err);
    if (result.ok) result = log_keys_verify(&keys, note, checkpoint_out, NULL, err);
    if (result.ok) result = witness_policy_judge(policy, note, verdict_out, err);
    free(note);
    TRY(result);
    if (verdict_out->is_met) return SUCCESS;
    return failure(err, ERROR_DENIED, "%zu of %zu witnesses have cosigned, and these are no quorum", verdict_out->count,
                   policy->witness_count);
}

/* The log key has signed it, so this keyd, or one with the same key ring and a later ledger, knew this log. */
static struct result check_log(const struct ledger_state *state, const struct checkpoint *checkpoint, struct error *err)
{
    if (checkpoint->size > state->log_size)
        return failure(
            err, ERROR_FORKED,
            "witnesses have cosigned %llu events of the log, and the ledger of sijil-keyd knows %llu: it was set back. "
            "Restore the newest copy of keyd's folder, and the database with it",
            (unsigned long long)checkpoint->size, (unsigned long long)state->log_size);
    if (checkpoint->size == state->log_size && memcmp(checkpoint->root.bytes, state->log_root, sizeof state->log_root) != 0)
        return failure(err, ERROR_FORKED, "witnesses have cosigned another root of %llu events than sijil-keyd has signed",
                       (unsigned long long)state->log_size);
    return SUCCESS;
}

/* With the mutex. */
static struct result check_fresh(const struct quorum *quorum, const struct ledger_state *state,
                                 const struct checkpoint *checkpoint, uint64_t since_s, struct error *err)
{
    const int64_t now_s = clock_wall_ms() / 1000;

    if (since_s > (uint64_t)now_s + QUORUM_AHEAD_MAX_S)
        return failure(err, ERROR_DENIED,
                       "the cosignatures are from the future: the clock of a witness, or of sijil-keyd, is wrong");
    if (quorum->is_open) return SUCCESS;
    if (checkpoint->size != state->log_size)
        return failure(err, ERROR_DENIED, "after a start the last checkpoint must be cosigned, which has %llu events",
                       (unsigned long long)state->log_size);
    if ((int64_t)since_s < quorum->started_s)
        return failure(err, ERROR_DENIED,
                       "the quorum has cosigned the last checkpoint before sijil-keyd was started: ask it again");
    return SUCCESS;
}

/* With the mutex. */
static void note_quorum(struct quorum *quorum, const struct witness_verdict *verdict)
{
    const uint64_t now_s = (uint64_t)(clock_wall_ms() / 1000);
    const uint64_t since_s = verdict->since_s == 0 ? now_s : verdict->since_s; /* none is needed */

    quorum->is_open = true;
    if (since_s <= quorum->since_s) return; /* an old one again */
    quorum->since_s = since_s;
    quorum->age_s = since_s < now_s ? (int64_t)(now_s - since_s) : 0;
    quorum->taken_ms = clock_monotonic_ms();
}

struct judged {
    uint32_t number; /* of the log, before the checkpoint was judged */
    const struct ledger_state *state;
    const struct checkpoint *checkpoint;
    const struct witness_verdict *verdict;
};

/* With the mutex. A recovery closes the quorum after it has changed the ledger: what was cosigned of the log that ended does not open the next one. */
static struct result take_judged(struct quorum *quorum, const struct judged *judged, struct error *err)
{
    const uint64_t since_s = judged->verdict->since_s == 0 ? (uint64_t)(clock_wall_ms() / 1000) : judged->verdict->since_s;

    if (judged->state->log_number != judged->number)
        return failure(err, ERROR_DENIED, "the cosigned checkpoint is of a log that has ended");
    TRY(check_log(judged->state, judged->checkpoint, err));
    TRY(check_fresh(quorum, judged->state, judged->checkpoint, since_s, err));
    note_quorum(quorum, judged->verdict);
    return SUCCESS;
}

struct result quorum_take(const struct quorum_place *place, const struct keyd_cosigned *request, struct error *err)
{
    struct witness_verdict verdict = {0};
    struct checkpoint checkpoint;
    struct ledger_state state;
    uint8_t digest[SHA256_SIZE];

    sha256_of(request->policy, digest);
    ledger_read(place->ledger, &state);
    if (memcmp(digest, state.witness_digest, sizeof digest) != 0)
        return failure(err, ERROR_DENIED, "another policy of witnesses is pinned");
    const uint32_t number = state.log_number;
    TRY(judge(place, request, &checkpoint, &verdict, err));
    (void)pthread_mutex_lock(&place->quorum->mutex);
    ledger_read(place->ledger, &state); /* after the checkpoint was made: the ledger has at least its size */
    const struct result taken = take_judged(place->quorum, &(struct judged){number, &state, &checkpoint, &verdict}, err);
    (void)pthread_mutex_unlock(&place->quorum->mutex);
    return taken;
}

/* ---- what has to wait ---- */

/* A copy of a signature that exists already: the gateway has the last checkpoint cosigned with it. */
static bool is_last_again(const struct keyd_request *request, const struct ledger_state *state)
{
    const struct checkpoint_request *checkpoint = &request->as.checkpoint;

    return request->type == KEYD_CHECKPOINT && checkpoint->size == state->log_size &&
           memcmp(checkpoint->root, state->log_root, sizeof state->log_root) == 0;
}

static bool signs(enum keyd_type type)
{
    static const enum keyd_type types[] = {
        KEYD_CHECKPOINT,        KEYD_TOKEN,           KEYD_PIN_POLICY,  KEYD_PIN_DOCUMENT, KEYD_PIN_SET,
        KEYD_CERTIFY_DELETION,  KEYD_CERTIFY_RUNNER,  KEYD_RUN_ORDER,   KEYD_RUN_LEASE,    KEYD_RUN_ADMISSION,
        KEYD_RUN_REQUEST,       KEYD_CERTIFY_ERASURE, KEYD_BOUND_TOKEN, KEYD_REPLACE_KEY,  KEYD_CURRENT,
        KEYD_CERTIFY_ELSEWHERE, KEYD_PIN_RESTRICTION};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i] == type) return true;
    return false;
}

/* What withdraws a document takes rights away: it must work at once. */
static bool withdraws(const struct document_pin_request *pin)
{
    OWNED(document) *document = NULL;
    struct error why;

    return document_read(pin->envelopes, pin->envelope_count, &document, &why).ok && document->is_withdrawn;
}

static bool changes_rules(const struct keyd_request *request)
{
    if (request->type == KEYD_PIN_DOCUMENT) return !withdraws(&request->as.pin);
    return request->type == KEYD_PIN_POLICY || request->type == KEYD_PIN_SET || request->type == KEYD_RUN_ORDER ||
           request->type == KEYD_RUN_REQUEST || request->type == KEYD_REPLACE_KEY ||
           request->type == KEYD_PIN_RESTRICTION; /* the end of a restriction gives rights */
}

/* With the mutex. */
static bool is_without(const struct quorum *quorum)
{
    return (clock_monotonic_ms() - quorum->taken_ms) / 1000 + quorum->age_s >= (int64_t)quorum->patience_s;
}

struct result quorum_check(const struct quorum_place *place, const struct keyd_request *request, struct error *err)
{
    struct ledger_state state;

    if (!signs(request->type)) return SUCCESS;
    ledger_read(place->ledger, &state);
    if (!ledger_has_witnesses(&state)) return SUCCESS;
    (void)pthread_mutex_lock(&place->quorum->mutex);
    const bool is_closed = !place->quorum->is_open && state.log_size > 0 && !is_last_again(request, &state);
    const bool is_late = is_without(place->quorum);
    (void)pthread_mutex_unlock(&place->quorum->mutex);
    if (is_closed)
        return failure(
            err, ERROR_UNAVAILABLE,
            "sijil-keyd was started, and signs nothing until the quorum of witnesses has cosigned the last checkpoint (%llu "
            "events) again: the gateway asks the witnesses of witness_policy",
            (unsigned long long)state.log_size);
    if (!is_late || !changes_rules(request)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE,
                   "no quorum of witnesses has cosigned the log for %u s: policies, keys and orders are refused until it has",
                   place->quorum->patience_s);
}

void quorum_close(struct quorum *quorum)
{
    (void)pthread_mutex_lock(&quorum->mutex);
    quorum->is_open = false;
    quorum->started_s = clock_wall_ms() / 1000;
    (void)pthread_mutex_unlock(&quorum->mutex);
}

void quorum_read(const struct quorum_place *place, struct keyd_witnesses *witnesses_out)
{
    struct ledger_state state;

    ledger_read(place->ledger, &state);
    (void)pthread_mutex_lock(&place->quorum->mutex);
    *witnesses_out = (struct keyd_witnesses){.is_pinned = ledger_has_witnesses(&state),
                                             .epoch = state.witness_epoch,
                                             .log_size = state.log_size,
                                             .since_s = place->quorum->since_s,
                                             .patience_s = place->quorum->patience_s};
    witnesses_out->awaits = witnesses_out->is_pinned && !place->quorum->is_open && state.log_size > 0;
    witnesses_out->is_without = witnesses_out->is_pinned && is_without(place->quorum);
    (void)pthread_mutex_unlock(&place->quorum->mutex);
    memcpy(witnesses_out->digest, state.witness_digest, sizeof witnesses_out->digest);
    memcpy(witnesses_out->log_root, state.log_root, sizeof witnesses_out->log_root);
}

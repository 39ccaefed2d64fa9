#include "keyd/recovery.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/succession.h"
#include "audit/format/witness_policy.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "keyd/checkpoint.h"

struct signed_statement {
    const struct succession *wanted;
    const struct ledger_state *state;
    int64_t now_ms;
};

/* ---- who has signed ---- */

/* The signatures of a request, as the envelope that crypto/dsse.h checks. */
static struct result make_envelope(const struct keyd_recovery *request, struct dsse **dsse_out, struct error *err)
{
    OWNED(dsse) *dsse = memory_zeroed(1, sizeof *dsse);

    if (dsse == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a signed statement");
    dsse->payload = BUFFER(SUCCESSION_MAX);
    (void)snprintf(dsse->payload_type, sizeof dsse->payload_type, "%s", SUCCESSION_PAYLOAD);
    TRY(buffer_add(&dsse->payload, request->statement.data, request->statement.length, err));
    for (size_t i = 0; i < request->signature_count; i++) {
        memcpy(dsse->signatures[i].bytes, request->signatures[i].data, request->signatures[i].length);
        dsse->signatures[i].length = request->signatures[i].length;
    }
    dsse->signature_count = request->signature_count;
    *dsse_out = GIVE(dsse);
    return SUCCESS;
}

static struct result has_signed(const struct dsse *dsse, const uint8_t point[ECDSA_PUBLIC_SIZE], bool *has_out, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    struct error why;

    *has_out = ecdsa_key_from_public(point, &key, &why).ok && dsse_check_signer(dsse, key, &why).ok;
    return *has_out || why.kind != ERROR_NO_MEMORY ? SUCCESS : failure(err, why.kind, "%s", why.message);
}

/* Where several persons are the root, its key is one person's, who may have an approver's key as well. */
static bool holds_root(const struct ledger_state *state, const struct document_approver *approver)
{
    return state->terms.root > 1 && memcmp(state->terms.holder, approver->principal, DOCUMENT_DIGEST_SIZE) == 0;
}

/* A person with several keys counts once. The root of approvers is a person of its own, unless the policy set says whose it is. */
static struct result check_officers(const struct dsse *dsse, const struct ledger_state *state, int64_t now_ms, unsigned needed,
                                    struct error *err)
{
    const uint8_t *persons[DOCUMENT_APPROVERS_MAX];
    size_t count = 0;
    bool has = false;

    if (ledger_has_approver(state)) TRY(has_signed(dsse, state->approver, &has, err));
    const size_t root = has ? 1 : 0;
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++) {
        const struct document_approver *approver = &state->approvers[i];
        bool is_known = root == 1 && holds_root(state, approver);
        if (!document_approver_counts(approver, now_ms)) continue;
        TRY(has_signed(dsse, approver->point, &has, err));
        for (size_t k = 0; k < count; k++) is_known |= memcmp(persons[k], approver->principal, DOCUMENT_DIGEST_SIZE) == 0;
        if (has && !is_known) persons[count++] = approver->principal;
    }
    if (root + count >= needed && (needed > 1 || root == 1)) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "%zu of %u officers have signed the statement: the root of approvers, and approvers that sijil-keyd has pinned, count, each person once",
        root + count, needed);
}

static struct result check_signatures(const struct recovery_place *place, const struct keyd_recovery *request,
                                      const struct signed_statement *what, struct error *err)
{
    const unsigned officers = what->wanted->officers;
    OWNED(dsse) *dsse = NULL;

    if (officers == 1 && !place->one_officer)
        return failure(
            err, ERROR_DENIED,
            "the statement is for one officer, and two must sign: only sijild --embedded lets one administrator do it alone");
    if (officers < what->state->terms.root) /* as many as change that number; verifiers take it from the statement */
        return failure(err, ERROR_DENIED,
                       "the statement is for %u officers, and the policy set says that the root is %u persons: make another plan",
                       officers, what->state->terms.root);
    TRY(make_envelope(request, &dsse, err));
    return check_officers(dsse, what->state, what->now_ms, officers, err);
}

/* ---- what they have signed ---- */

static struct result judge_witnesses(const struct keyd_recovery *request, const struct note *note,
                                     const struct log_keys *log_keys, const struct ledger_state *state, struct error *err)
{
    OWNED(witness_policy) *policy = NULL;
    struct witness_verdict verdict;
    uint8_t digest[SHA256_SIZE];

    sha256_of(request->policy, digest);
    if (memcmp(digest, state->witness_digest, sizeof digest) != 0)
        return failure(err, ERROR_DENIED, "another policy of witnesses is pinned than the one of the request");
    TRY(witness_policy_read(request->policy, &policy, err));
    return witness_policy_demand(policy, log_keys, note, &verdict, err);
}

/* What witnesses have cosigned may be older than the last signature, and newer if this ledger was set back. */
static bool is_newest(const struct checkpoint *checkpoint, const struct succession *wanted, bool has_witnesses)
{
    if (strcmp(checkpoint->origin, wanted->before.origin) != 0) return false;
    if (checkpoint->size == wanted->before.size) return merkle_hash_equal(&checkpoint->root, &wanted->before.root);
    return has_witnesses || checkpoint->size > wanted->before.size;
}

static struct result check_note(const struct recovery_place *place, const struct keyd_recovery *request,
                                const struct succession *wanted, const struct ledger_state *state, struct note *note,
                                struct error *err)
{
    const bool has_witnesses = ledger_has_witnesses(state);
    struct checkpoint checkpoint;
    struct log_keys keys;

    log_rotation_keys(place->signer.rotation, &keys);
    TRY(note_read(wanted->checkpoint, note, err));
    TRY(log_keys_verify(&keys, note, &checkpoint, NULL, err));
    if (!is_newest(&checkpoint, wanted, has_witnesses))
        return failure(err, ERROR_DENIED, "the checkpoint of the statement is not the newest one of the log that ends");
    return has_witnesses ? judge_witnesses(request, note, &keys, state, err) : SUCCESS;
}

static struct result check_checkpoint(const struct recovery_place *place, const struct keyd_recovery *request,
                                      const struct succession *wanted, const struct ledger_state *state, struct error *err)
{
    struct note *note = memory_zeroed(1, sizeof *note); /* too large for the stack */

    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    const struct result checked = check_note(place, request, wanted, state, note, err);
    free(note);
    return checked;
}

static bool is_at(const struct ledger_state *state, const struct succession_log *log)
{
    return state->log_size == log->size &&
           (log->size == 0 || memcmp(state->log_root, log->root.bytes, sizeof state->log_root) == 0);
}

static struct result check_before(const struct succession *wanted, const struct ledger_state *state, uint64_t number,
                                  struct error *err)
{
    if (number != state->log_number)
        return failure(err, ERROR_CONFLICT, "the statement is about log %llu of this registry, and sijil-keyd signs log %u",
                       (unsigned long long)number, state->log_number);
    if (is_at(state, &wanted->before)) return SUCCESS;
    return failure(
        err, ERROR_CONFLICT,
        "sijil-keyd has signed %llu events last, and the statement says %llu, or another root of them: make another plan",
        (unsigned long long)state->log_size, (unsigned long long)wanted->before.size);
}

/* Whoever has the statement alone learns the new key from it. */
static struct result check_key(const struct succession *wanted, const struct keyring *keyring, size_t place, struct error *err)
{
    const struct note_key *key = keyring_log_key(keyring, place);

    if (memcmp(wanted->key.public_key, key->public_key, sizeof key->public_key) == 0) return SUCCESS;
    return failure(
        err, ERROR_CONFLICT,
        "another key signs the log than the one that the statement names: the log's key has changed since the plan was made. Make another plan");
}

static bool was_taken(const struct succession *wanted, const struct ledger_state *state, uint64_t number)
{
    return state->log_number == number + 1 && is_at(state, &wanted->after);
}

/* ---- what follows ---- */

struct recovering {
    const struct succession *wanted;
    const struct keyring *keyring;
    struct key_register *keys;
    struct replacements *replacements;
    uint64_t number;   /* of the log that ends */
    uint8_t first_key; /* the place of the key that signs now, and begins the next one */
};

/*
 * Officers can't compare the digest of a pin with anything. So a pin of an event that is left stays as it is, none is of an event that is lost, and the
 * policy set is not a later one.
 */
static struct result check_pins(const struct succession *wanted, const struct ledger_state *state, struct error *err)
{
    bool fits = wanted->pins[0].epoch <= state->pins[0].epoch;

    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++) {
        const struct document_pin *known = &state->pins[i], *pin = &wanted->pins[i];
        const bool is_left = i > 0 && known->epoch > 0 && known->epoch < wanted->after.size;
        if (i > 0 && pin->epoch > 0) fits = fits && pin->epoch < wanted->after.size;
        if (is_left || (known->epoch > 0 && pin->epoch == known->epoch))
            fits = fits && pin->epoch == known->epoch && memcmp(pin->digest, known->digest, sizeof pin->digest) == 0;
    }
    if (fits) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "the statement brings documents into force that are not those of the log up to its %llu entries: make another plan",
        (unsigned long long)wanted->after.size);
}

/* What was pinned by events that are lost is in force no more. What was withdrawn by them stays withdrawn: the register of keys forgets nothing. */
static void set_pins(struct ledger_state *state, const struct succession *wanted)
{
    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++) {
        state->pins[i] = wanted->pins[i];
        if (state->asked[i] > wanted->after.size) state->asked[i] = wanted->after.size;
    }
}

static struct result apply(const void *context, struct ledger_state *state, struct error *err)
{
    const struct recovering *recovering = context;
    const struct succession *wanted = recovering->wanted;

    TRY(check_before(wanted, state, recovering->number, err)); /* again, with the lock */
    TRY(check_key(wanted, recovering->keyring, recovering->first_key, err));
    TRY(check_pins(wanted, state, err));
    const struct key_register_past past = {state->pins, wanted->pins, wanted->after.size};
    const size_t officers = document_kind(DOCUMENT_OFFICERS)->number - 1U;
    TRY(replacements_set_back(recovering->replacements, &state->pins[officers], &wanted->pins[officers], err));
    TRY(key_register_set_back(recovering->keys, &past, err));
    state->log_number++;
    state->log_first_key = recovering->first_key;
    state->log_size = wanted->after.size;
    memcpy(state->log_root, wanted->after.root.bytes, sizeof state->log_root);
    memset(state->finding, 0, sizeof state->finding);
    set_pins(state, wanted);
    return SUCCESS;
}

struct result recovery_take(const struct recovery_place *place, const struct keyd_recovery *request, int64_t now_ms,
                            struct error *err)
{
    struct succession wanted;
    struct ledger_state state;

    TRY(succession_read(request->statement, &wanted, err));
    if (strcmp(wanted.registry, keyring_origin(place->signer.keyring)) != 0)
        return failure(err, ERROR_DENIED, "the statement is about another registry");
    ledger_read(place->signer.ledger, &state);
    const struct signed_statement what = {&wanted, &state, now_ms};
    TRY(check_signatures(place, request, &what, err));
    const uint64_t number = succession_number(wanted.before.origin, wanted.registry);
    if (was_taken(&wanted, &state, number)) return check_key(&wanted, place->signer.keyring, state.log_first_key, err);
    TRY(check_before(&wanted, &state, number, err));
    TRY(check_checkpoint(place, request, &wanted, &state, err));
    log_rotation_hold(place->signer.rotation); /* no other key follows meanwhile */
    const struct recovering recovering = {
        &wanted, place->signer.keyring, place->keys, place->replacements, number, log_rotation_newest(place->signer.rotation)};
    const struct result taken = ledger_change(place->signer.ledger, apply, &recovering, err);
    log_rotation_release(place->signer.rotation);
    return taken;
}

struct result recovery_last_checkpoint(const struct checkpoint_signer *signer, int64_t now_ms, struct buffer *note,
                                       struct error *err)
{
    struct checkpoint_request request = {.size = 0};
    const struct merkle_hash empty = merkle_empty_root();
    struct ledger_state state;

    log_rotation_hold(signer->rotation);
    ledger_read(signer->ledger, &state);
    request.size = state.log_size;
    memcpy(request.root, state.log_size == 0 ? empty.bytes : state.log_root, sizeof request.root);
    const struct result composed = checkpoint_compose(signer, state.log_number, &request, now_ms, note, err);
    log_rotation_release(signer->rotation);
    return composed;
}

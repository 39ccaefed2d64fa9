#include "keyd/answer_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "crypto/random.h"
#include "crypto/secret.h"
#include "keyd/checkpoint.h"
#include "keyd/document_pin.h"
#include "keyd/erasure_certificate.h"
#include "keyd/run_sign.h"
#include "keyd/runner_certify.h"
#include "keyd/token.h"
#include "keyd/token_keys.h"
#include "keyd/wrap.h"

static void release(struct scratch *scratch)
{
    secret_wipe(scratch->key, sizeof scratch->key);
    buffer_done(&scratch->text);
}

static void name_versions(const struct keyring *keyring, struct keyd_identity *identity)
{
    const struct keyring_roots *versions = keyring_versions(keyring);

    _Static_assert(KEYRING_ROOTS_MAX <= KEYD_VERSIONS_MAX, "a reply has room for all versions");
    identity->key_version = keyring_version(keyring);
    for (uint32_t i = 0; i < versions->count; i++)
        if (versions->each[i].kind != KEYRING_DESTROYED) identity->versions[identity->version_count++] = versions->each[i].number;
}

static void fill_mints(const struct ledger_state *state, struct keyd_identity *identity)
{
    memcpy(identity->mints, state->mints, sizeof identity->mints);
    memcpy(identity->minters, state->minters, sizeof identity->minters);
    identity->mints_lost = state->mints_lost;
    while (identity->minter_count < MINTERS_MAX && identity->minters[identity->minter_count].count > 0) identity->minter_count++;
}

static struct result answer_identify(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                     struct scratch *scratch, struct error *err)
{
    struct keyd_identity *identity = &reply->as.identity;
    struct ledger_state state;
    struct log_keys keys;

    (void)request;
    log_rotation_keys(keyd->rotation, &keys);
    /* The state is read before the flush, so every count in the reply is durable. Later counts are not in the reply. */
    ledger_read(keyd->ledger, &state);
    TRY(ledger_flush(keyd->ledger, err));
    TRY(note_key_write(log_keys_newest(&keys), &scratch->text, err));
    (void)snprintf(identity->origin, sizeof identity->origin, "%s", keyring_origin(keyd->keyring));
    (void)snprintf(identity->log_vkey, sizeof identity->log_vkey, "%s", buffer_text(&scratch->text));
    ecdsa_key_public(token_keys_at(keyring_token_keys(keyd->keyring), clock_wall_ms() / 1000), identity->token_public);
    ecdsa_thumbprint(identity->token_public, identity->token_kid);
    identity->log_size = state.log_size;
    memcpy(identity->log_root, state.log_root, sizeof identity->log_root);
    identity->policy_epoch = state.pins[0].epoch;
    memcpy(identity->policy_digest, state.pins[0].digest, sizeof identity->policy_digest);
    memcpy(identity->approver_root, state.approver, sizeof identity->approver_root);
    identity->unwrap_count = state.unwrap_count;
    memcpy(identity->unwrap_chain, state.unwrap_chain, sizeof identity->unwrap_chain);
    fill_mints(&state, identity);
    name_versions(keyd->keyring, identity);
    identity->unused_below = state.unused_below;
    ecdsa_key_public(keyring_document_key(keyd->keyring), identity->document_public);
    ecdsa_key_public(keyring_runner_key(keyd->keyring), identity->runner_authority);
    return SUCCESS;
}

static struct result answer_wrap(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                 struct scratch *scratch, struct error *err)
{
    (void)scratch;
    return wrap_data_key(keyd->keyring, &request->as.wrap.binding, request->as.wrap.data_key, &reply->as.wrapped, err);
}

/* Counts each key before it leaves, with its scope and blob. */
static struct result count_unwrap(const struct keyd *keyd, const struct key_binding *binding, struct error *err)
{
    uint8_t memory[256]; /* BINDING_MAX of keyd/wrap.c */
    struct buffer record = {.data = memory, .capacity = sizeof memory, .maximum = sizeof memory - 1};

    TRY(buffer_add_prefixed(&record, uuid_bytes(&binding->scope.organisation), err));
    TRY(buffer_add_prefixed(&record, uuid_bytes(&binding->scope.project), err));
    TRY(buffer_add_prefixed(&record, bytes_of_text(binding->scope.region), err));
    TRY(buffer_add_prefixed(&record, uuid_bytes(&binding->blob), err));
    TRY(buffer_add_prefixed(&record, (struct bytes){binding->commitment, sizeof binding->commitment}, err));
    ledger_count_unwrap(keyd->ledger, buffer_bytes(&record));
    return SUCCESS;
}

static struct result set_unused(const void *context, struct ledger_state *state, struct error *err)
{
    (void)err;
    state->unused_below = *(const uint32_t *)context;
    return SUCCESS;
}

static struct result lower_unused(const void *context, struct ledger_state *state, struct error *err)
{
    const uint32_t version = *(const uint32_t *)context;

    (void)err;
    if (version < state->unused_below) state->unused_below = version; /* another thread may have changed it */
    return SUCCESS;
}

/* A version that is asked for is in use, whatever a gateway said before; older versions may still be unused. */
static struct result note_use(const struct keyd *keyd, uint32_t version, struct error *err)
{
    struct ledger_state state;

    ledger_read(keyd->ledger, &state);
    return version >= state.unused_below ? SUCCESS : ledger_change(keyd->ledger, lower_unused, &version, err);
}

/* The newest epoch may have a lower number than versions that are unused: earlier programs made no epoch with a version. */
static struct result note_epoch(const struct keyd *keyd, uint32_t epoch, struct error *err)
{
    return epoch == keyring_epoch(keyd->keyring) ? SUCCESS : note_use(keyd, epoch, err);
}

static struct result answer_unwrap(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                   struct scratch *scratch, struct error *err)
{
    const struct key_binding *binding = &request->as.unwrap.binding;

    TRY(rate_take(keyd->rate, &binding->scope.project, clock_monotonic_ms(), err));
    TRY(unwrap_data_key(keyd->keyring, binding, &request->as.unwrap.wrapped, scratch->key, err));
    TRY(note_use(keyd, request->as.unwrap.wrapped.version, err));
    TRY(count_unwrap(keyd, binding, err));
    reply->as.data_key = (struct bytes){scratch->key, DATA_KEY_SIZE};
    return SUCCESS;
}

static struct result answer_token(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                  struct scratch *scratch, struct error *err)
{
    const int64_t now_s = clock_wall_ms() / 1000;

    TRY(mint_take(keyd->mints, keyd->ledger, &request->as.token, clock_monotonic_ms(), err));
    TRY(token_sign(keyd->keyring, &request->as.token, now_s, &scratch->text, err));
    reply->as.token.text = buffer_bytes(&scratch->text);
    reply->as.token.issued_at_s = now_s;
    return SUCCESS;
}

#define answer_bound_token answer_token

static struct result answer_nonces(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                   struct scratch *scratch, struct error *err)
{
    struct keyd_nonces *nonces = &reply->as.nonces;

    (void)request, (void)scratch;
    nonces->first = (uint64_t)(clock_wall_ms() / 1000 / KEYD_NONCE_PERIOD_S) - 1;
    for (size_t i = 0; i < KEYD_NONCES_COUNT; i++) TRY(keyring_nonce(keyd->keyring, nonces->first + i, nonces->each[i], err));
    return SUCCESS;
}

static struct result answer_checkpoint(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                       struct scratch *scratch, struct error *err)
{
    const struct checkpoint_signer signer = {keyd->keyring, keyd->ledger, keyd->rotation};

    TRY(checkpoint_sign(&signer, &request->as.checkpoint, clock_wall_ms(), &scratch->text, err));
    reply->as.note = buffer_bytes(&scratch->text);
    return SUCCESS;
}

static struct result answer_subject_index(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                          struct scratch *scratch, struct error *err)
{
    (void)scratch;
    return subject_index(keyd->keyring, request->as.subject_index.issuer, request->as.subject_index.subject, reply->as.index,
                         err);
}

static struct result answer_subject_key_new(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                            struct scratch *scratch, struct error *err)
{
    random_bytes(scratch->key, sizeof scratch->key);
    reply->as.subject_key.key = (struct bytes){scratch->key, sizeof scratch->key};
    return wrap_subject_key(keyd->keyring, request->as.subject_key.index, scratch->key, &reply->as.subject_key.wrapped, err);
}

static struct result answer_subject_key_open(const struct keyd *keyd, const struct keyd_request *request,
                                             struct keyd_reply *reply, struct scratch *scratch, struct error *err)
{
    TRY(unwrap_subject_key(keyd->keyring, request->as.subject_key.index, &request->as.subject_key.wrapped, scratch->key, err));
    TRY(note_epoch(keyd, request->as.subject_key.wrapped.version, err));
    reply->as.subject_key.key = (struct bytes){scratch->key, sizeof scratch->key};
    return SUCCESS;
}

static struct result answer_pin_approver(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                         struct scratch *scratch, struct error *err)
{
    (void)reply, (void)scratch;
    return approver_pin(keyd->ledger, request->as.approver, err);
}

static struct result answer_pin_document(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                         struct scratch *scratch, struct error *err)
{
    const struct document_place place = {keyd->ledger,       keyd->keys,     keyd->ids,          keyd->check_set,
                                         keyd->replacements, keyd->officers, keyd->restrictions, keyd->regions};

    (void)scratch;
    return document_pin(&place, &request->as.pin, clock_wall_ms(), &reply->as.pin, err);
}

#define answer_pin_policy      answer_pin_document
#define answer_pin_set         answer_pin_document
#define answer_pin_restriction answer_pin_document

static struct result answer_documents(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                      struct scratch *scratch, struct error *err)
{
    struct keyd_documents *documents = &reply->as.documents;
    struct ledger_state state;

    (void)request, (void)scratch, (void)err;
    ledger_read(keyd->ledger, &state);
    memcpy(documents->root, state.approver, sizeof documents->root);
    memcpy(documents->pins, state.pins, sizeof documents->pins);
    memcpy(documents->approvers, state.approvers, sizeof documents->approvers);
    return SUCCESS;
}

/* Not counted, because the key does not leave keyd. */
static struct result answer_rewrap(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                   struct scratch *scratch, struct error *err)
{
    (void)scratch;
    TRY(rewrap_data_key(keyd->keyring, &request->as.unwrap.binding, &request->as.unwrap.wrapped, &reply->as.wrapped, err));
    return note_use(keyd, request->as.unwrap.wrapped.version, err);
}

static struct result answer_subject_rewrap(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                           struct scratch *scratch, struct error *err)
{
    (void)scratch;
    TRY(rewrap_subject_key(keyd->keyring, request->as.subject_key.index, &request->as.subject_key.wrapped, &reply->as.wrapped,
                           err));
    return note_epoch(keyd, request->as.subject_key.wrapped.version, err);
}

static struct result answer_versions_unused(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                            struct scratch *scratch, struct error *err)
{
    (void)reply, (void)scratch;
    if (request->as.unused_below > keyring_version(keyd->keyring))
        return failure(err, ERROR_INVALID, "version %u is not there yet", request->as.unused_below);
    return ledger_change(keyd->ledger, set_unused, &request->as.unused_below, err);
}

static struct result set_finding(const void *context, struct ledger_state *state, struct error *err)
{
    (void)err;
    if (state->finding[0] == '\0') (void)snprintf(state->finding, sizeof state->finding, "%s", (const char *)context);
    return SUCCESS;
}

/* Only the first finding is kept, so a gateway that repeats findings causes no writes to the disk. */
static struct result answer_log_forked(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                       struct scratch *scratch, struct error *err)
{
    struct ledger_state state;

    (void)reply, (void)scratch;
    ledger_read(keyd->ledger, &state);
    return state.finding[0] != '\0' ? SUCCESS : ledger_change(keyd->ledger, set_finding, request->as.finding, err);
}

static struct signed_log log_of(const struct keyd *keyd)
{
    struct ledger_state state;

    ledger_read(keyd->ledger, &state);
    return (struct signed_log){keyd->keyring, state.log_number};
}

static struct result answer_certify_erasure(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                            struct scratch *scratch, struct error *err)
{
    const struct signed_log log = log_of(keyd);

    TRY(erasure_certificate_sign(&log, &request->as.erasure, clock_wall_ms(), &scratch->text, err));
    reply->as.envelope = buffer_bytes(&scratch->text);
    return SUCCESS;
}

static struct result answer_certify_runner(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                           struct scratch *scratch, struct error *err)
{
    TRY(runner_certify(keyd, &request->as.chain, clock_wall_ms(), &scratch->text, err));
    reply->as.certificate = buffer_bytes(&scratch->text);
    return SUCCESS;
}

typedef struct result run_signing(const struct run_signer *signer, const struct keyd_run *wanted, struct buffer *envelope,
                                  struct error *err);

static struct result answer_run(const struct keyd *keyd, run_signing *sign, const struct keyd_run *wanted,
                                struct keyd_reply *reply, struct scratch *scratch, struct error *err)
{
    struct buffer OWNED_BUFFER log_key = BUFFER(LOG_KEYS_TEXT_MAX);
    struct run_signer signer = {.key = keyring_document_key(keyd->keyring),
                                .runs = keyd->runs,
                                .keys = keyd->keys,
                                .check_day = keyd->check_run,
                                .restrictions = keyd->restrictions,
                                .now_ms = clock_wall_ms()};
    struct ledger_state state;

    ledger_read(keyd->ledger, &state);
    run_signer_take(&signer, &state);
    TRY(log_rotation_text(keyd->rotation, &log_key, err));
    signer.log_key = buffer_bytes(&log_key);
    TRY(sign(&signer, wanted, &scratch->text, err));
    reply->as.envelope = buffer_bytes(&scratch->text);
    return SUCCESS;
}

/* Nothing of the ledger of pins counts for it, because nothing is below it. */
static struct result answer_run_request(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                        struct scratch *scratch, struct error *err)
{
    struct run_signer signer = {.key = keyring_document_key(keyd->keyring),
                                .origin = keyring_origin(keyd->keyring),
                                .runs = keyd->runs,
                                .now_ms = clock_wall_ms()};

    signer.token_count = token_keys_published(keyring_token_keys(keyd->keyring), signer.now_ms / 1000, signer.tokens);
    TRY(run_sign_request(&signer, &request->as.run_request, &scratch->text, err));
    reply->as.envelope = buffer_bytes(&scratch->text);
    return SUCCESS;
}

static struct result answer_run_order(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                      struct scratch *scratch, struct error *err)
{
    return answer_run(keyd, run_sign_order, &request->as.run, reply, scratch, err);
}

static struct result answer_run_lease(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                      struct scratch *scratch, struct error *err)
{
    return answer_run(keyd, run_sign_lease, &request->as.run, reply, scratch, err);
}

static struct result answer_run_admission(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                          struct scratch *scratch, struct error *err)
{
    return answer_run(keyd, run_sign_admission, &request->as.run, reply, scratch, err);
}

static struct result answer_run_end(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                    struct scratch *scratch, struct error *err)
{
    (void)reply, (void)scratch;
    return run_sign_end(keyd->runs, request->as.ended, clock_wall_ms(), err);
}

static struct quorum_place place_of(const struct keyd *keyd)
{
    return (struct quorum_place){keyd->quorum, keyd->rotation, keyd->ledger};
}

static struct result answer_pin_witnesses(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                          struct scratch *scratch, struct error *err)
{
    const struct quorum_place place = place_of(keyd);

    (void)reply, (void)scratch;
    return quorum_pin(&place, &request->as.witness_policy, err);
}

static struct result answer_cosigned(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                     struct scratch *scratch, struct error *err)
{
    const struct quorum_place place = place_of(keyd);

    (void)reply, (void)scratch;
    return quorum_take(&place, &request->as.cosigned, err);
}

static struct result answer_token_keys(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                       struct scratch *scratch, struct error *err)
{
    const struct ecdsa_key *published[KEYD_TOKEN_KEYS_MAX];

    (void)request, (void)scratch, (void)err;
    reply->as.token_keys.count = token_keys_published(keyring_token_keys(keyd->keyring), clock_wall_ms() / 1000, published);
    for (size_t i = 0; i < reply->as.token_keys.count; i++) ecdsa_key_public(published[i], reply->as.token_keys.each[i]);
    return SUCCESS;
}

static struct result answer_witnesses(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                      struct scratch *scratch, struct error *err)
{
    const struct quorum_place place = place_of(keyd);

    (void)request, (void)scratch, (void)err;
    quorum_read(&place, &reply->as.witnesses);
    return SUCCESS;
}

typedef struct result (*handler)(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                 struct scratch *scratch, struct error *err);
static const handler handlers[] = {
#define X(number, type, name) [number] = answer_##name,
    KEYD_TYPES(X)
#undef X
};

struct result keyd_answer(const struct keyd *keyd, struct bytes message, struct buffer *reply_frame, struct error *err)
{
    struct keyd_request request;
    struct scratch scratch __attribute__((cleanup(release))) = {.text = BUFFER(KEYD_RUN_ENVELOPE_MAX)};
    struct error reason = {0};

    TRY(keyd_request_read(message, &request, err));
    struct keyd_reply reply = {.type = request.type, .id = request.id};
    const struct quorum_place place = place_of(keyd);
    struct result answered = answer_allowed(keyd, &place, &request, &reason);
    if (answered.ok) answered = handlers[request.type](keyd, &request, &reply, &scratch, &reason);
    if (!answered.ok) {
        reply = (struct keyd_reply){.type = KEYD_ERROR, .id = request.id};
        reply.as.error.kind = reason.kind;
        reply.as.error.message = bytes_of_text(reason.message);
    }
    return keyd_reply_write(reply_frame, &reply, err);
}

#include "keyd/run_sign.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/random.h"
#include "keyd/run_sign_priv.h"
#include "training/format/compose.h"

void signing_done(struct signing *signing)
{
    for (size_t i = 0; i < signing->count; i++) run_envelope_free(signing->owned[i]);
    json_decref(signing->json);
    free(signing->event);
}

/* ---- the bundle ---- */

static struct result read_text(struct signing *signing, const char *text, enum run_type type,
                               const struct run_envelope **envelope_out, struct error *err)
{
    if (text == NULL) return failure(err, ERROR_INVALID, "the bundle has no %s", run_type_name(type));
    TRY(run_envelope_read(bytes_of_text(text), type, &signing->owned[signing->count], err));
    *envelope_out = signing->owned[signing->count++];
    return SUCCESS;
}

static struct result read_member(struct signing *signing, enum run_type type, const struct run_envelope **envelope_out,
                                 struct error *err)
{
    if (type >= signing->type) return SUCCESS;
    return read_text(signing, json_text_of(signing->json, run_type_name(type)), type, envelope_out, err);
}

/* The bundle must not have the wanted envelope yet, nor a later one. */
static struct result check_absent(const struct signing *signing, struct error *err)
{
    for (enum run_type type = signing->type; type < RUN_TYPES; type++)
        if (json_object_get(signing->json, run_type_name(type)) != NULL)
            return failure(err, ERROR_INVALID, "the bundle for the wanted %s has a member \"%s\" already",
                           run_type_name(signing->type), run_type_name(type));
    return SUCCESS;
}

/* Of an admission: the other nodes. Of anything else the bundle's own check refuses them, because it has no result yet. */
static struct result read_peers(struct signing *signing, struct error *err)
{
    const json_t *peers = json_object_get(signing->json, "peers");

    if (signing->type != RUN_ADMISSION) return SUCCESS;
    if (json_array_size(peers) > RUN_PEERS_MAX) return failure(err, ERROR_LIMIT, "a run has at most %d nodes", RUN_NODES_MAX);
    for (size_t i = 0; i < json_array_size(peers); i++) {
        const json_t *peer = json_array_get(peers, i);
        TRY(read_text(signing, json_text_of(peer, "lease"), RUN_LEASE, &signing->peers[i].lease, err));
        TRY(read_text(signing, json_text_of(peer, "certificate"), RUN_CERTIFICATE, &signing->peers[i].certificate, err));
        TRY(read_text(signing, json_text_of(peer, "result"), RUN_RESULT, &signing->peers[i].result, err));
    }
    signing->below.peers = signing->peers;
    signing->below.peer_count = json_array_size(peers);
    return SUCCESS;
}

static struct result read_below(struct signing *signing, struct error *err)
{
    struct run_chain *below = &signing->below;
    const json_t *approvals = json_object_get(signing->json, "approvals");

    TRY(read_member(signing, RUN_REQUEST, &below->request, err));
    if (json_array_size(approvals) > RUN_APPROVALS_MAX)
        return failure(err, ERROR_LIMIT, "a run has at most %d approvals", RUN_APPROVALS_MAX);
    for (size_t i = 0; i < json_array_size(approvals); i++) {
        TRY(read_text(signing, json_string_value(json_array_get(approvals, i)), RUN_APPROVAL, &below->approvals[i], err));
        below->approval_count++;
    }
    TRY(read_member(signing, RUN_ORDER, &below->order, err));
    TRY(read_member(signing, RUN_LEASE, &below->lease, err));
    TRY(read_member(signing, RUN_CERTIFICATE, &below->certificate, err));
    TRY(read_member(signing, RUN_RESULT, &below->result, err));
    return read_peers(signing, err);
}

struct result signing_begin(struct signing *signing, struct error *err)
{
    static const uint8_t unset[ECDSA_PUBLIC_SIZE];

    if (memcmp(signing->signer->root, unset, sizeof unset) == 0 || signing->signer->policy.epoch == 0)
        return failure(err, ERROR_DENIED, "no approver and no policy set are pinned yet: nothing proves a key or an order");
    TRY(json_read(signing->wanted->bundle, KEYD_RUN_MAX, &signing->json, err));
    if (!json_is_object(signing->json)) return failure(err, ERROR_INVALID, "the bundle is not an object");
    TRY(check_absent(signing, err));
    return read_below(signing, err);
}

/* ---- promises ---- */

/* The kind is part of the hash, so no two kinds have the same subject. */
static void write_subject(enum run_type type, const char *below, unsigned attempt, unsigned node, uint8_t subject_out[32])
{
    char text[RUN_DIGEST_TEXT + 64]; /* a name and two numbers */

    (void)snprintf(text, sizeof text, "%s %s %u %u", run_type_name(type), below, attempt, node);
    sha256_of(bytes_of_text(text), subject_out);
}

void signing_subject(struct signing *signing, const char *below, unsigned attempt, unsigned node)
{
    write_subject(signing->type, below, attempt, node, signing->promise.subject);
    signing->is_again =
        run_ledger_find(signing->signer->runs, signing->promise.subject, signing->signer->now_ms, &signing->promise);
    if (!signing->is_again) random_bytes(signing->promise.nonce, sizeof signing->promise.nonce);
}

/* An order or lease counts only if this keyd's ledger has it: a signature by a copy of the key does not suffice. */
struct result signing_check_promised(const struct signing *signing, const struct run_envelope *below, const char *subject_of,
                                     unsigned attempt, unsigned node, struct error *err)
{
    uint8_t subject[32], digest[32];
    struct run_promise promise;

    write_subject(below->type, subject_of, attempt, node, subject);
    run_digest_bytes(below, digest);
    if (run_ledger_find(signing->signer->runs, subject, signing->signer->now_ms, &promise) &&
        memcmp(promise.digest, digest, sizeof digest) == 0)
        return SUCCESS;
    return failure(err, ERROR_DENIED, "the %s is not in the ledger of sijil-keyd, or has expired: start the run again",
                   run_type_name(below->type));
}

/*
 * A key of a person, approver or runner counts only with a document that this keyd has pinned. Its event in the log is not enough: keyd may have
 * refused the document, because of its owner, or because an approver of it was withdrawn. Withdrawals only take away, so they need no pin.
 */
static struct result check_pinned(const struct signing *signing, const struct run_bundle *bundle, struct error *err)
{
    for (size_t i = 0; i < bundle->keys.count; i++) {
        const struct run_key *key = &bundle->keys.each[i];
        if (key->document->is_withdrawn) continue;
        TRY(key_register_check_enrolment(signing->signer->keys, key->document, key->sequence, err));
    }
    return SUCCESS;
}

struct result signing_check_whole(const struct signing *signing, struct run_bundle **bundle_out, struct error *err)
{
    const struct run_signer *signer = signing->signer;
    struct buffer OWNED_BUFFER text = BUFFER(KEYD_RUN_MAX + 4 * RUN_ENVELOPE_MAX);
    struct run_trust trust = {.log_key = signer->log_key, .keyd = signer->key};
    OWNED(run_bundle) *bundle = NULL;

    memcpy(trust.root, signer->root, sizeof trust.root);
    TRY(json_write_canonical(&text, signing->json, err));
    TRY(run_bundle_check(buffer_bytes(&text), &trust, &bundle, err));
    TRY(check_pinned(signing, bundle, err));
    *bundle_out = GIVE(bundle);
    return SUCCESS;
}

/* Signs the payload, and adds the envelope to the bundle. */
struct result signing_add(struct signing *signing, struct bytes payload, struct buffer *envelope, struct error *err)
{
    const struct run_envelope *made = NULL;

    TRY(run_sign(signing->type, payload, signing->signer->key, envelope, err));
    TRY(read_text(signing, buffer_text(envelope), signing->type, &made, err));
    if (json_object_set_new(signing->json, run_type_name(signing->type), json_string(buffer_text(envelope))) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for an envelope of a run");
    uint8_t digest[32];
    run_digest_bytes(made, digest);
    if (signing->is_again && memcmp(digest, signing->promise.digest, sizeof digest) != 0)
        return failure(err, ERROR_CONFLICT, "another %s was signed for this already: only the very same is signed again",
                       run_type_name(signing->type));
    memcpy(signing->promise.digest, digest, sizeof digest);
    return SUCCESS;
}

/*
 * The last step: the promise is durable before the envelope leaves. Two gateways may ask for the same at the same moment, and each gets its own
 * nonce and times: the later one gets no envelope, and asks again.
 */
struct result signing_release(struct signing *signing, const struct buffer *made, struct buffer *envelope, struct error *err)
{
    const struct run_signer *signer = signing->signer;
    const bool is_first = signing->type <= RUN_ORDER; /* a request, or an order */
    struct run_follows follows = {.is_last = signing->type == RUN_ADMISSION};
    struct error why = {0};

    if (!is_first) write_subject(RUN_ORDER, signing->below.request->digest, 0, 0, follows.order);
    if (!signing->is_again &&
        !run_ledger_keep(signer->runs, &signing->promise, is_first ? NULL : &follows, signer->now_ms, &why).ok)
        return why.kind == ERROR_CONFLICT
                   ? failure(err, ERROR_UNAVAILABLE, "this was signed for another request just now: ask again")
                   : failure(err, why.kind, "%s", why.message);
    return buffer_add(envelope, made->data, made->length, err);
}

/* ---- order ---- */

static struct result read_event(struct signing *signing, struct error *err)
{
    const json_t *event = json_object_get(signing->json, "event");
    const char *entry = json_text_of(event, "entry"), *proof = json_text_of(event, "proof");

    if (entry == NULL || proof == NULL) return failure(err, ERROR_INVALID, "the bundle has no event");
    signing->event = memory_zeroed(1, sizeof *signing->event);
    if (signing->event == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the event of an order");
    return proof_check(signing->signer->log_key, bytes_of_text(entry), bytes_of_text(proof), signing->event, err);
}

static struct result check_policy(const struct signing *signing, struct error *err)
{
    const struct run_signer *signer = signing->signer;
    char digest[RUN_DIGEST_TEXT] = "sha256:";

    text_hex(signer->policy.digest, sizeof signer->policy.digest, digest + strlen(digest));
    if (strcmp(signing->event->event.reason.policy, digest) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the event was decided under another policy set than the one in force: decide again");
}

static struct result check_request_now(const struct signing *signing, struct error *err)
{
    const struct run_envelope *request = signing->below.request;
    const int64_t now_ms = signing->signer->now_ms;

    if (run_time(request, "issued_at") < run_ledger_since_ms(signing->signer->runs))
        return failure(err, ERROR_DENIED, "the request is older than the ledger of sijil-keyd: ask for the run again");
    if (run_time(request, "expires") <= now_ms)
        return failure(err, ERROR_DENIED, "the request has expired: ask for the run again");
    return SUCCESS;
}

static struct result write_order(struct signing *signing, struct buffer *payload, struct error *err)
{
    const struct keyd_run *wanted = signing->wanted;
    char root[HEX_32], policy[RUN_DIGEST_TEXT] = "sha256:", nonce[33];
    OWNED_JSON jurisdictions = json_array();

    for (size_t i = 0; i < wanted->jurisdiction_count; i++)
        if (json_array_append_new(
                jurisdictions, json_stringn((const char *)wanted->jurisdictions[i].data, wanted->jurisdictions[i].length)) != 0)
            return failure(err, ERROR_INVALID, "a jurisdiction is not a name such as AE");
    text_hex(signing->event->checkpoint.root.bytes, 32, root);
    text_hex(signing->signer->policy.digest, 32, policy + strlen(policy));
    text_hex(signing->promise.nonce, sizeof signing->promise.nonce, nonce);
    const struct run_order_parts parts = {.jurisdictions = jurisdictions,
                                          .approvals = wanted->approvals,
                                          .signed_request = wanted->signed_request,
                                          .epoch = (int64_t)signing->signer->policy.epoch,
                                          .policy = policy,
                                          .decision = signing->event->event.reason.decision,
                                          .event_number = (int64_t)signing->event->index,
                                          .log_size = (int64_t)signing->event->checkpoint.size,
                                          .log_root = root,
                                          .attempts = wanted->attempts,
                                          .nonce = nonce,
                                          .not_before_ms = signing->promise.from_ms,
                                          .expires_ms = signing->promise.until_ms};
    return run_order_write(&signing->below, &parts, payload, err);
}

/* A key that was in force at the event may have expired or been withdrawn since. */
static struct result check_person_now(const struct signing *signing, const struct run_bundle *bundle,
                                      const struct run_envelope *envelope, const char *who, struct error *err)
{
    const struct run_use use = {.principal = run_text(envelope, who),
                                .project = run_text(signing->below.request, "project"),
                                .sequence = UINT64_MAX,
                                .time_ms = signing->signer->now_ms,
                                .is_approval = envelope->type == RUN_APPROVAL};
    OWNED(ecdsa_key) *key = NULL;

    TRY(key_register_check(signing->signer->keys, envelope->dsse->signatures[0].keyid, err));
    return run_keys_person(&bundle->keys, envelope->dsse->signatures[0].keyid, &use, &key, err);
}

static struct result check_persons_now(const struct signing *signing, const struct run_bundle *bundle, struct error *err)
{
    const struct run_chain *below = &signing->below;

    if (run_member(below->request, "claims") == NULL) TRY(check_person_now(signing, bundle, below->request, "requester", err));
    if (run_is_of_rule(below->request)) TRY(signing_check_rule(signing, bundle, err));
    for (size_t i = 0; i < below->approval_count; i++)
        TRY(check_person_now(signing, bundle, below->approvals[i], "approver", err));
    return SUCCESS;
}

void signing_set_share(struct signing *signing, struct bytes project)
{
    const uint8_t *slash = memchr(project.data, '/', project.length);
    struct bytes organisation = project;

    if (slash != NULL) organisation.length = (size_t)(slash - project.data);
    signing->promise.organisation = run_ledger_share(organisation);
    signing->promise.project = run_ledger_share(project);
}

static int64_t earlier(int64_t first_ms, int64_t second_ms)
{
    return first_ms < second_ms ? first_ms : second_ms;
}

struct result run_sign_order(const struct run_signer *signer, const struct keyd_run *wanted, struct buffer *envelope,
                             struct error *err)
{
    OWNED_SIGNING signing = {.signer = signer, .wanted = wanted, .type = RUN_ORDER};
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX), made = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_bundle) *bundle = NULL;

    TRY(signing_begin(&signing, err));
    TRY(read_event(&signing, err));
    TRY(check_policy(&signing, err));
    TRY(check_request_now(&signing, err));
    const int64_t ends_ms = run_time(signing.below.request, "expires");
    signing_subject(&signing, signing.below.request->digest, 0, 0);
    if (!signing.is_again) {
        signing.promise.from_ms = signer->now_ms;
        signing.promise.until_ms = earlier(ends_ms, signer->now_ms + (int64_t)wanted->lifetime_s * 1000);
        signing.promise.keep_ms = ends_ms + ADMISSION_WAIT_MS; /* while it is valid, the request gets no other order */
        signing.promise.reserves = (uint32_t)(wanted->attempts * run_integer(signing.below.request, "spec.nodes")) + 1;
        signing_set_share(&signing, bytes_of_text(run_text(signing.below.request, "project")));
        signing.promise.principal = run_ledger_share(bytes_of_text(run_text(signing.below.request, "requester")));
    }
    TRY(write_order(&signing, &payload, err));
    TRY(signing_add(&signing, buffer_bytes(&payload), &made, err));
    TRY(signing_check_whole(&signing, &bundle, err));
    TRY(check_persons_now(&signing, bundle, err));
    return signing_release(&signing, &made, envelope, err);
}

struct result run_sign_end(struct run_ledger *runs, const uint8_t request[32], int64_t now_ms, struct error *err)
{
    char digest[RUN_DIGEST_TEXT] = "sha256:";
    uint8_t subject[32];

    text_hex(request, 32, digest + strlen(digest));
    write_subject(RUN_ORDER, digest, 0, 0, subject);
    return run_ledger_end(runs, subject, now_ms, err);
}

/* ---- lease ---- */

static struct result check_order_now(const struct signing *signing, struct error *err)
{
    const struct run_envelope *order = signing->below.order;

    TRY(signing_check_promised(signing, order, signing->below.request->digest, 0, 0, err));
    if (run_time(order, "expires") > signing->signer->now_ms) return SUCCESS;
    return failure(err, ERROR_DENIED, "the order has expired: ask for the run again");
}

/* The runner's id comes from its document, and not from the gateway. */
static struct result find_runner(const struct signing *signing, const struct run_trust *trust, const char *key,
                                 char id_out[UUID_TEXT_SIZE], struct error *err)
{
    struct run_keys keys = {.count = 0};
    struct runner_key runner;
    const int64_t now_ms = signing->signer->now_ms;
    const struct run_runner_use use = {run_text(signing->below.request, "project"), now_ms, now_ms};

    struct result found = run_keys_read(json_object_get(signing->json, "documents"), trust, &keys, err);
    if (found.ok) found = run_keys_runner(&keys, key, &use, &runner, err);
    if (found.ok) uuid_format(&runner.runner, id_out);
    run_keys_done(&keys);
    return found;
}

static struct result write_lease(const struct signing *signing, struct buffer *payload, struct error *err)
{
    const struct run_signer *signer = signing->signer;
    struct run_trust trust = {.log_key = signer->log_key, .keyd = signer->key};
    char id[UUID_TEXT_SIZE], nonce[33], key[ECDSA_THUMBPRINT_SIZE];

    memcpy(trust.root, signer->root, sizeof trust.root);
    (void)snprintf(key, sizeof key, "%.*s", (int)signing->wanted->key.length, (const char *)signing->wanted->key.data);
    TRY(key_register_check(signer->keys, key, err));
    TRY(find_runner(signing, &trust, key, id, err));
    text_hex(signing->promise.nonce, sizeof signing->promise.nonce, nonce);
    const struct run_lease_parts parts = {.attempt = signing->wanted->attempt,
                                          .node = signing->wanted->node,
                                          .runner = id,
                                          .key = key,
                                          .nonce = nonce,
                                          .not_before_ms = signing->promise.from_ms,
                                          .expires_ms = signing->promise.until_ms};
    return run_lease_write(signing->below.order, &parts, payload, err);
}

static struct result check_documents(const struct signing *signing, struct error *err)
{
    OWNED(run_bundle) *bundle = NULL;

    return signing_check_whole(signing, &bundle, err);
}

struct result run_sign_lease(const struct run_signer *signer, const struct keyd_run *wanted, struct buffer *envelope,
                             struct error *err)
{
    OWNED_SIGNING signing = {.signer = signer, .wanted = wanted, .type = RUN_LEASE};
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX), made = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_bundle) *bundle = NULL;

    TRY(signing_begin(&signing, err));
    TRY(check_order_now(&signing, err));
    TRY(check_documents(&signing, err)); /* the shape, before its members are used */
    const int64_t ends_ms = run_time(signing.below.order, "expires");
    signing_subject(&signing, signing.below.order->digest, wanted->attempt, wanted->node);
    if (!signing.is_again) {
        signing.promise.from_ms = signer->now_ms;
        signing.promise.until_ms = earlier(ends_ms, signer->now_ms + (int64_t)wanted->lifetime_s * 1000);
        signing.promise.keep_ms = ends_ms + ADMISSION_WAIT_MS;
    }
    TRY(write_lease(&signing, &payload, err));
    TRY(signing_add(&signing, buffer_bytes(&payload), &made, err));
    TRY(signing_check_whole(&signing, &bundle, err));
    TRY(signing_check_day(&signing, bundle, err));
    return signing_release(&signing, &made, envelope, err);
}

#include "training/format/bundle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/succession.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "training/format/form.h"
#include "training/format/shapes.h"

#define ORDER_ACTION  "run.order"
#define RESOURCE_SIZE 512 /* a project, a digest and a UUID: 365 at most */

/* ---- envelopes ---- */

static struct result read_one(struct run_bundle *bundle, const char *text, enum run_type type,
                              const struct run_envelope **envelope_out, struct error *err)
{
    struct run_envelope *envelope = NULL;

    TRY(run_envelope_read(bytes_of_text(text), type, &envelope, err));
    bundle->envelopes[bundle->envelope_count++] = envelope;
    *envelope_out = envelope;
    return SUCCESS;
}

static struct result read_named(struct run_bundle *bundle, enum run_type type, const struct run_envelope **envelope_out,
                                struct error *err)
{
    const char *text = json_text_of(bundle->json, run_type_name(type));

    return text == NULL ? SUCCESS : read_one(bundle, text, type, envelope_out, err);
}

static struct result read_peers(struct run_bundle *bundle, struct error *err)
{
    const json_t *peers = json_object_get(bundle->json, "peers");
    struct run_chain *chain = &bundle->chain;

    if (peers != NULL && chain->result == NULL)
        return failure(err, ERROR_INVALID, "the bundle has peers, and no result of node 0");
    for (size_t i = 0; i < json_array_size(peers); i++) {
        const json_t *peer = json_array_get(peers, i);
        TRY(read_one(bundle, json_text_of(peer, "lease"), RUN_LEASE, &bundle->peers[i].lease, err));
        TRY(read_one(bundle, json_text_of(peer, "certificate"), RUN_CERTIFICATE, &bundle->peers[i].certificate, err));
        TRY(read_one(bundle, json_text_of(peer, "result"), RUN_RESULT, &bundle->peers[i].result, err));
    }
    chain->peers = bundle->peers;
    chain->peer_count = json_array_size(peers);
    return SUCCESS;
}

static struct result read_envelopes(struct run_bundle *bundle, struct error *err)
{
    const json_t *approvals = json_object_get(bundle->json, "approvals");
    struct run_chain *chain = &bundle->chain;

    TRY(read_named(bundle, RUN_REQUEST, &chain->request, err));
    for (size_t i = 0; i < json_array_size(approvals); i++) {
        TRY(read_one(bundle, json_string_value(json_array_get(approvals, i)), RUN_APPROVAL, &chain->approvals[i], err));
        chain->approval_count++;
    }
    TRY(read_named(bundle, RUN_ORDER, &chain->order, err));
    TRY(read_named(bundle, RUN_LEASE, &chain->lease, err));
    TRY(read_named(bundle, RUN_CERTIFICATE, &chain->certificate, err));
    TRY(read_named(bundle, RUN_RESULT, &chain->result, err));
    TRY(read_named(bundle, RUN_ADMISSION, &chain->admission, err));
    TRY(read_named(bundle, RUN_REFUSAL, &chain->refusal, err));
    TRY(read_peers(bundle, err));
    if (chain->refusal != NULL && chain->result != NULL)
        return failure(err, ERROR_INVALID, "a bundle has either a result or a refusal");
    if (((chain->certificate == NULL && chain->refusal == NULL) || chain->lease != NULL) &&
        (chain->result == NULL || chain->certificate != NULL) && (chain->admission == NULL || chain->result != NULL))
        return SUCCESS;
    return failure(err, ERROR_INVALID, "the bundle lacks an envelope before its last one");
}

/* ---- the event ---- */

/* The order's checkpoint covers the event. When keyd signed the proof's later checkpoint, it checked that the log there continues
 * the log of the order's checkpoint. */
static struct result check_checkpoint(const struct run_bundle *bundle, struct error *err)
{
    const struct run_envelope *order = bundle->chain.order;
    const struct checkpoint *proven = &bundle->event.checkpoint;
    const int64_t size = run_integer(order, "event.size");
    char root[2 * MERKLE_HASH_SIZE + 1];

    text_hex(proven->root.bytes, MERKLE_HASH_SIZE, root);
    if (run_integer(order, "event.number") >= size || (uint64_t)size > proven->size)
        return failure(err, ERROR_DENIED, "the order's checkpoint does not cover its event, or is newer than the bundle's");
    if ((uint64_t)size < proven->size || strcmp(root, run_text(order, "event.root")) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the order's root is not the root that the log had at the order's size");
}

static struct result check_event(struct run_bundle *bundle, const struct run_trust *trust, struct error *err)
{
    const json_t *event = json_object_get(bundle->json, "event");
    const struct run_envelope *order = bundle->chain.order;
    const struct leaf *leaf = &bundle->event.event;
    char resource[RESOURCE_SIZE];

    TRY(proof_check_cosigned(&(struct proof_trust){trust->log_key, trust->policy}, bytes_of_text(json_text_of(event, "entry")),
                             bytes_of_text(json_text_of(event, "proof")), &bundle->event, err));
    (void)snprintf(resource, sizeof resource, "%s#%s %s", run_text(order, "project"), run_text(order, "request"),
                   run_text(order, "run"));
    if (!bundle->event.is_event || leaf->target_count != 1 || strcmp(leaf->outcome, "allowed") != 0 ||
        strcmp(leaf->targets[0].action, ORDER_ACTION) != 0 || strcmp(leaf->targets[0].resource, resource) != 0)
        return failure(err, ERROR_DENIED, "the entry of the log is not the event of this order");
    if (succession_number(bundle->event.checkpoint.origin, run_text(order, "audience")) == 0)
        return failure(err, ERROR_DENIED, "the order is for another registry than that of the given key");
    if ((int64_t)bundle->event.index != run_integer(order, "event.number"))
        return failure(err, ERROR_DENIED, "the order names another event than the one that comes with it");
    TRY(check_checkpoint(bundle, err));
    if (strcmp(leaf->reason.decision, run_text(order, "policy.decision")) == 0 &&
        strcmp(leaf->reason.policy, run_text(order, "policy.digest")) == 0)
        return SUCCESS;
    return failure(err, ERROR_DENIED, "the order names another decision or policy set than its event");
}

/* ---- signers ---- */

static struct result check_person(const struct run_bundle *bundle, const struct run_envelope *envelope, const char *who,
                                  struct error *err)
{
    const struct run_use use = {.principal = run_text(envelope, who),
                                .project = run_text(bundle->chain.request, "project"),
                                .sequence = bundle->event.index,
                                .time_ms = bundle->event.event.time_ms,
                                .is_approval = envelope->type == RUN_APPROVAL};
    OWNED(ecdsa_key) *key = NULL;

    TRY(run_keys_person(&bundle->keys, envelope->dsse->signatures[0].keyid, &use, &key, err));
    return run_check_signer(envelope, key, err);
}

static bool is_among(const json_t *list, const json_t *text)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), text)) return true;
    return false;
}

/*
 * The latest time at which the runner's key can have signed, or may sign under the lease. The times in the runner's own envelopes prove nothing: a thief of
 * the key would choose times before the withdrawal.
 */
static int64_t last_use_ms(const struct run_chain *chain, const struct run_envelope *lease)
{
    if (chain->admission != NULL) return run_time(chain->admission, "predicate.timeVerified");
    return run_time(lease, "expires");
}

int64_t run_bundle_assurance(const struct run_bundle *bundle)
{
    int64_t lowest = bundle->runner.assurance;

    for (size_t i = 0; i < bundle->chain.peer_count; i++)
        if (bundle->others[i].assurance < lowest) lowest = bundle->others[i].assurance;
    return lowest;
}

static struct result check_level(const struct run_bundle *bundle, struct error *err)
{
    const char *level = json_string_value(json_array_get(run_member(bundle->chain.admission, "predicate.verifiedLevels"), 0));
    const int64_t lowest = run_bundle_assurance(bundle);

    if (strncmp(level, RUN_LEVEL, strlen(RUN_LEVEL)) == 0 && level[strlen(RUN_LEVEL)] - '0' == lowest) return SUCCESS;
    return failure(err, ERROR_DENIED, "admission: its level is not the assurance of the runner, %lld", (long long)lowest);
}

/* A runner is in several jurisdictions at once, and nobody can tell in which of them a byte lies: the order must allow each. */
static struct result check_jurisdictions(const struct run_envelope *order, const struct runner_key *runner, struct error *err)
{
    const json_t *allowed = run_member(order, "jurisdictions");

    for (size_t i = 0; i < json_array_size(runner->jurisdictions); i++) {
        const json_t *own = json_array_get(runner->jurisdictions, i);
        if (!is_among(allowed, own))
            return failure(err, ERROR_DENIED, "the runner is in %.32s, where the order does not allow it",
                           json_string_value(own));
    }
    return SUCCESS;
}

/* The runner's document, which approvers have signed, must fit the order. */
static struct result check_fit(const struct run_envelope *order, const struct run_envelope *lease,
                               const struct runner_key *runner, struct error *err)
{
    struct uuid id;

    if (!uuid_parse(bytes_of_text(run_text(lease, "runner.id")), &id) || !uuid_equal(&id, &runner->runner) ||
        strcmp(runner->pool, run_text(order, "spec.pool")) != 0)
        return failure(err, ERROR_DENIED, "the lease's runner is another one, or of another pool");
    TRY(check_jurisdictions(order, runner, err));
    if (runner->assurance < run_integer(order, "spec.assurance") ||
        form_isolation_rank(runner->isolation) < form_isolation_rank(run_text(order, "spec.isolation")))
        return failure(err, ERROR_DENIED, "the runner's assurance or isolation is below the order's");
    if (runner->devices < json_integer_value(run_member(order, "spec.devices.count")))
        return failure(err, ERROR_DENIED, "the runner has fewer devices than the order demands");
    return SUCCESS;
}

/* The runner of a lease, and what it has signed. A result is signed by the key of its certificate (run_chain_check()). */
static struct result check_runner(const struct run_bundle *bundle, const struct run_peer *node,
                                  const struct run_envelope *refusal, struct runner_key *runner_out, struct error *err)
{
    const struct run_chain *chain = &bundle->chain;
    const struct run_envelope *lease = node->lease;
    const struct run_runner_use use = {.project = run_text(chain->order, "project"),
                                       .from_ms = run_time(lease, "not_before"),
                                       .until_ms = last_use_ms(chain, lease)};
    OWNED(ecdsa_key) *key = NULL;

    TRY(run_keys_runner(&bundle->keys, run_text(lease, "runner.key"), &use, runner_out, err));
    TRY(check_fit(chain->order, lease, runner_out, err));
    TRY(ecdsa_key_from_public(runner_out->point, &key, err));
    if (node->certificate != NULL) TRY(run_check_signer(node->certificate, key, err));
    return refusal == NULL ? SUCCESS : run_check_signer(refusal, key, err);
}

static struct result check_peer(const struct run_bundle *bundle, const struct run_trust *trust, size_t index, struct error *err)
{
    const struct run_peer *peer = &bundle->peers[index];

    TRY(run_check_signer(peer->lease, trust->keyd, err));
    return check_runner(bundle, peer, NULL, &bundle->others[index], err);
}

static struct result check_peers(struct run_bundle *bundle, const struct run_trust *trust, struct error *err)
{
    struct error why = {0};

    bundle->others = memory_zeroed(bundle->chain.peer_count + 1, sizeof *bundle->others);
    if (bundle->others == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the nodes of a bundle");
    for (size_t i = 0; i < bundle->chain.peer_count; i++)
        if (!check_peer(bundle, trust, i, &why).ok) return failure(err, why.kind, "node %zu: %.230s", i + 1, why.message);
    return SUCCESS;
}

static struct result check_runners(struct run_bundle *bundle, const struct run_trust *trust, struct error *err)
{
    const struct run_chain *chain = &bundle->chain;

    const struct run_peer first = {chain->lease, chain->certificate, chain->result};

    TRY(run_check_signer(chain->lease, trust->keyd, err));
    TRY(check_runner(bundle, &first, chain->refusal, &bundle->runner, err));
    bundle->has_runner = true;
    return check_peers(bundle, trust, err);
}

/* Of a request for a token: sijil-keyd has signed it. Of a robot or a person no document says more. */
static struct result check_claimed(const struct run_bundle *bundle, const struct run_trust *trust, struct error *err)
{
    const struct run_envelope *request = bundle->chain.request;
    const struct run_use use = {
        .project = run_text(request, "project"), .sequence = bundle->event.index, .time_ms = bundle->event.event.time_ms};
    const struct run_key *rule = NULL;

    TRY(run_check_signer(request, trust->keyd, err));
    return run_is_of_rule(request) ? run_keys_rule(&bundle->keys, request, &use, &rule, err) : SUCCESS;
}

static struct result check_signers(struct run_bundle *bundle, const struct run_trust *trust, struct error *err)
{
    const struct run_chain *chain = &bundle->chain;

    if (run_member(chain->request, "claims") != NULL) TRY(check_claimed(bundle, trust, err));
    else TRY(check_person(bundle, chain->request, "requester", err));
    for (size_t i = 0; i < chain->approval_count; i++) TRY(check_person(bundle, chain->approvals[i], "approver", err));
    TRY(run_check_signer(chain->order, trust->keyd, err));
    if (chain->lease == NULL) return SUCCESS;
    TRY(check_runners(bundle, trust, err));
    return chain->admission == NULL ? SUCCESS : run_check_signer(chain->admission, trust->keyd, err);
}

/* ---- manifests ---- */

static struct result place_manifest(struct run_bundle *bundle, const json_t *text, size_t number, struct error *err)
{
    const struct digest digest =
        digest_of(DIGEST_SHA256, (struct bytes){(const uint8_t *)json_string_value(text), json_string_length(text)});
    char name[DIGEST_TEXT_SIZE];
    bool is_placed = false;

    digest_format(&digest, name);
    for (size_t i = 0; i < bundle->artifacts.count; i++) {
        if (strcmp(json_text_of(bundle->artifacts.each[i].json, "digest"), name) != 0) continue;
        if (bundle->manifests[i] != NULL) return failure(err, ERROR_DENIED, "manifest %zu: the bundle has it twice", number);
        bundle->manifests[i] = text;
        is_placed = true;
    }
    return is_placed ? SUCCESS : failure(err, ERROR_DENIED, "manifest %zu: the order names no artifact of its digest", number);
}

static struct result check_manifests(struct run_bundle *bundle, struct error *err)
{
    const json_t *texts = json_object_get(bundle->json, "manifests"), *text = NULL;
    size_t bytes = 0, i = 0;

    bundle->artifacts = run_spec_artifacts(run_member(bundle->chain.order, "spec"));
    json_array_foreach (texts, i, text) {
        bytes += json_string_length(text);
        if (bytes > RUN_MANIFESTS_MAX)
            return failure(err, ERROR_LIMIT, "the manifests of a bundle have at most %u bytes together", RUN_MANIFESTS_MAX);
        TRY(place_manifest(bundle, text, i + 1, err));
    }
    return SUCCESS;
}

static struct result check_parts(struct run_bundle *bundle, const struct run_trust *trust, struct error *err)
{
    TRY(run_keys_read(json_object_get(bundle->json, "documents"), trust, &bundle->keys, err));
    TRY(read_envelopes(bundle, err));
    TRY(check_event(bundle, trust, err));
    TRY(check_signers(bundle, trust, err));
    TRY(run_chain_check(&bundle->chain, err));
    TRY(check_manifests(bundle, err));
    return bundle->chain.admission == NULL ? SUCCESS : check_level(bundle, err);
}

/* The bundle shows handovers of the log's key. They count if they lead to the key that the verifier trusts. */
static struct result check_all(struct run_bundle *bundle, const struct run_trust *trust, struct error *err)
{
    struct buffer OWNED_BUFFER keys = BUFFER(LOG_KEYS_TEXT_MAX);
    struct run_trust trusted = *trust;

    TRY(run_shape_check(bundle->json, &run_shape_bundle, "the bundle", err));
    const char *shown = json_text_of(bundle->json, "log_keys");
    if (shown == NULL) return check_parts(bundle, trust, err);
    TRY(log_keys_join(trust->log_key, bytes_of_text(shown), &keys, err));
    trusted.log_key = buffer_bytes(&keys);
    return check_parts(bundle, &trusted, err);
}

struct result run_bundle_check(struct bytes text, const struct run_trust *trust, struct run_bundle **bundle_out,
                               struct error *err)
{
    OWNED(run_bundle) *bundle = memory_zeroed(1, sizeof *bundle);

    if (bundle == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a bundle");
    TRY(json_read(text, RUN_BUNDLE_MAX, &bundle->json, err));
    TRY(check_all(bundle, trust, err));
    *bundle_out = GIVE(bundle);
    return SUCCESS;
}

void run_bundle_free(struct run_bundle *bundle)
{
    if (bundle == NULL) return;
    run_keys_done(&bundle->keys);
    for (size_t i = 0; i < bundle->envelope_count; i++) run_envelope_free(bundle->envelopes[i]);
    json_decref(bundle->json);
    free(bundle->others);
    free(bundle);
}

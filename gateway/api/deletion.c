/* /api/v1/projects/NAME/deletions/DIGEST: certificates of deletion (docs/deletion.md). */
#include <stdio.h>
#include <string.h>

#include "audit/format/merkle.h"
#include "audit/query.h"
#include "crypto/digest.h"
#include "crypto/keyd_region.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"
#include "policy/decider/region_state.h"
#include "policy/set.h"
#include "registry/jobs/forgotten.h"
#include "registry/project.h"

#define ENTRY_MAX    ((size_t)8 << 10)
#define PROOF_MAX    ((size_t)64 << 10)
#define ENVELOPE_MAX ((size_t)8 << 10)

SCHEMA(deletion_certificate, "a certificate that content was deleted",
       HAS_OBJECT("certificate", REQUIRED, schema_envelope, "the signed certificate"),
       HAS_TEXT("entry", REQUIRED, FORM_FREE, 1, 0, "the leaf of the log about the deletion"),
       HAS_TEXT("proof", REQUIRED, FORM_FREE, 1, 0, "the proof that the leaf is in the log (C2SP tlog-proof)"))

struct result target_deletion_certify(struct request *request, struct lookup *lookup, struct error *err)
{
    struct digest digest;
    struct error wrong = {0};

    (void)lookup, (void)err;
    if (!api_is_project_name(request->name)) {
        response_unknown(request);
        return SUCCESS;
    }
    if (!digest_parse(bytes_of_text(request->reference), &digest, &wrong).ok) {
        response_problem(request, 400, "The request breaks a rule", wrong.message);
        return SUCCESS;
    }
    digest_format(&digest, api_pair(request, ACTION_DELETION_CERTIFY, RESOURCE_PROJECT, request->name)->detail);
    return SUCCESS;
}

static struct result prove(const struct request *request, struct pg *pg, uint64_t sequence, struct buffer *entry,
                           struct buffer *proof, struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(api_newest(request, sequence + 1, &checkpoint, err));
    return audit_prove_deletion(request->permit, pg, sequence, &checkpoint, &(struct proven_entry){entry, proof}, err);
}

/* Then less is certified. The row alone is not believed: the signed record counts, too, and of a region that is not known nothing is. */
static bool has_own_keyd(struct decider *decider, const char *region)
{
    struct region_state state;
    struct policy_set *set = decider_policy_set(decider);
    const bool is_named = set != NULL && policy_set_region_keyd(set, region) != NULL;

    policy_set_free(set);
    return is_named || !decider_region_state(decider, region, &state) || state.keyd[0] != '\0';
}

static struct result show_set(const struct request *request, struct error *err)
{
    OWNED(policy_set) *set = decider_policy_set(request->gateway->decider);

    return set == NULL ? SUCCESS : keyd_show_set(request->gateway->keyd, policy_set_envelope(set), err);
}

/* If sijil-keyd doesn't take the set, because another one is in force by now, the certificate may lack the name of the other sijil-keyd. */
static struct result certify_elsewhere(const struct request *request, const struct deletion_request *wanted,
                                       struct buffer *envelope, struct error *err)
{
    struct error none = {0};

    (void)show_set(request, &none).ok;
    return keyd_certify_deletion_elsewhere(request->gateway->keyd, wanted, envelope, err);
}

/* sijil-keyd says by itself which regions are not its own, once it was shown the set in force. */
static struct result certify_here(const struct request *request, const struct deletion_request *wanted, struct buffer *envelope,
                                  struct error *err)
{
    struct keyd_client *keyd = request->gateway->keyd;
    struct result certified = keyd_certify_deletion(keyd, wanted, envelope, err);
    struct error refused = {0};

    if (!certified.ok && err->kind == ERROR_CONFLICT) {
        if (!show_set(request, &refused).ok)
            return failure(err, ERROR_UNAVAILABLE, "sijil-keyd does not take the policy set: %.200s", refused.message);
        certified = keyd_certify_deletion(keyd, wanted, envelope, err);
    }
    return certified.ok || err->kind != ERROR_DENIED ? certified : certify_elsewhere(request, wanted, envelope, err);
}

static struct result certify(const struct request *request, const struct forgotten_key *key, struct bytes entry,
                             struct buffer *envelope, struct error *err)
{
    struct deletion_request wanted = {.sequence = key->sequence,
                                      .scope = {.organisation = key->organisation, .project = key->project},
                                      .name = key->name,
                                      .digest = key->digest,
                                      .blob = key->blob,
                                      .size_bytes = key->size_bytes,
                                      .forgotten_ms = key->forgotten_ms,
                                      .key_version = key->key_version,
                                      .is_stored_again = key->is_stored_again};
    struct merkle_hash hash;

    merkle_leaf_hash(entry, &hash);
    memcpy(wanted.leaf_hash, hash.bytes, sizeof wanted.leaf_hash);
    (void)snprintf(wanted.scope.region, sizeof wanted.scope.region, "%s", key->region);
    return has_own_keyd(request->gateway->decider, key->region) ? certify_elsewhere(request, &wanted, envelope, err)
                                                                : certify_here(request, &wanted, envelope, err);
}

static struct result answer(struct request *request, const struct buffer *envelope, const struct buffer *entry,
                            const struct buffer *proof, struct error *err)
{
    OWNED_JSON certificate = NULL;

    TRY(json_read(buffer_bytes(envelope), ENVELOPE_MAX, &certificate, err));
    OWNED_JSON bundle =
        json_pack("{s:O, s:s, s:s}", "certificate", certificate, "entry", buffer_text(entry), "proof", buffer_text(proof));
    if (bundle == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a certificate");
    response_json(request, 200, bundle);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct buffer OWNED_BUFFER entry = BUFFER(ENTRY_MAX);
    struct buffer OWNED_BUFFER proof = BUFFER(PROOF_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(ENVELOPE_MAX);
    struct forgotten_key key;

    TRY(forgotten_key_find(request->permit, pg, where, &key, err));
    const struct result proven = prove(request, pg, key.sequence, &entry, &proof, err);
    if (!proven.ok && api_proves_later(request, pg, err)) return SUCCESS;
    TRY(proven);
    TRY(certify(request, &key, buffer_bytes(&entry), &envelope, err));
    return answer(request, &envelope, &entry, &proof, err);
}

const struct handler handler_deletion_certify = {.handle = handle};

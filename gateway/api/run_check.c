/* Who has signed a request or an approval of a training run, and what it may be about. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "documents/format/signing_key.h"
#include "gateway/api/document_priv.h"
#include "gateway/api/run_priv.h"
#include "gateway/pipeline/resolve.h"
#include "policy/decider/decider.h"
#include "training/format/artifacts.h"

struct result run_body_read(const struct request *request, enum run_type type, struct run_envelope **envelope_out,
                            struct error *err)
{
    OWNED(run_envelope) *envelope = NULL;

    TRY(run_envelope_read(request->body, type, &envelope, err));
    if (request->reference != NULL && strcmp(run_text(envelope, "run"), request->reference) != 0)
        return failure(err, ERROR_INVALID, "the path and the %s name different runs", run_type_name(type));
    if (strcmp(run_text(envelope, "audience"), request->gateway->origin) != 0)
        return failure(err, ERROR_INVALID, "the %s is for the registry %.100s; this one is %.100s", run_type_name(type),
                       run_text(envelope, "audience"), request->gateway->origin);
    *envelope_out = GIVE(envelope);
    return SUCCESS;
}

/* ---- the signer ---- */

struct found_key {
    bool is_there, is_in_force;
    struct signing_key key;
};

static struct result note_key(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct found_key *found = context;

    found->is_there = true;
    found->is_in_force = document_is_in_force(pinned->document, clock_wall_ms());
    return signing_key_read(pinned->document, &found->key, err);
}

static struct result find_in(const struct request *request, struct pg *pg, const char *name, const char *keyid,
                             struct found_key *found, struct error *err)
{
    struct document_scope scope;
    struct error none = {0};

    if (found->is_in_force) return SUCCESS;
    TRY(document_scope_find(lookup_of(pg), name, &scope, err));
    const struct view_range one = {DOCUMENT_SIGNING_KEY, &scope, keyid, 1};
    if (document_view_find(request->gateway->documents, &one, note_key, found, &none).ok || none.kind == ERROR_NOT_FOUND)
        return SUCCESS;
    return failure(err, none.kind, "%s", none.message);
}

/* A key is enrolled for the registry, an organisation or a project. */
static struct result find_key(const struct request *request, struct pg *pg, const char *keyid, struct found_key *found_out,
                              struct error *err)
{
    struct found_key found = {.is_there = false};
    char organisation[RESOURCE_NAME_MAX + 1];

    (void)snprintf(organisation, sizeof organisation, "%.*s", (int)strcspn(request->name, "/"), request->name);
    TRY(document_refresh(request, pg, err));
    TRY(find_in(request, pg, "", keyid, &found, err));
    TRY(find_in(request, pg, organisation, keyid, &found, err));
    TRY(find_in(request, pg, request->name, keyid, &found, err));
    if (!found.is_there)
        return failure(err, ERROR_DENIED, "the key %.43s is not enrolled: 'sijil key enroll' asks for it", keyid);
    if (!found.is_in_force) return failure(err, ERROR_DENIED, "the key %.43s is withdrawn, expired, or not in force yet", keyid);
    *found_out = found;
    return SUCCESS;
}

struct result run_check_caller(const struct request *request, struct pg *pg, const struct run_envelope *envelope, const char *who,
                               struct error *err)
{
    const char *named = run_text(envelope, who);
    char asking[PRINCIPAL_KEY_SIZE];
    OWNED(ecdsa_key) *key = NULL;
    struct found_key found;

    principal_key(request->principal, asking);
    if (strcmp(named, asking) != 0) return failure(err, ERROR_DENIED, "%s is another principal than %s", who, asking);
    if (run_member(envelope, "claims") != NULL)
        return failure(
            err, ERROR_DENIED,
            "a request with claims is not sent: sign one without claims with your own key, or ask by the token (POST .../run-requests)");
    TRY(find_key(request, pg, envelope->dsse->signatures[0].keyid, &found, err));
    if (strcmp(found.key.principal, asking) != 0)
        return failure(err, ERROR_DENIED, "the key that has signed belongs to another principal");
    if (envelope->type == RUN_REQUEST && found.key.purpose != SIGNING_SIGN)
        return failure(err, ERROR_DENIED, "the key that has signed is enrolled to approve, not to sign requests");
    TRY(ecdsa_key_from_public(found.key.point, &key, err));
    return run_check_signer(envelope, key, err);
}

struct result run_check_life(const struct run_envelope *envelope, struct error *err)
{
    const int64_t now_ms = clock_wall_ms();

    if (run_time(envelope, "issued_at") > now_ms + RUN_CLOCK_SKEW_MS)
        return failure(err, ERROR_DENIED, "the %s is issued in the future: is the clock right?", run_type_name(envelope->type));
    if (run_time(envelope, "expires") > now_ms) return SUCCESS;
    return failure(err, ERROR_DENIED, "the %s has expired: sign another one", run_type_name(envelope->type));
}

/* ---- the repositories ---- */

struct check {
    struct request *request;
    struct run_duties duties;
};

static struct result check_repository(struct check *check, enum action action, const json_t *artifact, struct error *err)
{
    struct action_pair pair = {.action = action, .resource.kind = RESOURCE_REPOSITORY};
    struct decider *decider = check->request->gateway->decider;
    const char *name = json_text_of(artifact, "repository");
    bool may = false;

    (void)snprintf(pair.resource.name, sizeof pair.resource.name, "%s", name);
    TRY(api_may(check->request, &pair, &may, err));
    resolve_name(check->request, &pair.resource);
    const char *unbound = may ? request_token_refusal(check->request, &pair.resource.organisation) : NULL;
    if (unbound != NULL) return failure(err, ERROR_DENIED, "%.200s: %s", name, unbound);
    if (may) return decider_run_duties(decider, name, clock_wall_ms(), &check->duties, err);
    TRY(request_record_denial(check->request, &pair, err));
    return failure(err, ERROR_DENIED, "roles or policies do not allow a run %s %.200s",
                   action == ACTION_RUN_USE ? "to use" : "to write into", name);
}

struct result run_check_repositories(struct request *request, const json_t *spec, struct run_duties *duties, struct error *err)
{
    const json_t *outputs = json_object_get(spec, "outputs");
    const struct run_artifacts artifacts = run_spec_artifacts(spec);
    struct check check = {.request = request};

    for (size_t i = 0; i < artifacts.count; i++) TRY(check_repository(&check, ACTION_RUN_USE, artifacts.each[i].json, err));
    for (size_t i = 0; i < json_array_size(outputs); i++)
        TRY(check_repository(&check, ACTION_RUN_REQUEST, json_array_get(outputs, i), err));
    *duties = check.duties;
    return SUCCESS;
}

/*
 * Which pushes are promotions (docs/policies.md, "Promotions").
 *
 * Bytes are the same wherever they come from, so a copy by a client that pulls and pushes again counts as well. A client that may not read the other project
 * gets the same answer as if that had nothing: what it sends, it has from elsewhere.
 */
#include "gateway/oci/manifest_promotion_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/oci/manifest_label_priv.h"
#include "gateway/oci/oci_priv.h"
#include "gateway/pipeline/resolve.h"
#include "policy/decider/decider.h"

/* The token of a push seldom names the source, so the roles of its owner count. */
static bool may_read(const struct request *request, const char *source)
{
    struct action_pair pair = {.action = ACTION_BLOB_READ, .resource.kind = RESOURCE_REPOSITORY};
    struct principal owner = *request->principal;

    owner.is_limited = false;
    (void)snprintf(pair.resource.name, sizeof pair.resource.name, "%s", source);
    resolve_name(request, &pair.resource);
    return decider_rights(request->gateway->decider, &owner, &pair, clock_wall_ms()) == AUTHZ_ALLOWED;
}

/* Blobs come before their manifest, so they are where the source's policies let nothing of it be. */
static struct result refuse(struct request *request, const struct manifest *manifest, const char *source,
                            const struct store_answer *answer, struct error *err)
{
    char message[400];

    TRY(manifest_shred(request, manifest, "its source may not be here; what only this push has brought is shredded", err));
    (void)snprintf(message, sizeof message,
                   "some of it is content of %.200s, whose policies let it not be promoted to here: rule %.64s;"
                   " what only this push has brought is shredded",
                   source, answer->rule);
    return oci_refuse(request, 403, "DENIED", message);
}

static struct result ask_source(struct request *request, const struct manifest *manifest, const char *source, bool *goes_on,
                                struct error *err)
{
    const struct push_query query = {
        .name = source, .region = oci_where(request)->region, .promotes = true, .now_ms = clock_wall_ms()};
    struct store_answer answer;

    TRY(decider_promotes(request->gateway->decider, &query, &answer, err));
    if (answer.is_allowed) return SUCCESS;
    *goes_on = false;
    return refuse(request, manifest, source, &answer, err);
}

/* The permit is decided with the label that the repository has; the push may bring another one. */
static struct result ask_target(struct request *request, const struct manifest_push *push, bool *goes_on, struct error *err)
{
    const struct push_query query = {.name = request->name,
                                     .region = oci_where(request)->region,
                                     .label = push->label->label,
                                     .promotes = true,
                                     .now_ms = clock_wall_ms()};
    struct store_answer answer;
    char message[400];

    TRY(decider_promotes(request->gateway->decider, &query, &answer, err));
    *goes_on = answer.is_allowed;
    if (answer.is_allowed) return SUCCESS;
    (void)snprintf(message, sizeof message, "with the label that this manifest brings, %.200s takes no promotion: rule %.64s",
                   request->name, answer.rule);
    return oci_refuse(request, 403, "DENIED", message);
}

static struct result ask_sources(struct request *request, struct manifest_push *push, struct bytes names, bool *goes_on,
                                 struct error *err)
{
    for (size_t at = 0; at < names.length && *goes_on;) {
        const char *source = (const char *)names.data + at;
        at += strlen(source) + 1;
        if (!may_read(request, source)) continue;
        push->is_promotion = true;
        TRY(ask_source(request, push->manifest, source, goes_on, err));
    }
    return SUCCESS;
}

struct result manifest_promotion_find(struct request *request, struct pg *pg, struct manifest_push *push, bool *goes_on_out,
                                      struct error *err)
{
    struct buffer OWNED_BUFFER names = BUFFER(PUSH_ORIGINS_BYTES);
    struct push_origins origins = {.names = names};

    *goes_on_out = true;
    if (request->principal->kind == PRINCIPAL_RUN) return SUCCESS; /* its order and the labels of its inputs decide */
    const struct result found = manifest_push_origins(lookup_of(pg), oci_where(request), push, &origins, err);
    names = origins.names;
    TRY(found);
    push->is_promotion = origins.is_protected;
    TRY(ask_sources(request, push, buffer_bytes(&names), goes_on_out, err));
    return *goes_on_out && push->is_promotion && push->label != NULL ? ask_target(request, push, goes_on_out, err) : SUCCESS;
}

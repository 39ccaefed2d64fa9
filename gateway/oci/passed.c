/* Content that this gateway does not have, and the gateway of another region has (docs/replication.md, "What its clients get"). */
#include <stdio.h>
#include <string.h>

#include "gateway/oci/oci_priv.h"
#include "policy/decider/copies.h"
#include "registry/stored_manifest.h"

/* A run reads at home alone; and what another gateway has passed on is answered, or refused, here. */
bool oci_is_passed_on(const struct request *request, const char *region)
{
    const struct gateway *gateway = request->gateway;

    return !request->is_passed && request->principal->kind != PRINCIPAL_RUN && passings_have(gateway->passings, region) &&
           !registry_region_is_readable(gateway->registry, region);
}

/* A region that was not asked yet and that has a gateway. */
struct asking {
    const struct request *request;
    size_t count;
    char asked[OCI_COPIES_MAX][REGION_ID_MAX + 1];
};

static bool can_ask(void *context, const char *region)
{
    const struct asking *asking = context;

    for (size_t i = 0; i < asking->count; i++)
        if (strcmp(asking->asked[i], region) == 0) return false;
    return oci_is_passed_on(asking->request, region);
}

/* The next region with copies, for the same content. Decided and recorded about that one; false: there is none, or none that the client may read. */
static bool decide_next(struct request *request, struct asking *asking)
{
    struct reading_region reading = {.can_use = can_ask, .context = asking};
    struct action_pair pair = request->pairs[0];
    struct error ignored = {0};
    bool is_decided = false;

    while (!is_decided && asking->count < OCI_COPIES_MAX) {
        (void)snprintf(asking->asked[asking->count++], sizeof asking->asked[0], "%s", pair.resource.region);
        if (!decider_reads_elsewhere(request->gateway->decider, pair.resource.name, &reading)) return false;
        (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", reading.region);
        is_decided = request_record_instead(request, &pair, 1, NULL, &ignored).ok;
    }
    return is_decided;
}

bool oci_decide_for(struct request *request, const char *region)
{
    struct action_pair pair = request->pairs[0];
    struct error ignored = {0};

    if (region == NULL || !oci_is_passed_on(request, region)) return false;
    if (strcmp(pair.resource.region, region) == 0) return true;
    (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", region);
    if (!request_record_instead(request, &pair, 1, NULL, &ignored).ok) return false;
    request->reads_copy = false;
    request->handler_state = NULL; /* what was searched is in the other region */
    return true;
}

struct result oci_pass_on(struct request *request, const struct passing_part *part, struct passing **passing_out,
                          struct error *err)
{
    struct asking asking = {.request = request};

    for (;;) {
        if (passing_open(request->permit, request, part, passing_out, err).ok) return SUCCESS;
        if (err->kind != ERROR_UNAVAILABLE || !decide_next(request, &asking)) return (struct result){.ok = false};
    }
}

/* They are small, so they are compared here. */
struct result oci_pass_manifest_on(struct request *request, struct stored_manifest *manifest, struct error *err)
{
    const struct passing_part part = {0, manifest->size_bytes, manifest->size_bytes};
    OWNED(passing) *passing = NULL;
    uint8_t *into = NULL;
    struct digest digest;

    TRY(digest_parse(bytes_of_text(manifest->digest), &digest, err));
    TRY(buffer_reserve(&manifest->body, manifest->size_bytes, &into, err));
    TRY(oci_pass_on(request, &part, &passing, err));
    if (passing == NULL) return SUCCESS; /* it is refused there */
    TRY(passing_read(passing, 0, into, manifest->size_bytes, err));
    manifest->body.length += manifest->size_bytes;
    const struct digest actual = digest_of(digest.algorithm, buffer_bytes(&manifest->body));
    if (digest_equal(&actual, &digest)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the tag names another manifest than a moment ago");
}

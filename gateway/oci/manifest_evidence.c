/*
 * The evidence that policies demand of a push (docs/policies.md, "Evidence"): a blob of the pushed manifest, which an annotation names. The push itself checks that
 * the blob is there, and the manifest keeps it.
 */
#include "gateway/oci/manifest_evidence_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "gateway/oci/oci_priv.h"
#include "gateway/pipeline/metrics.h"
#include "policy/decider/decider.h"

#define NAMES_BYTES ((size_t)64 * 1024) /* of all evidence that one push needs */

/* Of an index the parts are manifests. */
static bool is_part_of(const struct manifest *manifest, const char *digest)
{
    const bool is_index = manifest->kind == MANIFEST_INDEX;

    for (size_t i = 0; digest != NULL && i < manifest->reference_count; i++) {
        const struct manifest_reference *reference = &manifest->references[i];
        if (reference->is_manifest == is_index && reference->is_required && strcmp(reference->digest, digest) == 0) return true;
    }
    return false;
}

static struct result refuse(struct request *request, const char *name)
{
    char message[400];

    metric_add(&metrics_gateway[METRIC_EVIDENCE_LACKING], 1);
    (void)snprintf(message, sizeof message,
                   "a policy demands the evidence \"%.100s\": give the manifest the annotation " EVIDENCE_ANNOTATION
                   "%.100s with the digest of one of its blobs; of an index, of one of its manifests",
                   name, name);
    return oci_refuse(request, 403, "DENIED", message);
}

static struct result check_names(struct request *request, const struct manifest *manifest, struct bytes names, bool *goes_on,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER key = BUFFER(sizeof EVIDENCE_ANNOTATION + NAMES_BYTES);
    OWNED_JSON document = NULL;

    TRY(json_read_any_number(request->body, MANIFEST_SIZE_MAX, &document, err));
    const json_t *annotations = json_object_get(document, "annotations");
    for (size_t at = 0; at < names.length && *goes_on;) {
        const char *name = (const char *)names.data + at;
        at += strlen(name) + 1;
        buffer_clear(&key);
        TRY(buffer_format(&key, err, EVIDENCE_ANNOTATION "%s", name));
        if (is_part_of(manifest, json_text_of(annotations, buffer_text(&key)))) continue;
        *goes_on = false;
        TRY(refuse(request, name));
    }
    return SUCCESS;
}

struct result manifest_evidence_check(struct request *request, const struct manifest_push *push, bool *goes_on_out,
                                      struct error *err)
{
    const struct push_query query = {.name = request->name,
                                     .label = push->label == NULL ? (struct bytes){0} : push->label->label,
                                     .promotes = push->is_promotion,
                                     .now_ms = clock_wall_ms()};
    struct buffer OWNED_BUFFER names = BUFFER(NAMES_BYTES);

    *goes_on_out = true;
    if (push->manifest->kind == MANIFEST_INDEX && !push->is_promotion)
        return SUCCESS; /* its children were pushed with theirs, but perhaps under no tag, and so without those of a promotion */
    TRY(decider_evidence(request->gateway->decider, &query, &names, err));
    if (names.length == 0) return SUCCESS;
    return check_names(request, push->manifest, buffer_bytes(&names), goes_on_out, err);
}

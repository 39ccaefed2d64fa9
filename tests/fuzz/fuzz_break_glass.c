/* Broken glasses and reviews of strangers: each that is read is of a person, for at most an hour, and written again it is the same. */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "documents/format/break_glass.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_glass(struct bytes payload)
{
    OWNED(document) *document = NULL;
    struct break_glass glass;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_BREAK_GLASS, payload, &document, &err).ok) return;
    if (!break_glass_read(document, &glass, &err).ok) return;
    assert(document->scope[0] == '\0' && strncmp(glass.principal, "ext:", 4) == 0);
    assert(document->is_withdrawn ? glass.on == NULL && glass.approved_by != NULL : glass.on != NULL && glass.reason != NULL);
    assert(document->is_withdrawn || document->expires_ms - document->effective_ms <= BREAK_GLASS_MS_MAX);
    OWNED_JSON body = break_glass_body(&glass);
    assert(body == NULL || json_equal(body, json_object_get(document->json, "body")));
}

static void read_review(struct bytes payload)
{
    OWNED(document) *document = NULL;
    struct break_glass_review review;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_BREAK_GLASS_REVIEW, payload, &document, &err).ok) return;
    if (!break_glass_review_read(document, &review, &err).ok) return;
    assert(document->version == 1 && strlen(review.note) <= BREAK_GLASS_REASON_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_glass((struct bytes){data, size});
    read_review((struct bytes){data, size});
    return 0;
}

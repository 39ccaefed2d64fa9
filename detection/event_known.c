#include "detection/event_known_priv.h"

#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/hmac.h"
#include "detection/detection_store_priv.h"

#define PAYLOAD_MAX ((size_t)64 << 10)

/* ---- sizes ---- */

/* "acme/models/digits#sha256:...": the first two parts, and the first word behind "#". */
static bool read_blob(const char *resource, struct detection_blob *blob, char digest[160])
{
    const char *hash = strchr(resource, '#'), *first = strchr(resource, '/');
    const char *second = first == NULL ? NULL : strchr(first + 1, '/');

    if (hash == NULL || second == NULL || second > hash || first - resource >= 64 || second - first > 64) return false;
    (void)snprintf(blob->organisation, sizeof blob->organisation, "%.*s", (int)(first - resource), resource);
    (void)snprintf(blob->project, sizeof blob->project, "%.*s", (int)(second - first - 1), first + 1);
    (void)snprintf(digest, 160, "%.*s", (int)strcspn(hash + 1, " "), hash + 1);
    blob->digest = digest;
    return strncmp(digest, "sha", 3) == 0;
}

struct result known_size_of(struct known_sizes *sizes, const uint8_t hash_key[16], struct pg *pg, const struct leaf *leaf,
                            uint64_t *size_bytes_out, struct error *err)
{
    const char *resource = leaf->targets[0].resource;
    const uint64_t hash = table_hash(hash_key, bytes_of_text(resource)), key = hash == 0 ? 1 : hash;
    struct known_size *kept = &sizes->each[key % SIZES_KEPT];
    struct detection_blob blob = {.region = leaf->targets[0].region};
    char digest[160];
    uint64_t size_bytes = 0;

    if (kept->key == key) {
        *size_bytes_out = kept->size_bytes;
        return SUCCESS;
    }
    if (read_blob(resource, &blob, digest)) TRY(detection_size(pg, &blob, &size_bytes, err));
    if (size_bytes > 0) *kept = (struct known_size){key, size_bytes}; /* a blob that is not there now may come */
    *size_bytes_out = size_bytes;
    return SUCCESS;
}

/* ---- persons ---- */

static struct result persons_of_names(struct pg *pg, const char *issuer, const char *subject, struct event_known *known,
                                      struct error *err)
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};

    _Static_assert(PRINCIPAL_KEY_SIZE <= 80, "a person has room");
    if (subject == NULL) return SUCCESS;
    if (issuer == NULL) return detection_persons_of_robot(pg, subject, known, err);
    if (text_copy(principal.issuer, sizeof principal.issuer, issuer) &&
        text_copy(principal.subject, sizeof principal.subject, subject)) {
        principal_key(&principal, known->persons[0]);
        known->person_count = 1;
    }
    secret_wipe(&principal, sizeof principal);
    return SUCCESS;
}

struct result known_persons_of(const struct first_place_source *source, struct audit_page *page, size_t index,
                               struct event_known *known, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(PAYLOAD_MAX);
    struct error ignored = {0};
    OWNED_JSON payload = NULL;

    known->person_count = 0;
    const struct result opened = audit_page_payload(page, index, source->keyd, source->origin, &text, err);
    if (!opened.ok) return err->kind == ERROR_CORRUPT ? SUCCESS : opened;
    if (text.length == 0) return SUCCESS;
    const bool is_read = json_read(buffer_bytes(&text), PAYLOAD_MAX, &payload, &ignored).ok;
    secret_wipe(text.data, text.length);
    if (!is_read) return SUCCESS;
    return persons_of_names(source->pg, json_text_of(payload, "issuer"), json_text_of(payload, "subject"), known, err);
}

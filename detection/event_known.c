#include "detection/event_known_priv.h"

#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/hmac.h"

#define PAYLOAD_MAX ((size_t)64 << 10)

/* ---- sizes ---- */

/* "acme/models/digits#sha256:...": the first two parts, and the first word behind "#". */
static bool read_blob(const struct leaf *leaf, struct detection_blob *blob)
{
    const char *resource = leaf->targets[0].resource, *hash = strchr(resource, '#'), *first = strchr(resource, '/');
    const char *second = first == NULL ? NULL : strchr(first + 1, '/');

    if (hash == NULL || second == NULL || second > hash || first - resource >= 64 || second - first > 64) return false;
    (void)snprintf(blob->organisation, sizeof blob->organisation, "%.*s", (int)(first - resource), resource);
    (void)snprintf(blob->project, sizeof blob->project, "%.*s", (int)(second - first - 1), first + 1);
    (void)snprintf(blob->digest, sizeof blob->digest, "%.*s", (int)strcspn(hash + 1, " "), hash + 1);
    blob->region = leaf->targets[0].region;
    return strncmp(blob->digest, "sha", 3) == 0;
}

static uint64_t key_of(const uint8_t hash_key[16], const struct leaf *leaf)
{
    const uint64_t hash = table_hash(hash_key, bytes_of_text(leaf->targets[0].resource));

    return hash == 0 ? 1 : hash;
}

/* The blobs that are to be asked for; places_out: of the events that read them. Kept sizes are filled in. */
static size_t take_unknown(const struct known_sizes *sizes, const uint8_t hash_key[16], struct wanted_sizes *wanted,
                           struct detection_blob blobs_out[DETECTION_TOGETHER], size_t places_out[DETECTION_TOGETHER])
{
    size_t count = 0;

    for (size_t i = 0; i < wanted->count; i++) {
        struct wanted_size *each = &wanted->each[i];
        const uint64_t key = key_of(hash_key, each->leaf);
        const struct known_size *kept = &sizes->each[key % SIZES_KEPT];
        each->size_bytes = kept->key == key ? kept->size_bytes : 0;
        if (kept->key != key && read_blob(each->leaf, &blobs_out[count])) places_out[count++] = i;
    }
    return count;
}

struct result known_sizes_of(struct known_sizes *sizes, const uint8_t hash_key[16], struct pg *pg, struct wanted_sizes *wanted,
                             struct error *err)
{
    struct detection_blob blobs[DETECTION_TOGETHER];
    size_t places[DETECTION_TOGETHER];

    const size_t count = take_unknown(sizes, hash_key, wanted, blobs, places);
    if (count == 0) return SUCCESS;
    TRY(detection_sizes(pg, blobs, count, err));
    for (size_t i = 0; i < count; i++) {
        struct wanted_size *each = &wanted->each[places[i]];
        const uint64_t key = key_of(hash_key, each->leaf);
        each->size_bytes = blobs[i].size_bytes;
        /* A blob that is not there now may come. */
        if (each->size_bytes > 0) sizes->each[key % SIZES_KEPT] = (struct known_size){key, each->size_bytes};
    }
    return SUCCESS;
}

/* ---- who is told ---- */

static bool is_named(const char *names, const char *name)
{
    const size_t length = strlen(name);

    for (; *names != '\0'; names += strcspn(names, ",") + (names[strcspn(names, ",")] == ','))
        if (strcspn(names, ",") == length && strncmp(names, name, length) == 0) return true;
    return false;
}

#define MORE_SIZE (sizeof ",+4096" - 1)

/* Commas and blanks have a meaning in an alarm's text. False: it has no room. */
static bool add_name(struct event_known *known, const char *name)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@._+:/-";
    const size_t length = strlen(known->told);
    char own[TOLD_SIZE];
    size_t i = 0;

    for (; name[i] != '\0' && i + 1 < sizeof own; i++) own[i] = strchr(plain, name[i]) == NULL ? '_' : name[i];
    own[i] = '\0';
    if (is_named(known->told, own)) return true;
    if (name[i] != '\0' || length + 1 + i + MORE_SIZE >= sizeof known->told) return false;
    (void)snprintf(known->told + length, sizeof known->told - length, "%s%s", length == 0 ? "" : ",", own);
    return true;
}

/* How many have no room. */
static size_t add_names(struct bytes facts, struct event_known *known)
{
    struct error ignored = {0};
    OWNED_JSON json = NULL;
    size_t i = 0, k = 0, left = 0;
    json_t *entry = NULL, *name = NULL;

    if (memmem(facts.data, facts.length, "\"told\":", 7) == NULL || !json_read(facts, PAYLOAD_MAX, &json, &ignored).ok) return 0;
    json_array_foreach (json_object_get(json, "judged"), i, entry)
        json_array_foreach (json_object_get(entry, "told"), k, name)
            if (json_is_string(name) && !add_name(known, json_string_value(name))) left++;
    return left;
}

void known_told_add(enum facts_state state, struct bytes facts, struct event_known *known)
{
    const size_t left = state == FACTS_SOUND ? add_names(facts, known) : 0;
    const size_t length = strlen(known->told);

    if (state != FACTS_SOUND) (void)add_name(known, "facts-are-missing");
    else if (memmem(facts.data, facts.length, "\"omitted\":true", 14) != NULL) (void)add_name(known, "facts-are-omitted");
    if (left > 0 && length + MORE_SIZE < sizeof known->told)
        (void)snprintf(known->told + length, sizeof known->told - length, "%s+%zu", length == 0 ? "" : ",", left % 10000);
}

void known_told_of(const struct audit_page *page, size_t index, struct event_known *known)
{
    struct bytes facts = {NULL, 0};

    known->told[0] = '\0';
    for (size_t i = 0; i < audit_page_facts_count(page, index); i++)
        known_told_add(audit_page_facts(page, index, i, &facts), facts, known);
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

#include "audit/format/deletion.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

enum { VERSION = 1 };

static bool set_time(json_t *object, const char *name, int64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];

    clock_format(wall_ms, text);
    return json_object_set_new(object, name, json_string(text)) == 0;
}

static bool set_id(json_t *object, const char *name, const struct uuid *id)
{
    char text[UUID_TEXT_SIZE];

    uuid_format(id, text);
    return json_object_set_new(object, name, json_string(text)) == 0;
}

static json_t *compose(const struct deletion *deletion)
{
    char hash[2 * sizeof deletion->leaf_hash + 1];

    text_hex(deletion->leaf_hash, sizeof deletion->leaf_hash, hash);
    OWNED_JSON object = json_pack("{s:i, s:i, s:s, s:s, s:s, s:I, s:I, s:b, s:{s:s, s:I, s:s}}", "version", VERSION, "stage",
                                  (int)deletion->stage, "project", deletion->name, "region", deletion->region, "digest",
                                  deletion->digest, "size", (json_int_t)deletion->size_bytes, "key_version",
                                  (json_int_t)deletion->key_version, "stored_again", (int)deletion->is_stored_again, "log",
                                  "origin", deletion->origin, "entry", (json_int_t)deletion->sequence, "hash", hash);
    if (object == NULL || !set_id(object, "organisation_id", &deletion->organisation) ||
        !set_id(object, "project_id", &deletion->project) || !set_id(object, "blob_id", &deletion->blob) ||
        !set_time(object, "forgotten", deletion->forgotten_ms) || !set_time(object, "issued", deletion->issued_ms) ||
        (deletion->destroyed_ms != 0 && !set_time(object, "destroyed", deletion->destroyed_ms)) ||
        (deletion->keyd[0] != '\0' && json_object_set_new(object, "keyd", json_string(deletion->keyd)) != 0))
        return NULL;
    return GIVE(object);
}

struct result deletion_write(const struct deletion *deletion, struct buffer *payload, struct error *err)
{
    const unsigned lacks = json_lacks();
    OWNED_JSON object = compose(deletion);

    if (object == NULL && json_lacks() == lacks)
        return failure(err, ERROR_INVALID, "a certificate of deletion has a name that is not UTF-8");
    if (object == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a certificate of deletion");
    return json_write_canonical(payload, object, err);
}

/* ---- Reading ---- */

static bool get_text(const json_t *object, const char *name, char *into, size_t size)
{
    const char *text = json_text_of(object, name);

    if (text == NULL || strlen(text) >= size || !leaf_text_is_valid(bytes_of_text(text))) return false;
    memcpy(into, text, strlen(text) + 1);
    return true;
}

static bool get_id(const json_t *object, const char *name, struct uuid *into)
{
    const char *text = json_text_of(object, name);

    return text != NULL && uuid_parse(bytes_of_text(text), into);
}

static bool get_time(const json_t *object, const char *name, int64_t *into)
{
    const char *text = json_text_of(object, name);

    return text != NULL && clock_parse(bytes_of_text(text), into);
}

static bool get_number(const json_t *object, const char *name, int64_t maximum, int64_t *into)
{
    return json_integer_of(object, name, into) && *into >= 0 && *into <= maximum;
}

static bool get_hash(const json_t *object, uint8_t into[32])
{
    const char *text = json_text_of(object, "hash");

    return text != NULL && text_from_hex(bytes_of_text(text), into, 32);
}

static bool get_numbers(const json_t *object, struct deletion *deletion)
{
    const json_t *log = json_object_get(object, "log"), *again = json_object_get(object, "stored_again");
    int64_t version = 0, stage = 0, size = 0, key_version = 0, sequence = 0;

    if (!get_number(object, "version", VERSION, &version) || version != VERSION || !get_number(object, "stage", 2, &stage) ||
        stage == 0 || !get_number(object, "size", INT64_MAX, &size) ||
        !get_number(object, "key_version", UINT32_MAX, &key_version) || !get_number(log, "entry", INT64_MAX, &sequence) ||
        !json_is_boolean(again))
        return false;
    deletion->stage = (unsigned)stage;
    deletion->size_bytes = (uint64_t)size;
    deletion->key_version = (uint32_t)key_version;
    deletion->sequence = (uint64_t)sequence;
    deletion->is_stored_again = json_typeof(again) == JSON_TRUE;
    return true;
}

static bool get_keyd(const json_t *object, struct deletion *deletion)
{
    uint8_t thumbprint[32];

    if (json_object_get(object, "keyd") == NULL) return true;
    return deletion->stage == 1 && get_text(object, "keyd", deletion->keyd, sizeof deletion->keyd) &&
           text_from_base64_exactly(BASE64_URL, bytes_of_text(deletion->keyd), thumbprint, sizeof thumbprint);
}

static bool get_all(const json_t *object, struct deletion *deletion)
{
    const json_t *log = json_object_get(object, "log");

    return get_numbers(object, deletion) && get_text(log, "origin", deletion->origin, sizeof deletion->origin) &&
           get_hash(log, deletion->leaf_hash) && get_text(object, "project", deletion->name, sizeof deletion->name) &&
           get_text(object, "region", deletion->region, sizeof deletion->region) &&
           get_text(object, "digest", deletion->digest, sizeof deletion->digest) &&
           get_id(object, "organisation_id", &deletion->organisation) && get_id(object, "project_id", &deletion->project) &&
           get_id(object, "blob_id", &deletion->blob) && get_time(object, "forgotten", &deletion->forgotten_ms) &&
           get_time(object, "issued", &deletion->issued_ms) && get_keyd(object, deletion) &&
           (json_object_get(object, "destroyed") == NULL || get_time(object, "destroyed", &deletion->destroyed_ms));
}

/* A certificate is accepted only in exactly this wording: another wording could mean something else to another reader. */
struct result deletion_read(struct bytes payload, struct deletion *deletion_out, struct error *err)
{
    struct buffer OWNED_BUFFER again = BUFFER(DELETION_PAYLOAD_MAX);
    OWNED_JSON object = NULL;
    struct deletion deletion = {.sequence = 0};

    TRY(json_read(payload, DELETION_PAYLOAD_MAX, &object, err));
    if (!get_all(object, &deletion)) return failure(err, ERROR_INVALID, "this is no certificate of deletion that is known here");
    TRY(deletion_write(&deletion, &again, err));
    if (!bytes_equal(buffer_bytes(&again), payload))
        return failure(err, ERROR_INVALID, "the certificate has members that are not known here");
    *deletion_out = deletion;
    return SUCCESS;
}

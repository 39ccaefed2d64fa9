#include "audit/format/erased.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

enum { VERSION = 1 };

static json_t *event_of(uint64_t sequence, const uint8_t hash[32])
{
    char text[65];

    text_hex(hash, 32, text);
    return json_pack("{s:I, s:s}", "entry", (json_int_t)sequence, "hash", text);
}

static json_t *compose(const struct erased *erased)
{
    char done[CLOCK_TEXT_SIZE], issued[CLOCK_TEXT_SIZE];

    clock_format(erased->erased_ms, done);
    clock_format(erased->issued_ms, issued);
    return json_pack("{s:i, s:i, s:s, s:I, s:I, s:s, s:s, s:{s:s, s:o, s:o}}", "version", VERSION, "stage", (int)erased->stage,
                     "pseudonym", erased->pseudonym, "payloads", (json_int_t)erased->payloads, "key_version",
                     (json_int_t)erased->key_version, "erased", done, "issued", issued, "log", "origin", erased->origin, "asked",
                     event_of(erased->asked, erased->asked_hash), "erased", event_of(erased->done, erased->done_hash));
}

struct result erased_write(const struct erased *erased, struct buffer *payload, struct error *err)
{
    OWNED_JSON object = compose(erased);

    if (object == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a certificate of erasure");
    return json_write_canonical(payload, object, err);
}

/* ---- reading ---- */

static bool get_text(const json_t *object, const char *name, char *into, size_t size)
{
    const char *text = json_text_of(object, name);

    return text != NULL && leaf_text_is_valid(bytes_of_text(text)) && text_copy(into, size, text);
}

static bool get_number(const json_t *object, const char *name, int64_t maximum, int64_t *into)
{
    return json_integer_of(object, name, into) && *into >= 0 && *into <= maximum;
}

static bool get_time(const json_t *object, const char *name, int64_t *into)
{
    const char *text = json_text_of(object, name);

    return text != NULL && clock_parse(bytes_of_text(text), into);
}

static bool get_event(const json_t *event, uint64_t *sequence, uint8_t hash[32])
{
    const char *text = json_text_of(event, "hash");
    int64_t number = 0;

    if (text == NULL || !text_from_hex(bytes_of_text(text), hash, 32) || !get_number(event, "entry", INT64_MAX, &number))
        return false;
    *sequence = (uint64_t)number;
    return true;
}

static bool get_numbers(const json_t *object, struct erased *erased)
{
    int64_t version = 0, stage = 0, payloads = 0, key_version = 0;

    if (!get_number(object, "version", VERSION, &version) || version != VERSION || !get_number(object, "stage", 2, &stage) ||
        stage == 0 || !get_number(object, "payloads", INT64_MAX, &payloads) ||
        !get_number(object, "key_version", UINT32_MAX, &key_version))
        return false;
    erased->stage = (unsigned)stage;
    erased->payloads = (uint64_t)payloads;
    erased->key_version = (uint32_t)key_version;
    return true;
}

static bool get_all(const json_t *object, struct erased *erased)
{
    const json_t *log = json_object_get(object, "log");

    return get_numbers(object, erased) && get_text(object, "pseudonym", erased->pseudonym, sizeof erased->pseudonym) &&
           get_text(log, "origin", erased->origin, sizeof erased->origin) &&
           get_event(json_object_get(log, "asked"), &erased->asked, erased->asked_hash) &&
           get_event(json_object_get(log, "erased"), &erased->done, erased->done_hash) &&
           get_time(object, "erased", &erased->erased_ms) && get_time(object, "issued", &erased->issued_ms);
}

/* A certificate is accepted only in exactly this wording: another wording could mean something else to another reader. */
struct result erased_read(struct bytes payload, struct erased *erased_out, struct error *err)
{
    struct buffer OWNED_BUFFER again = BUFFER(ERASED_PAYLOAD_MAX);
    struct erased erased = {.asked = 0};
    OWNED_JSON object = NULL;

    TRY(json_read(payload, ERASED_PAYLOAD_MAX, &object, err));
    if (!get_all(object, &erased)) return failure(err, ERROR_INVALID, "this is no certificate of erasure that is known here");
    TRY(erased_write(&erased, &again, err));
    if (!bytes_equal(buffer_bytes(&again), payload))
        return failure(err, ERROR_INVALID, "the certificate has members that are not known here");
    *erased_out = erased;
    return SUCCESS;
}

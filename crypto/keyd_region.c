/* The statements about a region's sijil-keyd: which policy set is in force, and where it is. */
#include "crypto/keyd_region.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

enum { VERSION = 1, PAYLOAD_MAX = 4096 };

static bool get_text(const json_t *object, const char *name, char *into, size_t size)
{
    const char *text = json_text_of(object, name);

    return text != NULL && text_copy(into, size, text);
}

static bool get_bytes(const json_t *object, const char *name, uint8_t into[32])
{
    const char *text = json_text_of(object, name);

    return text != NULL && text_from_hex(bytes_of_text(text), into, 32);
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

static struct result write_object(json_t *object, struct buffer *payload, struct error *err)
{
    return object == NULL ? failure(err, ERROR_INVALID, "a statement has a text that is not UTF-8, or there is no memory for it")
                          : json_write_canonical(payload, object, err);
}

/* Accepted only in exactly this wording: another wording could mean something else to another reader. */
static struct result demand_same(struct bytes payload, const struct buffer *again, struct error *err)
{
    return bytes_equal(buffer_bytes(again), payload)
               ? SUCCESS
               : failure(err, ERROR_INVALID, "a statement has members that are not known here");
}

/* ---- which set is in force ---- */

struct result keyd_current_write(const struct keyd_current *current, struct buffer *payload, struct error *err)
{
    char at[CLOCK_TEXT_SIZE], digest[2 * sizeof current->digest + 1];

    clock_format(current->at_ms, at);
    text_hex(current->digest, sizeof current->digest, digest);
    OWNED_JSON object = json_pack("{s:i, s:s, s:I, s:s, s:s}", "version", VERSION, "origin", current->origin, "epoch",
                                  (json_int_t)current->epoch, "digest", digest, "at", at);
    return write_object(object, payload, err);
}

struct result keyd_current_read(struct bytes payload, struct keyd_current *current_out, struct error *err)
{
    struct buffer OWNED_BUFFER again = BUFFER(PAYLOAD_MAX);
    struct keyd_current current = {.epoch = 0};
    OWNED_JSON object = NULL;
    int64_t epoch = 0;

    TRY(json_read(payload, PAYLOAD_MAX, &object, err));
    if (!get_text(object, "origin", current.origin, sizeof current.origin) || !get_number(object, "epoch", INT64_MAX, &epoch) ||
        !get_bytes(object, "digest", current.digest) || !get_time(object, "at", &current.at_ms))
        return failure(err, ERROR_INVALID, "this is no statement about the policy set in force that is known here");
    current.epoch = (uint64_t)epoch;
    TRY(keyd_current_write(&current, &again, err));
    TRY(demand_same(payload, &again, err));
    *current_out = current;
    return SUCCESS;
}

/* ---- where it is ---- */

static json_t *compose(const struct keyd_place *place)
{
    char at[CLOCK_TEXT_SIZE], digest[2 * sizeof place->digest + 1], nonce[2 * sizeof place->nonce + 1];

    clock_format(place->at_ms, at);
    text_hex(place->digest, sizeof place->digest, digest);
    text_hex(place->nonce, sizeof place->nonce, nonce);
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:s, s:b, s:I, s:I, s:I}", "version", VERSION,
                     "region", place->region, "ring", place->ring, "geo", place->geo, "control", place->control, "origin",
                     place->origin, "main_key", place->main_key, "nonce", nonce, "epoch", (json_int_t)place->epoch, "digest",
                     digest, "current_ms", (json_int_t)place->current_ms, "at", at, "current", (int)place->is_current,
                     "key_version", (json_int_t)place->key_version, "unused_below", (json_int_t)place->unused_below, "unwraps",
                     (json_int_t)place->unwraps);
}

struct result keyd_place_write(const struct keyd_place *place, struct buffer *payload, struct error *err)
{
    OWNED_JSON object = compose(place);

    return write_object(object, payload, err);
}

static bool get_texts(const json_t *object, struct keyd_place *place)
{
    return get_text(object, "region", place->region, sizeof place->region) && place->region[0] != '\0' &&
           get_text(object, "ring", place->ring, sizeof place->ring) && get_text(object, "geo", place->geo, sizeof place->geo) &&
           get_text(object, "control", place->control, sizeof place->control) &&
           get_text(object, "origin", place->origin, sizeof place->origin) &&
           get_text(object, "main_key", place->main_key, sizeof place->main_key) && get_bytes(object, "nonce", place->nonce) &&
           get_bytes(object, "digest", place->digest) && get_time(object, "at", &place->at_ms);
}

static bool get_numbers(const json_t *object, struct keyd_place *place)
{
    const json_t *current = json_object_get(object, "current");
    int64_t epoch = 0, version = 0, unused = 0, unwraps = 0;

    if (!json_is_boolean(current) || !get_number(object, "epoch", INT64_MAX, &epoch) ||
        !get_number(object, "current_ms", INT64_MAX, &place->current_ms) ||
        !get_number(object, "key_version", UINT32_MAX, &version) || !get_number(object, "unused_below", UINT32_MAX, &unused) ||
        !get_number(object, "unwraps", INT64_MAX, &unwraps))
        return false;
    place->epoch = (uint64_t)epoch;
    place->is_current = json_is_true(current);
    place->key_version = (uint32_t)version;
    place->unused_below = (uint32_t)unused;
    place->unwraps = (uint64_t)unwraps;
    return true;
}

struct result keyd_place_read(struct bytes payload, struct keyd_place *place_out, struct error *err)
{
    struct buffer OWNED_BUFFER again = BUFFER(PAYLOAD_MAX);
    struct keyd_place place = {.epoch = 0};
    OWNED_JSON object = NULL;

    TRY(json_read(payload, PAYLOAD_MAX, &object, err));
    if (!get_texts(object, &place) || !get_numbers(object, &place))
        return failure(err, ERROR_INVALID, "this is no statement of a region's sijil-keyd that is known here");
    TRY(keyd_place_write(&place, &again, err));
    TRY(demand_same(payload, &again, err));
    *place_out = place;
    return SUCCESS;
}

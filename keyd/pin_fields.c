#include "keyd/pin_fields.h"

#include <string.h>

uint8_t *digest_field_put(uint8_t *at, const uint8_t digest[DOCUMENT_DIGEST_SIZE])
{
    memcpy(at, digest, DOCUMENT_DIGEST_SIZE);
    return at + DOCUMENT_DIGEST_SIZE;
}

uint8_t *pin_field_put(uint8_t *at, const struct document_pin *pin)
{
    store_u64(at, pin->epoch);
    return digest_field_put(at + 8, pin->digest);
}

void digest_field_get(struct reader *reader, uint8_t digest_out[DOCUMENT_DIGEST_SIZE])
{
    memcpy(digest_out, reader_take(reader, DOCUMENT_DIGEST_SIZE).data, DOCUMENT_DIGEST_SIZE);
}

void pin_field_get(struct reader *reader, struct document_pin *pin_out)
{
    pin_out->epoch = reader_u64(reader);
    digest_field_get(reader, pin_out->digest);
}

bool pin_field_is(const struct document_pin *one, const struct document_pin *other)
{
    return one->epoch == other->epoch && memcmp(one->digest, other->digest, sizeof one->digest) == 0;
}

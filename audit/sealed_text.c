#include "audit/sealed_text.h"

#include <string.h>

#include "audit/subject_priv.h"
#include "base/text.h"
#include "crypto/aead.h"
#include "crypto/digest.h"
#include "crypto/random.h"

#define LABEL  "sijil-text-v1"
#define PREFIX "sijil:name "

_Static_assert(SEALED_BOX_MAX >= SEALED_TEXT_MAX + BOX_OVERHEAD, "the longest text has room");

struct result sealed_text_seal(const struct search_source *source, const struct sealed_place *place, const char *text,
                               struct sealed_text *sealed_out, struct error *err)
{
    const char *const names[2] = {place->issuer, place->subject};
    const struct bytes plain = bytes_of_text(text);
    uint8_t sealing[XCHACHA_KEY_SIZE];
    OWNED(secret) *key = NULL;

    if (plain.length > SEALED_TEXT_MAX)
        return failure(err, ERROR_LIMIT, "a text that is sealed has at most %d bytes", SEALED_TEXT_MAX);
    TRY(keyd_subject_index(source->keyd, names[0], names[1], sealed_out->subject, err));
    TRY(subject_key_find(source->keyd, source->pg, names, true, &key, err));
    random_bytes(sealed_out->salt, sizeof sealed_out->salt);
    TRY(subject_box_key(key, sealed_out->salt, LABEL, sealing, err));
    box_seal(sealing, place->what, plain, sealed_out->box);
    sealed_out->length = plain.length + BOX_OVERHEAD;
    secret_wipe(sealing, sizeof sealing);
    return SUCCESS;
}

struct result sealed_text_open(const struct permit *permit, const struct sealed_reading *reading,
                               const struct sealed_place *place, const struct sealed_text *sealed,
                               char text_out[SEALED_TEXT_MAX + 1], struct error *err)
{
    const char *const names[2] = {place->issuer, place->subject};
    const struct search_source *source = reading->source;
    uint8_t opening[XCHACHA_KEY_SIZE];
    OWNED(secret) *key = NULL;
    struct error why = {0};

    (void)permit_resource(permit, reading->action);
    text_out[0] = '\0';
    if (sealed->length < BOX_OVERHEAD || sealed->length > SEALED_TEXT_MAX + BOX_OVERHEAD) return SUCCESS;
    if (!subject_key_find(source->keyd, source->pg, names, false, &key, &why).ok)
        return why.kind == ERROR_NOT_FOUND ? SUCCESS : failure(err, why.kind, "%s", why.message);
    TRY(subject_box_key(key, sealed->salt, LABEL, opening, err));
    const bool is_open =
        box_open(opening, place->what, (struct bytes){sealed->box, sealed->length}, (uint8_t *)text_out, &why).ok;
    text_out[is_open ? sealed->length - BOX_OVERHEAD : 0] = '\0';
    secret_wipe(opening, sizeof opening);
    return SUCCESS;
}

struct result sealed_text_index(const struct search_source *source, const char *issuer, const char *name, uint8_t index_out[32],
                                struct error *err)
{
    char text[sizeof PREFIX + 2 * (size_t)SHA256_SIZE] = PREFIX; /* a subject has at most 255 bytes, a name may have more */
    uint8_t digest[SHA256_SIZE];

    sha256_of(bytes_of_text(name), digest);
    text_hex(digest, sizeof digest, text + sizeof PREFIX - 1);
    return keyd_subject_index(source->keyd, issuer, text, index_out, err);
}

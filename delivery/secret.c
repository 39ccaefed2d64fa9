#include "delivery/secret.h"

#include <stdio.h>
#include <string.h>

#include "audit/server_key.h"
#include "base/text.h"
#include "crypto/ed25519.h"
#include "crypto/hkdf.h"
#include "crypto/hmac.h"
#include "documents/format/audit_sink.h"

#define PURPOSE   "sijil:sink"
#define NAME_SIZE (AUDIT_SINK_NAME_MAX + 16)

struct result sink_secret_open(struct keyd_client *keyd, struct pg *pg, const struct sink_key *wanted, struct secret **secret_out,
                               struct error *err)
{
    OWNED(secret) *key = NULL, *secret = NULL;
    char name[NAME_SIZE];

    (void)snprintf(name, sizeof name, "%.63s:%ld", wanted->sink, (long)wanted->number);
    const struct server_key asked = {PURPOSE, name, true};
    TRY(server_key_open(keyd, pg, &asked, &key, err));
    TRY(secret_new(SINK_SECRET_SIZE, &secret, err));
    TRY(hkdf_sha256(secret_bytes(key), (struct bytes){0},
                    bytes_of_text(wanted->signs_ed25519 ? "sijil-webhook-v1a" : "sijil-webhook-v1"), secret->bytes,
                    SINK_SECRET_SIZE, err));
    *secret_out = GIVE(secret);
    return SUCCESS;
}

static struct result show(const char *prefix, struct bytes bytes, struct sink_secret_text *text_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SINK_SECRET_TEXT_SIZE);

    TRY(buffer_add_text(&text, prefix, err));
    TRY(text_base64(&text, BASE64_STANDARD, bytes, err));
    (void)snprintf(text_out->text, sizeof text_out->text, "%s", buffer_text(&text));
    secret_wipe(text.data, text.length);
    return SUCCESS;
}

struct result sink_secret_make(const struct permit *permit, struct keyd_client *keyd, struct pg *pg,
                               const struct sink_key *wanted, struct sink_secret_text *text_out, struct error *err)
{
    static const struct resource registry = {.kind = RESOURCE_SYSTEM};
    uint8_t public_key[ED25519_PUBLIC_SIZE];
    OWNED(secret) *secret = NULL;

    permit_require(permit, ACTION_SINK_SECRET, &registry);
    TRY(sink_secret_open(keyd, pg, wanted, &secret, err));
    if (!wanted->signs_ed25519) return show("whsec_", secret_bytes(secret), text_out, err);
    TRY(ed25519_public(secret, public_key, err));
    return show("whpk_", (struct bytes){public_key, sizeof public_key}, text_out, err);
}

struct result sink_secret_sign(const struct secret *secret, bool signs_ed25519, struct bytes message, struct buffer *signatures,
                               struct error *err)
{
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    size_t length = HMAC_SIZE;

    if (signs_ed25519) {
        TRY(ed25519_sign(secret, message, signature, err));
        length = ED25519_SIGNATURE_SIZE;
    } else {
        hmac_sha256(secret_bytes(secret), message, signature);
    }
    TRY(buffer_format(signatures, err, "%s%s,", signatures->length > 0 ? " " : "", signs_ed25519 ? "v1a" : "v1"));
    return text_base64(signatures, BASE64_STANDARD, (struct bytes){signature, length}, err);
}

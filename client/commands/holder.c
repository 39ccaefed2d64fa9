/*
 * Whose key it is. A document names a subject of an issuer by a hash (docs/formats/documents.md). The registry says whose hash it is, and the
 * hash is computed here again: a registry can hide a name, but not show another one.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "crypto/digest.h"

static struct result external_principal(const char *issuer, const char *subject, char principal_out[SIGNING_PRINCIPAL_SIZE],
                                        struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(1024);
    uint8_t digest[SHA256_SIZE];

    TRY(buffer_format(&text, err, "%s\n%s", issuer, subject));
    sha256_of(buffer_bytes(&text), digest);
    (void)snprintf(principal_out, SIGNING_PRINCIPAL_SIZE, "ext:");
    text_hex(digest, sizeof digest, principal_out + 4);
    return SUCCESS;
}

struct result self_principal(const json_t *self, char principal_out[SIGNING_PRINCIPAL_SIZE], struct error *err)
{
    const char *id = json_text_of(self, "id"), *issuer = json_text_of(self, "issuer"), *name = json_text_of(self, "name");
    const char *kind = json_text_of(self, "kind");

    if (issuer != NULL && name != NULL) return external_principal(issuer, name, principal_out, err);
    if (kind != NULL && strcmp(kind, "rule") == 0)
        return failure(err, ERROR_INVALID,
                       "this login is that of a trust rule (a CI job), which has no key of its own: ask by its token, without "
                       "--key and --pkcs11");
    if (id == NULL)
        return failure(err, ERROR_INVALID,
                       "the registry does not name the principal of this login: it is older than this program");
    (void)snprintf(principal_out, SIGNING_PRINCIPAL_SIZE, "robot:%.36s", id);
    return SUCCESS;
}

struct result command_principal(struct session *session, char principal_out[SIGNING_PRINCIPAL_SIZE], struct error *err)
{
    OWNED_JSON self = NULL;

    TRY(api_call_in(session, "GET", "/self", NULL, &self, err));
    return self_principal(self, principal_out, err);
}

const json_t *verified_holder(const json_t *key, const char *principal)
{
    const json_t *holder = json_object_get(key, "holder");
    const char *issuer = json_text_of(holder, "issuer"), *subject = json_text_of(holder, "subject");
    char computed[SIGNING_PRINCIPAL_SIZE];
    struct error ignored = {0};

    if (issuer == NULL || subject == NULL || principal == NULL) return NULL;
    if (!external_principal(issuer, subject, computed, &ignored).ok || strcmp(computed, principal) != 0) return NULL;
    return holder;
}

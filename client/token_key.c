#include "client/token_key.h"

#include <string.h>

#include "client/token_key_priv.h"

#define ID_MAX 255 /* bytes of a CKA_ID; tokens use 1 to 20 */

/* DER of the name of P-256, 1.2.840.10045.3.1.7, as CKA_EC_PARAMS has it (RFC 5480, 2.1.1.1). */
static const uint8_t p256[] = {0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07};

/* ---- objects ---- */

static struct result search(struct token *token, CK_ATTRIBUTE *template, CK_ULONG length, CK_OBJECT_HANDLE found[2],
                            CK_ULONG *count_out, struct error *err)
{
    CK_RV code = token->module->C_FindObjectsInit(token->session, template, length);
    if (code != CKR_OK) return token_refused(err, "search", code);
    code = token->module->C_FindObjects(token->session, found, 2, count_out);
    const CK_RV ended = token->module->C_FindObjectsFinal(token->session);
    if (code == CKR_OK) code = ended;
    return code == CKR_OK ? SUCCESS : token_refused(err, "search", code);
}

/* The bytes of an attribute; 0 if the object has none, or more than `room`. */
static size_t read_attribute(struct token *token, CK_OBJECT_HANDLE object, CK_ATTRIBUTE_TYPE type, void *into, size_t room)
{
    CK_ATTRIBUTE attribute = {type, into, room};

    if (token->module->C_GetAttributeValue(token->session, object, &attribute, 1) != CKR_OK) return 0;
    return attribute.ulValueLen <= room ? attribute.ulValueLen : 0;
}

/* ---- the private half ---- */

static struct result find_private(struct token *token, struct error *err)
{
    CK_OBJECT_CLASS class = CKO_PRIVATE_KEY;
    CK_ATTRIBUTE template[3] = {{CKA_CLASS, &class, sizeof class}};
    const CK_ATTRIBUTE_TYPE named[] = {CKA_LABEL, CKA_ID};
    CK_OBJECT_HANDLE found[2] = {0};
    CK_ULONG length = 1, count = 0;

    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        const CK_ATTRIBUTE *given = p11_kit_uri_get_attribute(token->uri, named[i]);
        if (given != NULL) template[length++] = *given;
    }
    TRY(search(token, template, length, found, &count, err));
    if (count == 0)
        return failure(err, ERROR_NOT_FOUND, "the token has no private key that fits the URI: are object= and id= right?");
    if (count > 1)
        return failure(err, ERROR_INVALID, "several private keys of the token fit the URI: name one with object= or id=");
    token->key = found[0];
    return SUCCESS;
}

static struct result check_private(struct token *token, struct error *err)
{
    const CK_ATTRIBUTE *class = p11_kit_uri_get_attribute(token->uri, CKA_CLASS);
    uint8_t curve[sizeof p256];
    CK_KEY_TYPE type = 0;
    CK_BBOOL asks = CK_FALSE;

    if (class != NULL && class->ulValueLen == sizeof(CK_OBJECT_CLASS) &&
        *(const CK_OBJECT_CLASS *)class->pValue != CKO_PRIVATE_KEY)
        return failure(err, ERROR_INVALID, "the URI's type is not private, and only a private key signs");
    if (read_attribute(token, token->key, CKA_KEY_TYPE, &type, sizeof type) != sizeof type || type != CKK_EC ||
        read_attribute(token, token->key, CKA_EC_PARAMS, curve, sizeof curve) != sizeof curve ||
        memcmp(curve, p256, sizeof p256) != 0)
        return failure(err, ERROR_INVALID, "the token's key is not an ECDSA key on P-256");
    token->asks_each_time =
        read_attribute(token, token->key, CKA_ALWAYS_AUTHENTICATE, &asks, sizeof asks) == sizeof asks && asks == CK_TRUE;
    return SUCCESS;
}

/* ---- the public half ---- */

/* As DER, an OCTET STRING (PKCS#11 2.40, mechanisms, 2.3.3); some tokens leave the DER out. */
static bool read_point(struct token *token, CK_OBJECT_HANDLE object, uint8_t point_out[ECDSA_PUBLIC_SIZE])
{
    uint8_t text[2 + ECDSA_PUBLIC_SIZE];
    const size_t length = read_attribute(token, object, CKA_EC_POINT, text, sizeof text);
    const size_t skipped = length == sizeof text && text[0] == 0x04 && text[1] == ECDSA_PUBLIC_SIZE ? 2 : 0;

    if (length - skipped != ECDSA_PUBLIC_SIZE) return false;
    memcpy(point_out, text + skipped, ECDSA_PUBLIC_SIZE);
    return true;
}

static struct result find_public(struct token *token, uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err)
{
    CK_OBJECT_CLASS class = CKO_PUBLIC_KEY;
    uint8_t id[ID_MAX];
    CK_OBJECT_HANDLE found[2] = {0};
    CK_ULONG count = 0;

    const size_t length = read_attribute(token, token->key, CKA_ID, id, sizeof id);
    CK_ATTRIBUTE template[] = {{CKA_CLASS, &class, sizeof class}, {CKA_ID, id, length}};
    if (length > 0) TRY(search(token, template, 2, found, &count, err));
    if (count == 1 && read_point(token, found[0], point_out)) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND,
                   "the token has %s public key of P-256 with the id of the private key: store the pair under one id",
                   count > 1 ? "more than one" : "no");
}

/* ---- signing ---- */

static struct result sign(void *context, const uint8_t digest[ECDSA_DIGEST_SIZE], uint8_t signature_out[ECDSA_JOSE_SIZE],
                          struct error *err)
{
    struct token *token = context;
    CK_MECHANISM mechanism = {CKM_ECDSA, NULL, 0};
    CK_ULONG length = ECDSA_JOSE_SIZE;

    CK_RV code = token->module->C_SignInit(token->session, &mechanism, token->key);
    if (code != CKR_OK) return token_refused(err, "signature", code);
    if (token->asks_each_time) TRY(token_log_in(token, CKU_CONTEXT_SPECIFIC, err));
    /* the module only reads the digest */
    code = token->module->C_Sign(token->session, (CK_BYTE *)(uintptr_t)digest, ECDSA_DIGEST_SIZE, signature_out, &length);
    if (code != CKR_OK) return token_refused(err, "signature", code);
    if (length != ECDSA_JOSE_SIZE)
        return failure(err, ERROR_INVALID, "the token signs in another form: %lu bytes", (unsigned long)length);
    return SUCCESS;
}

static void release(void *context)
{
    token_free(context);
}

struct result token_key_open(const struct token_key_options *options, struct ecdsa_key **key_out, struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    OWNED(token) *token = NULL;

    TRY(token_open(options, &token, err));
    TRY(find_private(token, err));
    TRY(check_private(token, err));
    TRY(find_public(token, point, err));
    const struct ecdsa_remote remote = {token, sign, release};
    TRY(ecdsa_key_from_remote(point, &remote, key_out, err));
    (void)GIVE(token);
    return SUCCESS;
}

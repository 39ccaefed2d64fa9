#include "crypto/runner_certificate.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/fault.h"
#include "base/text.h"
#include "crypto/certificate_priv.h"
#include "crypto/ecdsa_priv.h"

#define URI_PREFIX  "urn:sijil:runner:"
#define URI_LENGTH  (sizeof URI_PREFIX - 1 + UUID_TEXT_SIZE - 1)
#define PEM_LINE    64 /* RFC 7468, section 2 */
#define DAY_MS      INT64_C(86400000)
#define LIFE_MAX_MS (RUNNER_CERTIFICATE_DAYS * DAY_MS + RUNNER_CERTIFICATE_SKEW_MS)

/* ---- issuing ---- */

static bool set_names(X509 *certificate, const char *id)
{
    X509_NAME *issuer = X509_NAME_new();
    const bool ok =
        issuer != NULL &&
        X509_NAME_add_entry_by_txt(issuer, "CN", MBSTRING_UTF8, (const uint8_t *)RUNNER_AUTHORITY_NAME, -1, -1, 0) == 1 &&
        X509_set_issuer_name(certificate, issuer) == 1 && certificate_set_subject(certificate, id);

    X509_NAME_free(issuer);
    return ok;
}

static bool set_period(X509 *certificate, const struct runner_certificate *wanted)
{
    return ASN1_TIME_set(X509_getm_notBefore(certificate), wanted->not_before_ms / 1000) != NULL &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), wanted->not_after_ms / 1000) != NULL;
}

static GENERAL_NAME *uri_of(const char *id)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *value = ASN1_IA5STRING_new();
    char text[URI_LENGTH + 1];

    memcpy(text, URI_PREFIX, sizeof URI_PREFIX);
    memcpy(text + sizeof URI_PREFIX - 1, id, UUID_TEXT_SIZE);
    if (name == NULL || value == NULL || ASN1_STRING_set(value, text, (int)URI_LENGTH) != 1) {
        ASN1_STRING_free(value);
        GENERAL_NAME_free(name);
        return NULL;
    }
    GENERAL_NAME_set0_value(name, GEN_URI, value);
    return name;
}

static bool add_uri(X509 *certificate, const char *id)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    GENERAL_NAME *name = uri_of(id);
    bool ok = names != NULL && name != NULL && sk_GENERAL_NAME_push(names, name) > 0;

    if (!ok) GENERAL_NAME_free(name);
    ok = ok && X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(names);
    return ok;
}

static bool fill(X509 *certificate, const struct runner_certificate *wanted, const struct ecdsa_key *key)
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&wanted->runner, id);
    return X509_set_version(certificate, X509_VERSION_3) == 1 && certificate_set_serial(certificate) &&
           set_names(certificate, id) && set_period(certificate, wanted) && X509_set_pubkey(certificate, key->pkey) == 1 &&
           certificate_extend(certificate, certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           certificate_extend(certificate, certificate, NID_key_usage, "critical,digitalSignature") &&
           certificate_extend(certificate, certificate, NID_ext_key_usage, "clientAuth") && add_uri(certificate, id);
}

static struct result write_der(X509 *certificate, const struct ecdsa_key *authority, struct buffer *der, struct error *err)
{
    uint8_t *bytes = NULL;

    if (X509_sign(certificate, authority->pkey, EVP_sha256()) <= 0)
        return failure(err, ERROR_NO_MEMORY, "no certificate could be made");
    const int length = i2d_X509(certificate, &bytes);
    if (length <= 0) return failure(err, ERROR_NO_MEMORY, "no certificate could be made");
    const struct result added = buffer_add(der, bytes, (size_t)length, err);
    OPENSSL_free(bytes);
    return added;
}

static bool is_period(int64_t not_before_ms, int64_t not_after_ms)
{
    return not_before_ms >= 0 && not_after_ms > not_before_ms && not_after_ms - not_before_ms <= LIFE_MAX_MS;
}

struct result runner_certificate_issue(const struct runner_certificate *wanted, const struct ecdsa_key *authority,
                                       struct buffer *der, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;

    if (!is_period(wanted->not_before_ms, wanted->not_after_ms))
        return failure(err, ERROR_INVALID, "the certificate of a runner is valid for at most %d days", RUNNER_CERTIFICATE_DAYS);
    TRY(ecdsa_key_from_public(wanted->point, &key, err));
    OWNED_X509 certificate = fault_is_due(FAULT_MEMORY) ? NULL : X509_new();
    if (certificate == NULL || !fill(certificate, wanted, key))
        return failure(err, ERROR_NO_MEMORY, "no certificate could be made");
    return write_der(certificate, authority, der, err);
}

struct result runner_certificate_pem(struct bytes der, struct buffer *pem, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(2 * RUNNER_CERTIFICATE_MAX);

    TRY(text_base64(&text, BASE64_STANDARD, der, err));
    TRY(buffer_add_text(pem, "-----BEGIN CERTIFICATE-----\n", err));
    for (size_t at = 0; at < text.length; at += PEM_LINE) {
        const size_t left = text.length - at;
        TRY(buffer_add(pem, text.data + at, left < PEM_LINE ? left : PEM_LINE, err));
        TRY(buffer_add_u8(pem, '\n', err));
    }
    return buffer_add_text(pem, "-----END CERTIFICATE-----\n", err);
}

/* ---- reading ---- */

static struct result not_ours(struct error *err, const char *rule)
{
    ERR_clear_error();
    return failure(err, ERROR_INVALID, "not the certificate of a runner: %s", rule);
}

static bool is_signed_by(X509 *certificate, const struct ecdsa_key *authority)
{
    const bool is_signed =
        X509_get_signature_nid(certificate) == NID_ecdsa_with_SHA256 && X509_verify(certificate, authority->pkey) == 1;

    ERR_clear_error();
    return is_signed;
}

static struct result check_uses(X509 *certificate, struct error *err)
{
    const uint32_t flags = X509_get_extension_flags(certificate);

    if (X509_get_version(certificate) != X509_VERSION_3) return not_ours(err, "its version is not 3");
    if ((flags & (EXFLAG_INVALID | EXFLAG_CRITICAL | EXFLAG_CA)) != 0 || (flags & EXFLAG_BCONS) == 0)
        return not_ours(err, "it is of an authority, or has extensions that are not known");
    if (X509_get_key_usage(certificate) != KU_DIGITAL_SIGNATURE || X509_get_extended_key_usage(certificate) != XKU_SSL_CLIENT)
        return not_ours(err, "it is not for clients alone");
    return SUCCESS;
}

static bool read_uri(const GENERAL_NAMES *names, struct uuid *runner_out)
{
    if (names == NULL || sk_GENERAL_NAME_num(names) != 1) return false;
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, 0);
    if (name->type != GEN_URI) return false;
    const struct bytes uri = {ASN1_STRING_get0_data(name->d.uniformResourceIdentifier),
                              (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier)};
    const size_t prefix = sizeof URI_PREFIX - 1;
    return uri.length == URI_LENGTH && memcmp(uri.data, URI_PREFIX, prefix) == 0 &&
           uuid_parse((struct bytes){uri.data + prefix, uri.length - prefix}, runner_out) && !uuid_is_nil(runner_out);
}

static struct result read_name(X509 *certificate, struct uuid *runner_out, struct error *err)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const bool is_read = read_uri(names, runner_out);

    GENERAL_NAMES_free(names);
    return is_read ? SUCCESS : not_ours(err, "it does not name one runner as " URI_PREFIX "UUID");
}

static struct result read_period(X509 *certificate, struct runner_certificate *read, struct error *err)
{
    int64_t from_s = 0, to_s = 0;

    if (!certificate_time(X509_get0_notBefore(certificate), &from_s) ||
        !certificate_time(X509_get0_notAfter(certificate), &to_s) || !is_period(from_s * 1000, to_s * 1000))
        return not_ours(err, "its period is malformed or too long");
    read->not_before_ms = from_s * 1000;
    read->not_after_ms = to_s * 1000;
    return SUCCESS;
}

static struct result read_key(X509 *certificate, uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    EVP_PKEY *pkey = X509_get_pubkey(certificate);

    if (pkey == NULL) return not_ours(err, "its key can't be read");
    TRY(ecdsa_key_adopt(pkey, false, &key, err));
    ecdsa_key_public(key, point_out);
    return SUCCESS;
}

static struct result parse(struct bytes der, X509 **certificate_out, struct error *err)
{
    const uint8_t *at = der.data;

    if (der.length == 0 || der.length > RUNNER_CERTIFICATE_MAX) return not_ours(err, "it is empty or too long");
    X509 *certificate = fault_is_due(FAULT_MEMORY) ? NULL : d2i_X509(NULL, &at, (long)der.length);
    if (certificate == NULL) return not_ours(err, "it can't be read");
    *certificate_out = certificate;
    return at == der.data + der.length ? SUCCESS : not_ours(err, "bytes follow it");
}

struct result runner_certificate_read(struct bytes der, const uint8_t authority[ECDSA_PUBLIC_SIZE],
                                      struct runner_certificate *certificate_out, struct error *err)
{
    struct runner_certificate read = {0};
    OWNED(ecdsa_key) *key = NULL;
    OWNED_X509 certificate = NULL;

    TRY(ecdsa_key_from_public(authority, &key, err));
    TRY(parse(der, &certificate, err));
    if (!is_signed_by(certificate, key))
        return failure(err, ERROR_DENIED, "another authority than this registry's has signed the certificate");
    TRY(check_uses(certificate, err));
    TRY(read_name(certificate, &read.runner, err));
    TRY(read_period(certificate, &read, err));
    TRY(read_key(certificate, read.point, err));
    *certificate_out = read;
    return SUCCESS;
}

bool runner_certificate_is_current(const struct runner_certificate *certificate, int64_t now_ms)
{
    return certificate->not_before_ms - RUNNER_CERTIFICATE_SKEW_MS <= now_ms && now_ms < certificate->not_after_ms;
}

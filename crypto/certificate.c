#include "crypto/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "base/text.h"
#include "crypto/certificate_priv.h"
#include "crypto/ecdsa_priv.h"
#include "crypto/random.h"

enum { DAY_S = 86400, CLOCK_SKEW_S = 60, SERIAL_SIZE = 16, NAME_MAX_LENGTH = 253, AUTHORITY_DAYS_MAX = 3653 };

/* RFC 5280, 4.1.2.2: positive, unique; 127 random bits. */
bool certificate_set_serial(X509 *certificate)
{
    uint8_t serial[SERIAL_SIZE];

    random_bytes(serial, sizeof serial);
    serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40);
    BIGNUM *number = BN_bin2bn(serial, sizeof serial, NULL);
    const bool ok = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return ok;
}

static bool set_period(X509 *certificate, int64_t not_after_s)
{
    return ASN1_TIME_set(X509_getm_notBefore(certificate), time(NULL) - CLOCK_SKEW_S) != NULL &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), not_after_s) != NULL;
}

bool certificate_set_subject(X509 *certificate, const char *common_name)
{
    return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8, (const uint8_t *)common_name, -1,
                                      -1, 0) == 1;
}

bool certificate_extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;

    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    const bool ok = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok;
}

static struct result sign_and_write(X509 *certificate, const struct ecdsa_key *key, struct buffer *pem, struct error *err)
{
    BIO *output = fault_is_due(FAULT_MEMORY) ? NULL : BIO_new(BIO_s_mem());
    const bool is_written =
        output != NULL && X509_sign(certificate, key->pkey, EVP_sha256()) > 0 && PEM_write_bio_X509(output, certificate) == 1;

    return pem_take(output, is_written, "no certificate could be made", pem, err);
}

struct result certificate_authority(const char *common_name, const struct ecdsa_key *key, unsigned days, struct buffer *pem,
                                    struct error *err)
{
    const size_t length = strlen(common_name);

    if (length == 0 || length > 64) /* ub-common-name, RFC 5280 appendix A */
        return failure(err, ERROR_INVALID, "an authority's name has 1 to 64 letters");
    if (days == 0 || days > AUTHORITY_DAYS_MAX)
        return failure(err, ERROR_INVALID, "an authority lives 1 to %d days", AUTHORITY_DAYS_MAX);

    OWNED_X509 certificate = fault_is_due(FAULT_MEMORY) ? NULL : X509_new();
    if (certificate == NULL || X509_set_version(certificate, X509_VERSION_3) != 1 || !certificate_set_serial(certificate) ||
        !set_period(certificate, time(NULL) + (int64_t)days * DAY_S) || !certificate_set_subject(certificate, common_name) ||
        X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) != 1 ||
        X509_set_pubkey(certificate, key->pkey) != 1 ||
        !certificate_extend(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !certificate_extend(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") ||
        !certificate_extend(certificate, certificate, NID_subject_key_identifier, "hash"))
        return failure(err, ERROR_NO_MEMORY, "no certificate could be made");
    return sign_and_write(certificate, key, pem, err);
}

static bool is_host_name(const char *name)
{
    const size_t length = strlen(name);

    return length > 0 && length <= NAME_MAX_LENGTH && name[0] != '-' && name[0] != '.' &&
           text_consists_of(bytes_of_text(name), "abcdefghijklmnopqrstuvwxyz0123456789-.");
}

static GENERAL_NAME *general_name(const char *name)
{
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(name);
    ASN1_STRING *value = address != NULL ? address : ASN1_IA5STRING_new();
    GENERAL_NAME *general = GENERAL_NAME_new();

    ERR_clear_error();
    if (general == NULL || value == NULL || (address == NULL && ASN1_STRING_set(value, name, (int)strlen(name)) != 1)) {
        ASN1_STRING_free(value);
        GENERAL_NAME_free(general);
        return NULL;
    }
    GENERAL_NAME_set0_value(general, address != NULL ? GEN_IPADD : GEN_DNS, value);
    return general;
}

static bool add_names(X509 *certificate, const struct certificate_request *request)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    bool ok = names != NULL;

    for (size_t i = 0; i < request->name_count && ok; i++) {
        GENERAL_NAME *name = general_name(request->names[i]);
        ok = name != NULL && sk_GENERAL_NAME_push(names, name) > 0;
        if (!ok) GENERAL_NAME_free(name);
    }
    ok = ok && X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(names);
    return ok;
}

static struct result check_request(const struct certificate_request *request, struct error *err)
{
    if (request->days == 0 || request->days > CERTIFICATE_DAYS_MAX)
        return failure(err, ERROR_INVALID, "a server certificate lives 1 to %d days", CERTIFICATE_DAYS_MAX);
    if (request->name_count == 0 || request->name_count > CERTIFICATE_NAMES_MAX)
        return failure(err, ERROR_INVALID, "a server certificate has 1 to %d names", CERTIFICATE_NAMES_MAX);
    for (size_t i = 0; i < request->name_count; i++) {
        ASN1_OCTET_STRING *address = a2i_IPADDRESS(request->names[i]);
        const bool valid = address != NULL || is_host_name(request->names[i]);
        ASN1_OCTET_STRING_free(address);
        ERR_clear_error();
        if (!valid)
            return failure(err, ERROR_INVALID, "\"%.64s\" is neither a lower-case host name nor an IP address",
                           request->names[i]);
    }
    return SUCCESS;
}

static struct result fill_server(X509 *certificate, const struct certificate_request *request, X509 *authority, struct error *err)
{
    int64_t end_s = time(NULL) + (int64_t)request->days * DAY_S, authority_end_s = 0;

    if (!certificate_time(X509_get0_notAfter(authority), &authority_end_s) || authority_end_s <= time(NULL))
        return failure(err, ERROR_INVALID, "the certificate authority has expired");
    if (end_s > authority_end_s) end_s = authority_end_s;

    const char *first = request->names[0];
    if (X509_set_version(certificate, X509_VERSION_3) == 1 && certificate_set_serial(certificate) &&
        set_period(certificate, end_s) && (strlen(first) > 64 || certificate_set_subject(certificate, first)) &&
        X509_set_issuer_name(certificate, X509_get_subject_name(authority)) == 1 &&
        X509_set_pubkey(certificate, request->key->pkey) == 1 &&
        certificate_extend(certificate, authority, NID_basic_constraints, "critical,CA:FALSE") &&
        certificate_extend(certificate, authority, NID_key_usage, "critical,digitalSignature") &&
        certificate_extend(certificate, authority, NID_ext_key_usage, "serverAuth") &&
        certificate_extend(certificate, authority, NID_subject_key_identifier, "hash") &&
        certificate_extend(certificate, authority, NID_authority_key_identifier, "keyid:always") &&
        add_names(certificate, request))
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no certificate could be made");
}

struct result certificate_issue(const struct certificate_request *request, struct bytes authority_pem,
                                const struct ecdsa_key *authority_key, struct buffer *pem, struct error *err)
{
    OWNED_X509 authority = NULL;

    TRY(check_request(request, err));
    TRY(certificate_read(authority_pem, &authority, err));
    if (X509_check_private_key(authority, authority_key->pkey) != 1) {
        ERR_clear_error();
        return failure(err, ERROR_INVALID, "the private key does not belong to the certificate authority");
    }
    OWNED_X509 certificate = fault_is_due(FAULT_MEMORY) ? NULL : X509_new();
    if (certificate == NULL) return failure(err, ERROR_NO_MEMORY, "no certificate could be made");
    TRY(fill_server(certificate, request, authority, err));
    return sign_and_write(certificate, authority_key, pem, err);
}

#include <assert.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "crypto/certificate_priv.h"
#include "crypto/digest.h"

/* NOLINTNEXTLINE(readability-non-const-parameter): OpenSSL calls it with this type */
static int no_password(char *buffer, int size, int writing, void *context)
{
    (void)buffer, (void)size, (void)writing, (void)context;
    return -1;
}

static struct result open_pem(struct bytes pem, BIO **input_out, struct error *err)
{
    if (pem.length > CERTIFICATE_PEM_MAX)
        return failure(err, ERROR_INVALID, "a PEM file of more than %d bytes", CERTIFICATE_PEM_MAX);
    BIO *input = fault_is_due(FAULT_MEMORY) ? NULL : BIO_new_mem_buf(pem.data, (int)pem.length);
    if (input == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to read a certificate");
    *input_out = input;
    return SUCCESS;
}

struct result certificate_read(struct bytes pem, X509 **certificate_out, struct error *err)
{
    BIO *input = NULL;

    TRY(open_pem(pem, &input, err));
    X509 *certificate = PEM_read_bio_X509(input, NULL, no_password, NULL);
    BIO_free(input);
    ERR_clear_error();
    if (certificate == NULL) return failure(err, ERROR_INVALID, "not a certificate in PEM");
    *certificate_out = certificate;
    return SUCCESS;
}

bool certificate_time(const ASN1_TIME *time, int64_t *seconds_out)
{
    struct tm parts = {0};

    assert(time != NULL); /* OpenSSL would take NULL for the present time */
    if (ASN1_TIME_to_tm(time, &parts) != 1) return false;
    *seconds_out = timegm(&parts);
    return true;
}

static struct result read_facts(X509 *certificate, struct certificate_facts *facts_out, struct error *err)
{
    struct certificate_facts facts;
    uint8_t *der = NULL;

    if (!certificate_time(X509_get0_notBefore(certificate), &facts.not_before_s) ||
        !certificate_time(X509_get0_notAfter(certificate), &facts.not_after_s))
        return failure(err, ERROR_INVALID, "a certificate without a valid period");
    const int length = fault_is_due(FAULT_MEMORY) ? -1 : i2d_X509(certificate, &der);
    if (length <= 0) return failure(err, ERROR_NO_MEMORY, "no memory to read a certificate");
    sha256_of((struct bytes){der, (size_t)length}, facts.sha256);
    OPENSSL_free(der);
    *facts_out = facts;
    return SUCCESS;
}

struct result certificate_inspect(struct bytes pem, struct certificate_facts *facts_out, struct error *err)
{
    X509 *certificate = NULL;

    TRY(certificate_read(pem, &certificate, err));
    const struct result result = read_facts(certificate, facts_out, err);
    X509_free(certificate);
    return result;
}

static struct result check_key(X509 *certificate, struct bytes key_pem, struct error *err)
{
    BIO *input = NULL;

    TRY(open_pem(key_pem, &input, err));
    EVP_PKEY *pkey = PEM_read_bio_PrivateKey(input, NULL, no_password, NULL);
    BIO_free(input);
    const bool fits = pkey != NULL && X509_check_private_key(certificate, pkey) == 1;
    const bool is_key = pkey != NULL;
    EVP_PKEY_free(pkey);
    ERR_clear_error();
    if (!is_key) return failure(err, ERROR_INVALID, "not an unencrypted private key in PEM");
    if (!fits) return failure(err, ERROR_INVALID, "the private key does not belong to the certificate");
    return SUCCESS;
}

struct result certificate_check_pair(struct bytes pem, struct bytes key_pem, struct certificate_facts *facts_out,
                                     struct error *err)
{
    X509 *certificate = NULL;

    TRY(certificate_read(pem, &certificate, err));
    struct result result = check_key(certificate, key_pem, err);
    if (result.ok) result = read_facts(certificate, facts_out, err);
    X509_free(certificate);
    return result;
}

struct result certificate_covers(struct bytes pem, const char *name, bool *covers_out, struct error *err)
{
    X509 *certificate = NULL;

    TRY(certificate_read(pem, &certificate, err));
    *covers_out = X509_check_ip_asc(certificate, name, 0) == 1 ||
                  X509_check_host(certificate, name, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
    X509_free(certificate);
    ERR_clear_error();
    return SUCCESS;
}

static bool is_uri(const GENERAL_NAME *name, const char *uri)
{
    const size_t length = strlen(uri);

    return name->type == GEN_URI && (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier) == length &&
           memcmp(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier), uri, length) == 0;
}

struct result certificate_has_uri(struct bytes pem, const char *uri, bool *has_out, struct error *err)
{
    X509 *certificate = NULL;

    TRY(certificate_read(pem, &certificate, err));
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    *has_out = false;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !*has_out; i++) *has_out = is_uri(sk_GENERAL_NAME_value(names, i), uri);
    GENERAL_NAMES_free(names);
    X509_free(certificate);
    ERR_clear_error();
    return SUCCESS;
}

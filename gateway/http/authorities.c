#include "gateway/http/authorities.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"

static bool leads_to(gnutls_x509_crt_t authority, gnutls_x509_crt_t *chain, unsigned count)
{
    static unsigned char client[] = GNUTLS_KP_TLS_WWW_CLIENT; /* GnuTLS takes it through a pointer that is not const */
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = client};
    gnutls_x509_trust_list_t alone = NULL;
    unsigned status = GNUTLS_CERT_INVALID;

    if (gnutls_x509_trust_list_init(&alone, 0) < 0) return false;
    const bool verified =
        gnutls_x509_trust_list_add_cas(alone, &authority, 1, 0) == 1 &&
        gnutls_x509_trust_list_verify_crt2(alone, chain, count, &purpose, 1, 0, &status, NULL) == GNUTLS_E_SUCCESS;
    gnutls_x509_trust_list_deinit(alone, 0);
    return verified && status == 0;
}

/* False: it has no room. */
static bool note(gnutls_x509_crt_t authority, char text[AUTHORITIES_TEXT_SIZE])
{
    const size_t used = strlen(text);
    gnutls_datum_t der = {NULL, 0};
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    if (gnutls_x509_crt_export2(authority, GNUTLS_X509_FMT_DER, &der) < 0) return false;
    sha256_of((struct bytes){der.data, der.size}, digest);
    gnutls_free(der.data);
    text_hex(digest, sizeof digest, hex);
    const int length = snprintf(text + used, AUTHORITIES_TEXT_SIZE - used, "%ssha256:%s", used == 0 ? "" : " ", hex);
    return length > 0 && (size_t)length < AUTHORITIES_TEXT_SIZE - used;
}

void authorities_find(gnutls_x509_trust_list_t authorities, gnutls_x509_crt_t *chain, unsigned count,
                      char text_out[AUTHORITIES_TEXT_SIZE])
{
    gnutls_x509_trust_list_iter_t at = NULL;
    gnutls_x509_crt_t authority = NULL;
    bool is_whole = true;

    text_out[0] = '\0';
    while (is_whole && gnutls_x509_trust_list_iter_get_ca(authorities, &at, &authority) == GNUTLS_E_SUCCESS) {
        is_whole = !leads_to(authority, chain, count) || note(authority, text_out);
        gnutls_x509_crt_deinit(authority);
    }
    if (at != NULL) gnutls_x509_trust_list_iter_deinit(at);
    if (!is_whole) text_out[0] = '\0';
}

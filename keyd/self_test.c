#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "crypto/ed25519.h"
#include "crypto/random.h"
#include "keyd/answer.h"
#include "keyd/token.h"
#include "keyd/token_keys.h"
#include "keyd/wrap.h"

static struct result test_wrapping(const struct keyd *keyd, struct error *err)
{
    struct key_binding binding = {.scope = {.region = "self/test"}};
    struct wrapped_key wrapped;
    uint8_t key[DATA_KEY_SIZE], again[DATA_KEY_SIZE], index[32];

    random_bytes(key, sizeof key);
    TRY(wrap_data_key(keyd->keyring, &binding, (struct bytes){key, sizeof key}, &wrapped, err));
    TRY(unwrap_data_key(keyd->keyring, &binding, &wrapped, again, err));
    TRY(subject_index(keyd->keyring, bytes_of_text("self"), bytes_of_text("test"), index, err));
    if (memcmp(key, again, sizeof key) != 0) return failure(err, ERROR_CORRUPT, "self test: wrapping");
    return SUCCESS;
}

static struct result test_token(const struct keyd *keyd, struct error *err)
{
    struct buffer OWNED_BUFFER token = BUFFER(KEYD_TOKEN_MAX);
    struct buffer OWNED_BUFFER signature = BUFFER(ECDSA_JOSE_SIZE);
    const struct bytes self = bytes_of_text("self");
    const struct keyd_token request = {.issuer = self, .audience = self, .subject = self, .source = self, .lifetime_s = 1};

    const int64_t now_s = clock_wall_ms() / 1000;

    TRY(token_sign(keyd->keyring, &request, now_s, &token, err));
    const size_t dot = (size_t)(strrchr(buffer_text(&token), '.') - buffer_text(&token));
    const struct bytes tail = {token.data + dot + 1, token.length - dot - 1};
    TRY(text_from_base64(&signature, BASE64_URL, tail, err));
    if (!ecdsa_verify_jose(token_keys_at(keyring_token_keys(keyd->keyring), now_s), (struct bytes){token.data, dot},
                           buffer_bytes(&signature)))
        return failure(err, ERROR_CORRUPT, "self test: tokens");
    return SUCCESS;
}

static struct result test_envelope(const struct keyd *keyd, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(DSSE_OVERHEAD);
    OWNED(dsse) *dsse = NULL;
    const struct ecdsa_key *signer = token_keys_at(keyring_token_keys(keyd->keyring), clock_wall_ms() / 1000);

    TRY(dsse_write("self/test", bytes_of_text("{}"), &signer, 1, &envelope, err));
    TRY(dsse_read(buffer_bytes(&envelope), DSSE_OVERHEAD, &dsse, err));
    return dsse_check_signer(dsse, signer, err);
}

static struct result test_log(const struct keyd *keyd, struct error *err)
{
    const struct bytes text = bytes_of_text("self test, which is no checkpoint\n");
    uint8_t signature[ED25519_SIGNATURE_SIZE];

    for (size_t i = 0; i < keyring_log_key_count(keyd->keyring); i++) {
        TRY(keyring_sign_log(keyd->keyring, i, text, signature, err));
        if (!ed25519_verify(keyring_log_key(keyd->keyring, i)->public_key, text, signature))
            return failure(err, ERROR_CORRUPT, "self test: the log key");
    }
    return SUCCESS;
}

struct result keyd_self_test(const struct keyd *keyd, struct error *err)
{
    TRY(test_wrapping(keyd, err));
    TRY(test_token(keyd, err));
    TRY(test_envelope(keyd, err));
    return test_log(keyd, err);
}

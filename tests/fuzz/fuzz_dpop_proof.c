/* The header DPoP of anybody, and the payload of a proof whose signature is right. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/act.h"
#include "authz/dpop.h"
#include "base/json.h"
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_S 1562262616 /* of the example of RFC 9449, 4.1 */

static struct dpop_nonces *make_nonces(void)
{
    struct dpop_nonces *nonces = NULL;
    struct keyd_nonces known = {.first = NOW_S / KEYD_NONCE_PERIOD_S - 1};
    struct error err = {0};

    assert(dpop_nonces_new(&nonces, &err).ok && dpop_nonces_set(nonces, &known, &err).ok);
    return nonces;
}

static void check_failure(const struct error *err)
{
    assert(err->kind == ERROR_INVALID && err->message[0] != '\0');
    for (const char *at = err->message; *at != '\0'; at++) assert(*at >= ' ' && *at <= '~'); /* it goes into a header */
}

static void check_proof(const struct dpop_proof *proof)
{
    assert(proof->key[0] == '\0' || strlen(proof->key) == DPOP_KEY_SIZE - 1);
    assert(proof->token[0] == '\0' || strlen(proof->token) == DPOP_TOKEN_LETTER);
}

static void read_claims(const char *text, const struct dpop_rule *rule)
{
    struct dpop_proof proof = {.key = ""};
    OWNED_JSON payload = NULL;
    struct error err = {0};

    if (!json_read(bytes_of_text(text), DPOP_SIZE_MAX, &payload, &err).ok || !json_is_object(payload)) return;
    err = (struct error){0};
    if (!dpop_read_claims(payload, rule, &proof, &err).ok) {
        check_failure(&err);
        return;
    }
    check_proof(&proof);
    assert(strcmp(json_text_of(payload, "htm"), rule->method) == 0 && json_text_of(payload, "jti")[0] != '\0');
    assert(!proof.is_fresh || json_text_of(payload, "nonce") != NULL);
}

/* As an event keeps it: what the gateway has taken, a verifier reads with the same key. */
static void read_kept(const char *text, const struct dpop_proof *taken)
{
    OWNED_SIGNED_ACT act = {.proof = {.claims = NULL}};
    struct error err = {0};

    if (!signed_act_read(text, &act, &err).ok) {
        check_failure(&err);
        assert(taken == NULL);
        return;
    }
    assert(act.method != NULL && act.target != NULL && act.body != NULL && strlen(act.proof.key) == DPOP_KEY_SIZE - 1);
    assert(taken == NULL || strcmp(act.proof.key, taken->key) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dpop_nonces *nonces = NULL;
    struct dpop_proof proof = {.key = ""};
    struct error err = {0};

    if (nonces == NULL) nonces = make_nonces();
    const struct dpop_rule rule = {.method = "POST",
                                   .url = "https://server.example.com",
                                   .path = bytes_of_text("/token"),
                                   .nonces = nonces,
                                   .now_ms = INT64_C(1000) * NOW_S};
    char *text = memory_zeroed(1, size + 1);
    assert(text != NULL);
    if (size > 0) memcpy(text, data, size);
    if (text[0] == '{') read_claims(text, &rule);
    else if (dpop_read(text, &rule, &proof, &err).ok) check_proof(&proof);
    else check_failure(&err);
    const struct act_rule act = {rule, bytes_of_text("/token?a=b"), {0}, "Bearer x"};
    err = (struct error){0};
    const bool is_taken = act_read(text, &act, &proof, &err).ok;
    if (is_taken) check_proof(&proof);
    else check_failure(&err);
    read_kept(text, is_taken ? &proof : NULL);
    free(text);
    return 0;
}

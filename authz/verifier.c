#include "authz/verifier.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include <oauth2/mem.h>
#include <oauth2/oauth2.h>

#include "authz/claims.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/ed25519.h"

#define LANES 4 /* threads that check with one key at the same time without waiting */

/* The library checks the signature only: it would take a time with a fraction for 0. The times are checked by authz/claims.h. */
#define OPTIONS "verify.cache=none&verify.exp=skip&verify.iat=skip"

struct lane {
    pthread_mutex_t lock;
    oauth2_cfg_token_verify_t *verify;
};

struct verifier {
    bool is_ed25519;
    uint8_t ed25519[ED25519_PUBLIC_SIZE];
    struct lane lanes[LANES]; /* not of Ed25519 */
};

/* liboauth2 makes a list of caches when the first verifier is configured. */
static pthread_mutex_t configuring = PTHREAD_MUTEX_INITIALIZER;

static struct result configure(struct lane *lane, const char *jwk, struct error *err)
{
    const unsigned before = json_lacks();

    if (fault_is_due(FAULT_MEMORY)) return failure(err, ERROR_NO_MEMORY, "no memory for a verifier");
    (void)pthread_mutex_lock(&configuring);
    char *problem = oauth2_cfg_token_verify_add_options(NULL, &lane->verify, "jwk", jwk, OPTIONS);
    (void)pthread_mutex_unlock(&configuring);
    const bool lacked = json_lacks() != before; /* after a lack of memory it may have read half of the key and report success */
    if (!lacked && problem == NULL && lane->verify != NULL) return SUCCESS;
    oauth2_mem_free(problem);
    if (lacked) return failure(err, ERROR_NO_MEMORY, "no memory for a verifier");
    return failure(err, ERROR_INVALID, "a key of the issuer can't be used: it is no valid point or modulus");
}

struct result verifier_new(const char *jwk, struct verifier **verifier_out, struct error *err)
{
    OWNED(verifier) *verifier = memory_zeroed(1, sizeof *verifier);

    if (verifier == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a verifier");
    for (size_t i = 0; i < LANES; i++) (void)pthread_mutex_init(&verifier->lanes[i].lock, NULL);
    for (size_t i = 0; i < LANES; i++) TRY(configure(&verifier->lanes[i], jwk, err));
    *verifier_out = GIVE(verifier);
    return SUCCESS;
}

struct result verifier_new_ed25519(const uint8_t public_key[32], struct verifier **verifier_out, struct error *err)
{
    struct verifier *verifier = memory_zeroed(1, sizeof *verifier);

    if (verifier == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a verifier");
    verifier->is_ed25519 = true;
    memcpy(verifier->ed25519, public_key, sizeof verifier->ed25519);
    *verifier_out = verifier;
    return SUCCESS;
}

/* RFC 7515, 5.2: the signature is of the two encoded segments with the dot between them. */
static struct result ask_ed25519(const struct verifier *verifier, const struct jws *token, bool *ok_out, struct error *err)
{
    struct buffer OWNED_BUFFER signature = BUFFER(ED25519_SIGNATURE_SIZE);
    const struct bytes segment = {token->text.data + token->signature_at, token->text.length - token->signature_at};
    const struct bytes said = {token->text.data, token->signature_at - 1};

    TRY(text_from_base64(&signature, BASE64_URL, segment, err));
    *ok_out = signature.length == ED25519_SIGNATURE_SIZE && ed25519_verify(verifier->ed25519, said, signature.data);
    return SUCCESS;
}

/* A free lane; if all are busy, waits for a lane that is fixed for this thread. */
static struct lane *take_lane(struct verifier *verifier)
{
    const size_t start = ((uintptr_t)pthread_self() >> 12) % LANES;

    for (size_t i = 0; i < LANES; i++) {
        struct lane *lane = &verifier->lanes[(start + i) % LANES];
        if (pthread_mutex_trylock(&lane->lock) == 0) return lane;
    }
    (void)pthread_mutex_lock(&verifier->lanes[start].lock);
    return &verifier->lanes[start];
}

/* From 2.2.0 on it also says which HTTP status it would answer with (authz/CMakeLists.txt). */
#if SIJIL_OAUTH2_HAS_STATUS
#define STATUS_ARGUMENT            \
    , &(oauth2_http_status_code_t) \
    {                              \
        0                          \
    }
#else
#define STATUS_ARGUMENT
#endif

static bool ask(struct lane *lane, const char *text)
{
    json_t *payload = NULL;
    const bool ok = oauth2_token_verify(NULL, NULL, lane->verify, text, &payload STATUS_ARGUMENT);

    json_decref(payload);
    return ok;
}

static struct result ask_library(struct verifier *verifier, const struct jws *token, bool *ok_out, struct error *err)
{
    if (fault_is_due(FAULT_MEMORY)) return failure(err, ERROR_NO_MEMORY, "no memory to check a token");
    OWNED_STRING text = memory_copy_text((const char *)token->text.data, token->text.length);
    if (text == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to check a token");

    const unsigned before = json_lacks();
    struct lane *lane = take_lane(verifier);
    const bool ok = ask(lane, text);
    (void)pthread_mutex_unlock(&lane->lock);
    if (json_lacks() != before) return failure(err, ERROR_NO_MEMORY, "no memory to check a token");
    *ok_out = ok;
    return SUCCESS;
}

struct result verifier_check(struct verifier *verifier, const struct jws *token, bool is_late, struct error *err)
{
    bool ok = false;

    TRY((verifier->is_ed25519 ? ask_ed25519(verifier, token, &ok, err) : ask_library(verifier, token, &ok, err)));
    TRY(claims_check_times(token->payload, clock_wall_ms() / 1000, is_late ? UINT_MAX : 0, err));
    if (ok) return SUCCESS;
    return failure(err, ERROR_DENIED, "the token's signature is not its issuer's");
}

static void lane_done(struct lane *lane)
{
    oauth2_cfg_token_verify_free(NULL, lane->verify);
    (void)pthread_mutex_destroy(&lane->lock);
}

void verifier_free(struct verifier *verifier)
{
    if (verifier == NULL) return;
    for (size_t i = 0; i < LANES && !verifier->is_ed25519; i++) lane_done(&verifier->lanes[i]);
    free(verifier);
}

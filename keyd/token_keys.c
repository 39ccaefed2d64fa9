#include "keyd/token_keys.h"

#include "base/memory.h"
#include "crypto/hkdf.h"
#include "crypto/secret.h"

struct token_keys {
    int64_t first; /* number of the period of the first key */
    struct ecdsa_key *each[TOKEN_KEYS_MADE];
};

static struct result derive(const uint8_t secret[32], uint64_t period, struct ecdsa_key **key_out, struct error *err)
{
    struct buffer OWNED_BUFFER info = BUFFER(64);
    OWNED(secret) *scalar = NULL;

    TRY(secret_new(ECDSA_SCALAR_SIZE, &scalar, err));
    for (uint8_t counter = 0; counter < 8; counter++) {
        buffer_clear(&info);
        TRY(buffer_add_text(&info, "sijil token key v1", err));
        TRY(buffer_add_u64(&info, period, err));
        TRY(buffer_add_u8(&info, counter, err));
        TRY(hkdf_sha256((struct bytes){secret, 32}, (struct bytes){0}, buffer_bytes(&info), scalar->bytes, ECDSA_SCALAR_SIZE,
                        err));
        const struct result made = ecdsa_key_from_scalar(scalar, key_out, err);
        if (made.ok || err->kind != ERROR_INVALID) return made;
    }
    return failure(err, ERROR_CORRUPT, "no token key can be derived from this key ring");
}

/* The first one is that of the period before, whose tokens may be in use. */
struct result token_keys_new(const uint8_t secret[32], int64_t now_s, struct token_keys **keys_out, struct error *err)
{
    OWNED(token_keys) *keys = memory_zeroed(1, sizeof *keys);

    if (keys == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the token keys");
    keys->first = now_s < TOKEN_KEY_PERIOD_S ? 0 : now_s / TOKEN_KEY_PERIOD_S - 1;
    for (size_t i = 0; i < TOKEN_KEYS_MADE; i++) TRY(derive(secret, (uint64_t)keys->first + i, &keys->each[i], err));
    *keys_out = GIVE(keys);
    return SUCCESS;
}

/* A clock that was set back must not end the service. */
static size_t place_at(const struct token_keys *keys, int64_t now_s)
{
    const int64_t place = now_s / TOKEN_KEY_PERIOD_S - keys->first;

    if (place < 0) return 0;
    return place < TOKEN_KEYS_MADE ? (size_t)place : TOKEN_KEYS_MADE - 1;
}

const struct ecdsa_key *token_keys_at(const struct token_keys *keys, int64_t now_s)
{
    return keys->each[place_at(keys, now_s)];
}

size_t token_keys_published(const struct token_keys *keys, int64_t now_s,
                            const struct ecdsa_key *published_out[KEYD_TOKEN_KEYS_MAX])
{
    const size_t place = place_at(keys, now_s);
    size_t count = 0;

    published_out[count++] = keys->each[place];
    if (place + 1 < TOKEN_KEYS_MADE) published_out[count++] = keys->each[place + 1];
    if (place > 0 && now_s % TOKEN_KEY_PERIOD_S < TOKEN_KEY_KEPT_S) published_out[count++] = keys->each[place - 1];
    return count;
}

void token_keys_free(struct token_keys *keys)
{
    if (keys == NULL) return;
    for (size_t i = 0; i < TOKEN_KEYS_MADE; i++) ecdsa_key_free(keys->each[i]);
    free(keys);
}

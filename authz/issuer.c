#include "authz/issuer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "authz/jwk.h"
#include "authz/verifier.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"

struct issuer_key {
    char kid[JWS_KID_SIZE];
    unsigned algorithms;
    size_t signature_size;
    uint64_t serial;
    struct verifier *verifier;
};

/* Immutable; a thread that verifies a token keeps it while another thread replaces it. */
struct key_set {
    atomic_uint owners;
    size_t count;
    struct issuer_key keys[ISSUER_KEYS_MAX];
};

struct issuer {
    atomic_uint owners;
    struct issuer_record record;
    char digest[ISSUER_DIGEST_SIZE];
    uint8_t jwks_sha256[SHA256_SIZE];
    _Atomic int64_t confirmed_ms;
    atomic_bool lacks_key; /* a token named a key that is not among them */
    struct issuer *self;   /* lets a holder of a const pointer take the lock */
    pthread_mutex_t lock;  /* of `keys`, the pointer */
    struct key_set *keys;
};

static void destroy_keys(struct key_set *set)
{
    for (size_t i = 0; i < set->count; i++) verifier_free(set->keys[i].verifier);
    free(set);
}

static void key_set_free(struct key_set *set)
{
    if (set != NULL && atomic_fetch_sub(&set->owners, 1) == 1) destroy_keys(set);
}
DEFINE_OWNED(key_set);

static struct key_set *take_keys(const struct issuer *issuer)
{
    struct issuer *shared = issuer->self;

    (void)pthread_mutex_lock(&shared->lock);
    struct key_set *keys = shared->keys;
    if (keys != NULL) atomic_fetch_add(&keys->owners, 1);
    (void)pthread_mutex_unlock(&shared->lock);
    return keys;
}

static const struct issuer_key *find_key(const struct key_set *set, const char *kid)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->keys[i].kid, kid) == 0) return &set->keys[i];
    return NULL;
}

/* The same key of the same issuer has the same serial in every snapshot, so that caches stay valid after a reload. */
static uint64_t serial_of(const struct issuer_record *record, const struct jwk *jwk)
{
    char text[JWK_TEXT_MAX + ISSUER_URL_SIZE + 1];
    uint8_t digest[SHA256_SIZE];

    const int length = snprintf(text, sizeof text, "%s\n%s", record->url, jwk->text);
    sha256_of((struct bytes){(const uint8_t *)text, (size_t)length}, digest);
    return load_u64(digest) | 1; /* 0 means none */
}

static struct result add_key(const struct issuer_record *record, const struct jwk *jwk, struct key_set *set, struct error *err)
{
    if (find_key(set, jwk->kid) != NULL)
        return failure(err, ERROR_INVALID, "the key set of %.150s has the same kid twice", record->url);
    if (set->count == ISSUER_KEYS_MAX)
        return failure(err, ERROR_LIMIT, "the key set of %.150s has more than %d keys", record->url, ISSUER_KEYS_MAX);

    struct issuer_key *key = &set->keys[set->count];
    TRY(jwk->algorithms == 1U << JOSE_EDDSA ? verifier_new_ed25519(jwk->ed25519, &key->verifier, err)
                                            : verifier_new(jwk->text, &key->verifier, err));
    memcpy(key->kid, jwk->kid, sizeof key->kid);
    key->algorithms = jwk->algorithms & record->algorithms;
    key->signature_size = jwk->signature_size;
    key->serial = serial_of(record, jwk);
    set->count++;
    return SUCCESS;
}

static struct result fill_keys(const struct issuer_record *record, const char *jwks, struct key_set *set, struct error *err)
{
    OWNED_JSON keys = NULL;
    const json_t *key;
    struct jwk jwk;
    size_t i, unnamed = 0;

    TRY(jwks_read(bytes_of_text(jwks), ISSUER_JWKS_MAX, &keys, err));
    json_array_foreach (keys, i, key) {
        TRY(jwk_read(key, &jwk, err));
        unnamed += jwk.lacks_kid;
        if (jwk.is_usable && (jwk.algorithms & record->algorithms) != 0) TRY(add_key(record, &jwk, set, err));
    }
    if (set->count > 0 || record->follows)
        return SUCCESS; /* the keys of one that is followed are renewed, and were checked when they came */
    if (unnamed > 0 && unnamed == json_array_size(keys))
        return failure(err, ERROR_INVALID,
                       "no key of %.120s has a kid of 1 to %d of A-Z a-z 0-9 -_.:/=+@~, and tokens name their key by it",
                       record->url, JWS_KID_SIZE - 1);
    return failure(err, ERROR_INVALID, "the key set of %.150s has no key that is accepted here", record->url);
}

/* The keys of an issuer that is followed are not known before it was asked. */
static struct result read_keys(const struct issuer_record *record, const char *jwks, struct key_set **set_out, struct error *err)
{
    struct key_set *set = memory_zeroed(1, sizeof *set);
    const bool is_unasked = record->follows && jwks[0] == '\0';

    if (set == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of an issuer");
    atomic_init(&set->owners, 1);
    if (!is_unasked && !fill_keys(record, jwks, set, err).ok) {
        destroy_keys(set);
        return (struct result){.ok = false};
    }
    *set_out = set;
    return SUCCESS;
}

/*
 * OpenID Connect Discovery 1.0 section 2: a URL without query and fragment. `iss` is compared byte by byte, so only
 * one spelling is valid.
 */
bool issuer_url_is_valid(const char *url)
{
    static const char scheme[] = "https://";
    const size_t begin = sizeof scheme - 1;

    if (strncmp(url, scheme, begin) != 0) return false;
    const char *host = url + begin;
    const size_t length = strcspn(host, "/");
    if (length == 0 || host[0] == ':' || host[0] == '.' || host[length - 1] == ':') return false;
    if (strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789.-:[]") < length)
        return false; /* no user, no percent escapes, no capital
                                                                                             letters */
    for (const char *at = host + length; *at != '\0'; at++)
        if (*at <= ' ' || *at >= 0x7f || strchr("?#\\\"<>^`{|}@", *at) != NULL) return false;
    return true;
}

static struct result check_record(const struct issuer_record *record, struct error *err)
{
    if (!issuer_url_is_valid(record->url)) return failure(err, ERROR_INVALID, ISSUER_URL_RULE);
    if (record->audience[0] == '\0') return failure(err, ERROR_INVALID, "an issuer needs an audience");
    if (record->lifetime_max_s == 0 || record->lifetime_max_s > ISSUER_LIFETIME_MAX_S)
        return failure(err, ERROR_INVALID, "tokens may live 1 to %d seconds", ISSUER_LIFETIME_MAX_S);
    if (record->jwks == NULL) return failure(err, ERROR_INVALID, "an issuer needs a key set");
    return SUCCESS;
}

static void hash_jwks(const struct issuer_record *record, uint8_t sha256_out[SHA256_SIZE])
{
    sha256_of(bytes_of_text(record->jwks), sha256_out);
}

struct result issuer_new(const struct issuer_record *record, struct issuer **issuer_out, struct error *err)
{
    TRY(check_record(record, err));
    OWNED(issuer) *issuer = memory_zeroed(1, sizeof *issuer);
    if (issuer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an issuer");
    (void)pthread_mutex_init(&issuer->lock, NULL);
    atomic_init(&issuer->owners, 1);
    issuer->self = issuer;
    atomic_init(&issuer->confirmed_ms, record->confirmed_ms);
    hash_jwks(record, issuer->jwks_sha256);
    issuer->record = *record;
    issuer->record.jwks = NULL;
    issuer_digest_of(record->url, issuer->digest);
    TRY(read_keys(record, record->jwks, &issuer->keys, err));
    *issuer_out = GIVE(issuer);
    return SUCCESS;
}

struct result issuer_replace_keys(struct issuer *issuer, const char *jwks, struct error *err)
{
    struct key_set *fresh = NULL;

    TRY(read_keys(&issuer->record, jwks, &fresh, err));
    (void)pthread_mutex_lock(&issuer->lock);
    struct key_set *old = issuer->keys;
    issuer->keys = fresh;
    (void)pthread_mutex_unlock(&issuer->lock);
    key_set_free(old);
    return SUCCESS;
}

bool issuer_equals(const struct issuer *issuer, const struct issuer_record *record)
{
    const struct issuer_record *own = &issuer->record;
    uint8_t sha256[SHA256_SIZE];

    if (!uuid_equal(&own->id, &record->id) || strcmp(own->url, record->url) != 0 ||
        strcmp(own->audience, record->audience) != 0 || own->algorithms != record->algorithms || own->types != record->types ||
        own->lifetime_max_s != record->lifetime_max_s || own->follows != record->follows)
        return false;
    hash_jwks(record, sha256);
    if (memcmp(sha256, issuer->jwks_sha256, sizeof sha256) != 0) return false;
    issuer_confirm(issuer, record->confirmed_ms);
    return true;
}

void issuer_confirm(const struct issuer *issuer, int64_t confirmed_ms)
{
    if (confirmed_ms > atomic_load(&issuer->confirmed_ms)) atomic_store(&issuer->self->confirmed_ms, confirmed_ms);
}

struct issuer *issuer_keep(const struct issuer *issuer)
{
    atomic_fetch_add(&issuer->self->owners, 1);
    return issuer->self;
}

bool issuer_take_wish(const struct issuer *issuer)
{
    return atomic_load(&issuer->lacks_key) && atomic_exchange(&issuer->self->lacks_key, false);
}

const struct issuer_record *issuer_record_of(const struct issuer *issuer)
{
    return &issuer->record;
}

void issuer_digest_of(const char *url, char digest_out[ISSUER_DIGEST_SIZE])
{
    uint8_t digest[SHA256_SIZE];

    sha256_of(bytes_of_text(url), digest);
    text_hex(digest, sizeof digest / 2, digest_out);
}

const char *issuer_digest(const struct issuer *issuer)
{
    return issuer->digest;
}

/* 4 letters stand for 3 bytes, without padding. */
static size_t decoded_size(size_t letters)
{
    return letters / 4 * 3 + (letters % 4 == 0 ? 0 : letters % 4 - 1);
}

static bool key_fits(const struct issuer_key *key, const struct jws *token)
{
    return (key->algorithms & 1U << token->algorithm) != 0 &&
           decoded_size(token->text.length - token->signature_at) == key->signature_size;
}

/* A key that the issuer may have withdrawn long ago must not count for ever because the issuer can't be reached. */
static bool is_stale(const struct issuer *issuer)
{
    return issuer->record.follows && clock_wall_ms() - atomic_load(&issuer->confirmed_ms) > ISSUER_STALE_S * INT64_C(1000);
}

static struct result refuse_key(const struct issuer *issuer, struct error *err)
{
    if (!issuer->record.follows) return failure(err, ERROR_DENIED, "the token's kid names no key of its issuer");
    atomic_store(&issuer->self->lacks_key, true);
    if (atomic_load(&issuer->confirmed_ms) == 0)
        return failure(
            err, ERROR_DENIED,
            "the keys of the token's issuer could not be fetched yet: an administrator sees why with sijil admin issuer show");
    return failure(
        err, ERROR_DENIED,
        "the token's kid names no key of its issuer; its keys are fetched again, so a new key counts within 30 seconds");
}

struct result issuer_verify(const struct issuer *issuer, const struct jws *token, bool is_late, struct error *err)
{
    OWNED(key_set) *keys = take_keys(issuer);

    if (strcmp(token->issuer, issuer->record.url) != 0) return failure(err, ERROR_DENIED, "the token is another issuer's");
    if ((issuer->record.types & 1U << token->type) == 0)
        return failure(err, ERROR_DENIED, "the token's typ is not accepted from its issuer");
    if ((issuer->record.algorithms & 1U << token->algorithm) == 0)
        return failure(err, ERROR_DENIED, "the token's alg is not accepted from its issuer");
    const struct issuer_key *key = find_key(keys, token->kid);
    if (key == NULL) return refuse_key(issuer, err);
    if (is_stale(issuer))
        return failure(
            err, ERROR_DENIED,
            "the token's issuer has not confirmed its keys for a day: an administrator sees why with sijil admin issuer show");
    if (!key_fits(key, token)) return failure(err, ERROR_DENIED, "the token's alg does not fit the key that it names");
    return verifier_check(key->verifier, token, is_late, err);
}

uint64_t issuer_key_serial(const struct issuer *issuer, const struct jws *token)
{
    OWNED(key_set) *keys = take_keys(issuer);
    const struct issuer_key *key = find_key(keys, token->kid);

    if (key == NULL || !key_fits(key, token) || is_stale(issuer)) return 0;
    return (issuer->record.types & 1U << token->type) == 0 ? 0 : key->serial;
}

void issuer_free(struct issuer *issuer)
{
    if (issuer == NULL || atomic_fetch_sub(&issuer->owners, 1) != 1) return;
    key_set_free(issuer->keys);
    (void)pthread_mutex_destroy(&issuer->lock);
    free(issuer);
}

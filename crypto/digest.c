/* The only file with OpenSSL's plain SHA contexts, because EVP contexts can't be exported in OpenSSL 3.0. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "crypto/digest.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static const char state_magic[8] = {'S', 'J', 'S', 'H', 'A', '2', '5', '6'};
static const char state_magic_512[8] = {'S', 'J', 'S', 'H', 'A', '5', '1', '2'};
enum { STATE_WORDS = 8, STATE_LENGTH = 40, STATE_TAIL = 48, STATE_LENGTH_512 = 72, STATE_TAIL_512 = 80 };
_Static_assert(STATE_TAIL + SHA256_CBLOCK == HASHER_STATE_SIZE, "the layout of digest.h");
_Static_assert(STATE_TAIL_512 + SHA512_CBLOCK == HASHER_STATE_MAX, "the layout of digest.h");

struct hasher {
    enum digest_algorithm algorithm;
    uint64_t length; /* bytes; SHA-2 counts bits in a u64, so the maximum is 2^61 - 1 */
    union {
        SHA256_CTX sha256;
        SHA512_CTX sha512;
    } context;
};

size_t digest_size(enum digest_algorithm algorithm)
{
    return algorithm == DIGEST_SHA512 ? SHA512_DIGEST_LENGTH : SHA256_DIGEST_LENGTH;
}

static const char *prefix_of(enum digest_algorithm algorithm)
{
    return algorithm == DIGEST_SHA512 ? "sha512:" : "sha256:";
}

struct result digest_parse(struct bytes text, struct digest *digest_out, struct error *err)
{
    const size_t prefix = strlen("sha256:");

    for (enum digest_algorithm algorithm = DIGEST_SHA256; algorithm <= DIGEST_SHA512; algorithm++) {
        struct digest digest = {.algorithm = algorithm};
        if (text.length < prefix || memcmp(text.data, prefix_of(algorithm), prefix) != 0) continue;
        if (!text_from_hex((struct bytes){text.data + prefix, text.length - prefix}, digest.bytes, digest_size(algorithm))) break;
        *digest_out = digest;
        return SUCCESS;
    }
    return failure(err, ERROR_INVALID, "a digest must be \"sha256:\" and 64, or \"sha512:\" and 128 lower-case hex digits");
}

void digest_format(const struct digest *digest, char text_out[DIGEST_TEXT_SIZE])
{
    const size_t prefix = strlen("sha256:");

    memcpy(text_out, prefix_of(digest->algorithm), prefix);
    text_hex(digest->bytes, digest_size(digest->algorithm), text_out + prefix);
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
    return a->algorithm == b->algorithm && memcmp(a->bytes, b->bytes, digest_size(a->algorithm)) == 0;
}

void sha256_of(struct bytes bytes, uint8_t out[SHA256_SIZE])
{
    SHA256_CTX context;

    SHA256_Init(&context);
    SHA256_Update(&context, bytes.data, bytes.length);
    SHA256_Final(out, &context);
    OPENSSL_cleanse(&context, sizeof context);
}

static void start(struct hasher *hasher, enum digest_algorithm algorithm)
{
    hasher->algorithm = algorithm;
    if (algorithm == DIGEST_SHA512) SHA512_Init(&hasher->context.sha512);
    else SHA256_Init(&hasher->context.sha256);
}

struct digest digest_of(enum digest_algorithm algorithm, struct bytes bytes)
{
    struct hasher hasher = {0};

    start(&hasher, algorithm);
    hasher_add(&hasher, bytes);
    const struct digest digest = hasher_digest(&hasher);
    OPENSSL_cleanse(&hasher, sizeof hasher);
    return digest;
}

struct result hasher_new(enum digest_algorithm algorithm, struct hasher **hasher_out, struct error *err)
{
    struct hasher *hasher = memory_zeroed(1, sizeof *hasher);

    if (hasher == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a hasher");
    start(hasher, algorithm);
    *hasher_out = hasher;
    return SUCCESS;
}

void hasher_add(struct hasher *hasher, struct bytes bytes)
{
    if (hasher->algorithm == DIGEST_SHA512) SHA512_Update(&hasher->context.sha512, bytes.data, bytes.length);
    else SHA256_Update(&hasher->context.sha256, bytes.data, bytes.length);
    hasher->length += bytes.length;
}

struct digest hasher_digest(const struct hasher *hasher)
{
    struct hasher copy = *hasher;
    struct digest digest = {.algorithm = hasher->algorithm};

    if (hasher->algorithm == DIGEST_SHA512) SHA512_Final(digest.bytes, &copy.context.sha512);
    else SHA256_Final(digest.bytes, &copy.context.sha256);
    OPENSSL_cleanse(&copy, sizeof copy);
    return digest;
}

uint64_t hasher_length(const struct hasher *hasher)
{
    return hasher->length;
}

enum digest_algorithm hasher_algorithm(const struct hasher *hasher)
{
    return hasher->algorithm;
}

static void export_sha512(const struct hasher *hasher, uint8_t *state_out)
{
    const SHA512_CTX *context = &hasher->context.sha512;

    assert(context->num == hasher->length % SHA512_CBLOCK);
    memset(state_out, 0, HASHER_STATE_MAX);
    memcpy(state_out, state_magic_512, sizeof state_magic_512);
    for (size_t i = 0; i < 8; i++) store_u64(state_out + STATE_WORDS + 8 * i, context->h[i]);
    store_u64(state_out + STATE_LENGTH_512, hasher->length);
    memcpy(state_out + STATE_TAIL_512, context->u.p, context->num);
}

static void export_sha256(const struct hasher *hasher, uint8_t *state_out)
{
    const SHA256_CTX *context = &hasher->context.sha256;

    assert(context->num == hasher->length % SHA256_CBLOCK);
    memset(state_out, 0, HASHER_STATE_SIZE);
    memcpy(state_out, state_magic, sizeof state_magic);
    for (size_t i = 0; i < 8; i++) store_u32(state_out + STATE_WORDS + 4 * i, context->h[i]);
    store_u64(state_out + STATE_LENGTH, hasher->length);
    memcpy(state_out + STATE_TAIL, context->data, context->num);
}

size_t hasher_export(const struct hasher *hasher, uint8_t *state_out)
{
    if (hasher->algorithm == DIGEST_SHA512) {
        export_sha512(hasher, state_out);
        return HASHER_STATE_MAX;
    }
    export_sha256(hasher, state_out);
    return HASHER_STATE_SIZE;
}

static void import_sha256(struct hasher *hasher, const uint8_t *state)
{
    SHA256_CTX *context = &hasher->context.sha256;

    hasher->length = load_u64(state + STATE_LENGTH);
    for (size_t i = 0; i < 8; i++) context->h[i] = load_u32(state + STATE_WORDS + 4 * i);
    context->num = (unsigned)(hasher->length % SHA256_CBLOCK);
    context->Nl = (SHA_LONG)(hasher->length << 3 & 0xffffffff);
    context->Nh = (SHA_LONG)(hasher->length >> 29);
    memcpy(context->data, state + STATE_TAIL, context->num);
}

static void import_sha512(struct hasher *hasher, const uint8_t *state)
{
    SHA512_CTX *context = &hasher->context.sha512;

    hasher->length = load_u64(state + STATE_LENGTH_512);
    for (size_t i = 0; i < 8; i++) context->h[i] = load_u64(state + STATE_WORDS + 8 * i);
    context->num = (unsigned)(hasher->length % SHA512_CBLOCK);
    context->Nl = hasher->length << 3; /* Nh stays 0: no length here reaches 2^61 bytes */
    memcpy(context->u.p, state + STATE_TAIL_512, context->num);
}

/* Before the first whole block the hash value must be the initial one, and after the tail there may be only zeros.
 * Exporting the imported state checks both: an export starts from zeros, and a new hasher from the initial value. */
static bool state_is_possible(const struct hasher *imported, struct bytes state)
{
    uint8_t again[HASHER_STATE_MAX], fresh[HASHER_STATE_MAX];
    const size_t block = imported->algorithm == DIGEST_SHA512 ? SHA512_CBLOCK : SHA256_CBLOCK;
    const size_t words = imported->algorithm == DIGEST_SHA512 ? 64 : 32;
    struct hasher unused = {0};

    (void)hasher_export(imported, again);
    start(&unused, imported->algorithm);
    (void)hasher_export(&unused, fresh);
    const bool is_possible = memcmp(again, state.data, state.length) == 0 &&
                             (imported->length >= block || memcmp(again + STATE_WORDS, fresh + STATE_WORDS, words) == 0);
    OPENSSL_cleanse(again, sizeof again);
    return is_possible;
}

struct result hasher_import(struct bytes state, struct hasher **hasher_out, struct error *err)
{
    const bool is_sha512 = state.length == HASHER_STATE_MAX;
    OWNED(hasher) *hasher = NULL;

    if ((state.length != HASHER_STATE_SIZE && !is_sha512) ||
        load_u64(state.data + (is_sha512 ? STATE_LENGTH_512 : STATE_LENGTH)) >= UINT64_C(1) << 61)
        return failure(err, ERROR_CORRUPT, "this is not the state of a hasher");
    TRY(hasher_new(is_sha512 ? DIGEST_SHA512 : DIGEST_SHA256, &hasher, err));
    if (is_sha512) import_sha512(hasher, state.data);
    else import_sha256(hasher, state.data);
    if (!state_is_possible(hasher, state)) return failure(err, ERROR_CORRUPT, "this is not the state of a hasher");
    *hasher_out = GIVE(hasher);
    return SUCCESS;
}

void hasher_free(struct hasher *hasher)
{
    if (hasher != NULL) OPENSSL_cleanse(hasher, sizeof *hasher);
    free(hasher);
}

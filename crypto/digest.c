/* The one file with OpenSSL's plain SHA contexts: EVP contexts can't be exported in OpenSSL 3.0. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "crypto/digest.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static const char state_magic[8] = {'S', 'J', 'S', 'H', 'A', '2', '5', '6'};
enum { STATE_WORDS = 8, STATE_LENGTH = 40, STATE_TAIL = 48 };
_Static_assert(STATE_TAIL + SHA256_CBLOCK == HASHER_STATE_SIZE, "the layout of digest.h");

struct hasher {
    enum digest_algorithm algorithm;
    uint64_t length; /* bytes; SHA-2 counts bits in a u64, so 2^61 - 1 is the most */
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
        if (!text_from_hex((struct bytes){text.data + prefix, text.length - prefix}, digest.bytes,
                           digest_size(algorithm)))
            break;
        *digest_out = digest;
        return SUCCESS;
    }
    return failure(err, ERROR_INVALID,
                   "a digest must be \"sha256:\" and 64, or \"sha512:\" and 128 lower-case hex digits");
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
    if (algorithm == DIGEST_SHA512)
        SHA512_Init(&hasher->context.sha512);
    else
        SHA256_Init(&hasher->context.sha256);
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
    if (hasher->algorithm == DIGEST_SHA512)
        SHA512_Update(&hasher->context.sha512, bytes.data, bytes.length);
    else
        SHA256_Update(&hasher->context.sha256, bytes.data, bytes.length);
    hasher->length += bytes.length;
}

struct digest hasher_digest(const struct hasher *hasher)
{
    struct hasher copy = *hasher;
    struct digest digest = {.algorithm = hasher->algorithm};

    if (hasher->algorithm == DIGEST_SHA512)
        SHA512_Final(digest.bytes, &copy.context.sha512);
    else
        SHA256_Final(digest.bytes, &copy.context.sha256);
    OPENSSL_cleanse(&copy, sizeof copy);
    return digest;
}

uint64_t hasher_length(const struct hasher *hasher)
{
    return hasher->length;
}

void hasher_export(const struct hasher *hasher, uint8_t state_out[HASHER_STATE_SIZE])
{
    const SHA256_CTX *context = &hasher->context.sha256;

    assert(hasher->algorithm == DIGEST_SHA256);
    assert(context->num == hasher->length % SHA256_CBLOCK);
    memset(state_out, 0, HASHER_STATE_SIZE);
    memcpy(state_out, state_magic, sizeof state_magic);
    for (size_t i = 0; i < 8; i++) store_u32(state_out + STATE_WORDS + 4 * i, context->h[i]);
    store_u64(state_out + STATE_LENGTH, hasher->length);
    memcpy(state_out + STATE_TAIL, context->data, context->num);
}

/* Before the first whole block the hash value is the initial one; after the tail there are only zeros. */
static bool state_is_possible(const uint8_t *state)
{
    const uint64_t length = load_u64(state + STATE_LENGTH);
    SHA256_CTX fresh;

    if (memcmp(state, state_magic, sizeof state_magic) != 0 || length >= UINT64_C(1) << 61) return false;
    for (size_t i = length % SHA256_CBLOCK; i < SHA256_CBLOCK; i++)
        if (state[STATE_TAIL + i] != 0) return false;
    SHA256_Init(&fresh);
    for (size_t i = 0; i < 8 && length < SHA256_CBLOCK; i++)
        if (load_u32(state + STATE_WORDS + 4 * i) != fresh.h[i]) return false;
    return true;
}

struct result hasher_import(struct bytes state, struct hasher **hasher_out, struct error *err)
{
    if (state.length != HASHER_STATE_SIZE || !state_is_possible(state.data))
        return failure(err, ERROR_CORRUPT, "this is not the state of a SHA-256 hasher");

    OWNED(hasher) *hasher = NULL;
    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    SHA256_CTX *context = &hasher->context.sha256;
    hasher->length = load_u64(state.data + STATE_LENGTH);
    for (size_t i = 0; i < 8; i++) context->h[i] = load_u32(state.data + STATE_WORDS + 4 * i);
    context->num = (unsigned)(hasher->length % SHA256_CBLOCK);
    context->Nl = (SHA_LONG)(hasher->length << 3);
    context->Nh = (SHA_LONG)(hasher->length >> 29);
    memcpy(context->data, state.data + STATE_TAIL, context->num);
    *hasher_out = GIVE(hasher);
    return SUCCESS;
}

void hasher_free(struct hasher *hasher)
{
    if (hasher != NULL) OPENSSL_cleanse(hasher, sizeof *hasher);
    free(hasher);
}

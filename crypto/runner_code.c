#include "crypto/runner_code.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/random.h"

#define PREFIX      "sjr_"
#define BINARY_SIZE (sizeof(struct uuid) + RUNNER_CODE_SECRET)
#define MESSAGE_MAX 1024 /* an audience has at most 127 bytes, a code and a digest 140 */

_Static_assert(RUNNER_CODE_SIZE == sizeof PREFIX + BINARY_SIZE / 3 * 4, "base64url needs no padding");

struct runner_code runner_code_new(const struct uuid *runner)
{
    struct runner_code code = {.runner = *runner};

    random_bytes(code.secret, sizeof code.secret);
    return code;
}

/* Of full groups of three bytes, so it needs no memory. */
static void encode(const uint8_t *from, size_t length, char *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    for (size_t i = 0; i + 2 < length; i += 3, to += 4) {
        const uint32_t group = (uint32_t)from[i] << 16 | (uint32_t)from[i + 1] << 8 | from[i + 2];
        for (unsigned j = 0; j < 4; j++) to[j] = digits[group >> (18 - 6 * j) & 63];
    }
    *to = '\0';
}

void runner_code_write(const struct runner_code *code, char text_out[RUNNER_CODE_SIZE])
{
    uint8_t binary[BINARY_SIZE];

    memcpy(binary, code->runner.bytes, sizeof code->runner);
    memcpy(binary + sizeof code->runner, code->secret, sizeof code->secret);
    memcpy(text_out, PREFIX, strlen(PREFIX));
    encode(binary, sizeof binary, text_out + strlen(PREFIX));
    secret_wipe(binary, sizeof binary);
}

bool runner_code_read(struct bytes text, struct runner_code *code_out)
{
    const size_t prefix = strlen(PREFIX);
    uint8_t binary[BINARY_SIZE];
    struct runner_code code;

    if (text.length != RUNNER_CODE_SIZE - 1 || memcmp(text.data, PREFIX, prefix) != 0) return false;
    const bool is_code =
        text_from_base64_exactly(BASE64_URL, (struct bytes){text.data + prefix, text.length - prefix}, binary, sizeof binary);
    memcpy(code.runner.bytes, binary, sizeof code.runner);
    memcpy(code.secret, binary + sizeof code.runner, sizeof code.secret);
    if (is_code) *code_out = code;
    secret_wipe(binary, sizeof binary);
    secret_wipe(&code, sizeof code);
    return is_code;
}

void runner_code_hash(const struct runner_code *code, uint8_t hash_out[32])
{
    sha256_of((struct bytes){code->secret, sizeof code->secret}, hash_out);
}

/* ---- proofs ---- */

static struct result write_message(const struct runner_proof *proof, struct buffer *message, struct error *err)
{
    return buffer_format(message, err, "sijil runner proof v1\n%s\n%s\n%s\n%s\n", proof->purpose, proof->audience,
                         proof->issued_at, proof->about);
}

struct result runner_proof_sign(const struct runner_proof *proof, const struct ecdsa_key *key, char text_out[RUNNER_PROOF_SIZE],
                                struct error *err)
{
    struct buffer OWNED_BUFFER message = BUFFER(MESSAGE_MAX);
    struct buffer OWNED_BUFFER text = BUFFER(RUNNER_PROOF_SIZE - 1);
    uint8_t signature[ECDSA_JOSE_SIZE];

    TRY(write_message(proof, &message, err));
    TRY(ecdsa_sign_jose(key, buffer_bytes(&message), signature, err));
    TRY(text_base64(&text, BASE64_URL, (struct bytes){signature, sizeof signature}, err));
    (void)snprintf(text_out, RUNNER_PROOF_SIZE, "%s", buffer_text(&text));
    return SUCCESS;
}

struct result runner_proof_check(const struct runner_proof *proof, const uint8_t point[ECDSA_PUBLIC_SIZE], const char *text,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER message = BUFFER(MESSAGE_MAX);
    OWNED(ecdsa_key) *key = NULL;
    uint8_t signature[ECDSA_JOSE_SIZE];

    TRY(write_message(proof, &message, err));
    TRY(ecdsa_key_from_public(point, &key, err));
    if (text_from_base64_exactly(BASE64_URL, bytes_of_text(text), signature, sizeof signature) &&
        ecdsa_verify_jose(key, buffer_bytes(&message), (struct bytes){signature, sizeof signature}))
        return SUCCESS;
    return failure(err, ERROR_DENIED, "the proof is not a signature of the runner's key for this registry");
}

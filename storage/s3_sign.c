#include "storage/s3_sign.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/hmac.h"
#include "crypto/secret.h"

enum {
    ENCODED_MAX = 8192, /* of a name or a value: an upload id of a thousand characters, each three times as long, fits */
    CANONICAL_MAX = 65536,
    HEX_SIZE = 2 * SHA256_SIZE + 1,
    DAY_LENGTH = 8, /* "20150830" */
};

void s3_time_format(int64_t wall_ms, char text_out[S3_TIME_SIZE])
{
    static const uint8_t kept[S3_TIME_SIZE - 1] = {0, 1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 14, 15, 17, 18, 23};
    char whole[CLOCK_TEXT_SIZE]; /* "2015-08-30T12:36:00.000Z" */

    clock_format(wall_ms, whole);
    for (size_t i = 0; i < sizeof kept; i++) text_out[i] = whole[kept[i]];
    text_out[S3_TIME_SIZE - 1] = '\0';
}

/* RFC 3986's unreserved characters, which are never encoded. */
static bool is_plain(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '-' || letter == '.' || letter == '_' || letter == '~';
}

struct result s3_encode(struct buffer *out, const char *text, bool is_path, struct error *err)
{
    for (; *text != '\0'; text++) {
        if (is_plain(*text) || (is_path && *text == '/')) TRY(buffer_add(out, text, 1, err));
        else TRY(buffer_format(out, err, "%%%02X", (unsigned)(uint8_t)*text));
    }
    return SUCCESS;
}

static int compare_encoded(const struct s3_pair *a, const struct s3_pair *b)
{
    const int names = strcmp(a->name, b->name);
    return names != 0 ? names : strcmp(a->value, b->value);
}

/* Stable: equal names keep their order. */
static void sort(struct s3_pair *pairs, size_t count, int (*compare)(const struct s3_pair *, const struct s3_pair *))
{
    for (size_t i = 1; i < count; i++) {
        const struct s3_pair pair = pairs[i];
        size_t at = i;
        for (; at > 0 && compare(&pairs[at - 1], &pair) > 0; at--) pairs[at] = pairs[at - 1];
        pairs[at] = pair;
    }
}

struct encoded {
    struct buffer names[S3_PAIRS_MAX], values[S3_PAIRS_MAX];
};

static void encoded_done(struct encoded *encoded)
{
    for (size_t i = 0; i < S3_PAIRS_MAX; i++) {
        buffer_done(&encoded->names[i]);
        buffer_done(&encoded->values[i]);
    }
}

static struct result format_query(struct encoded *encoded, const struct s3_pair *query, size_t count, struct buffer *out,
                                  struct error *err)
{
    struct s3_pair sorted[S3_PAIRS_MAX];

    for (size_t i = 0; i < count; i++) {
        encoded->names[i] = BUFFER(ENCODED_MAX);
        encoded->values[i] = BUFFER(ENCODED_MAX);
        TRY(s3_encode(&encoded->names[i], query[i].name, false, err));
        TRY(s3_encode(&encoded->values[i], query[i].value, false, err));
        sorted[i] = (struct s3_pair){buffer_text(&encoded->names[i]), buffer_text(&encoded->values[i])};
    }
    sort(sorted, count, compare_encoded);
    for (size_t i = 0; i < count; i++)
        TRY(buffer_format(out, err, "%s%s=%s", i == 0 ? "" : "&", sorted[i].name, sorted[i].value));
    return SUCCESS;
}

struct result s3_query_format(const struct s3_pair *query, size_t count, struct buffer *out, struct error *err)
{
    struct encoded encoded = {0};

    if (count > S3_PAIRS_MAX) return failure(err, ERROR_LIMIT, "a query of %zu members", count);
    const struct result result = format_query(&encoded, query, count, out, err);
    encoded_done(&encoded);
    return result;
}

static int compare_names(const struct s3_pair *a, const struct s3_pair *b)
{
    return strcmp(a->name, b->name);
}

/* The value without spaces at its ends, and with one space in place of several. */
static struct result add_trimmed(struct buffer *out, const char *value, struct error *err)
{
    const size_t length = out->length;

    for (; *value != '\0'; value++) {
        const bool is_first = out->length == length;
        if (*value == ' ' && (is_first || out->data[out->length - 1] == ' ')) continue;
        TRY(buffer_add(out, value, 1, err));
    }
    if (out->length > length && out->data[out->length - 1] == ' ') out->data[--out->length] = '\0';
    return SUCCESS;
}

static bool same_as_before(const struct s3_pair *sorted, size_t i)
{
    return i > 0 && strcmp(sorted[i - 1].name, sorted[i].name) == 0;
}

static struct result add_headers(struct buffer *out, const struct s3_pair *sorted, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (same_as_before(sorted, i)) TRY(buffer_add_text(out, ",", err));
        else TRY(buffer_format(out, err, "%s%s:", i == 0 ? "" : "\n", sorted[i].name));
        TRY(add_trimmed(out, sorted[i].value, err));
    }
    return buffer_add_text(out, "\n\n", err);
}

static struct result add_names(struct buffer *out, const struct s3_pair *sorted, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!same_as_before(sorted, i)) TRY(buffer_format(out, err, "%s%s", i == 0 ? "" : ";", sorted[i].name));
    return SUCCESS;
}

static struct result sort_headers(const struct s3_signable *request, struct s3_pair sorted[S3_PAIRS_MAX], struct error *err)
{
    if (request->header_count == 0 || request->header_count > S3_PAIRS_MAX)
        return failure(err, ERROR_LIMIT, "a request with %zu headers", request->header_count);
    memcpy(sorted, request->headers, request->header_count * sizeof *sorted);
    sort(sorted, request->header_count, compare_names);
    return SUCCESS;
}

struct result s3_canonical_request(const struct s3_signable *request, struct buffer *out, struct error *err)
{
    struct s3_pair sorted[S3_PAIRS_MAX];

    TRY(sort_headers(request, sorted, err));
    TRY(buffer_format(out, err, "%s\n%s\n", request->method, request->path));
    TRY(s3_query_format(request->query, request->query_count, out, err));
    TRY(buffer_add_text(out, "\n", err));
    TRY(add_headers(out, sorted, request->header_count, err));
    TRY(add_names(out, sorted, request->header_count, err));
    return buffer_format(out, err, "\n%s", request->payload_hash);
}

/* The key of a day, a location and a service; the secret can't be computed from it. */
static void derive_key(const struct s3_signer *signer, const char day[DAY_LENGTH], uint8_t key_out[HMAC_SIZE])
{
    hmac_sha256(signer->secret, (struct bytes){(const uint8_t *)day, DAY_LENGTH}, key_out);
    hmac_sha256((struct bytes){key_out, HMAC_SIZE}, bytes_of_text(signer->location), key_out);
    hmac_sha256((struct bytes){key_out, HMAC_SIZE}, bytes_of_text(signer->service), key_out);
    hmac_sha256((struct bytes){key_out, HMAC_SIZE}, bytes_of_text("aws4_request"), key_out);
}

static struct result string_to_sign(const struct s3_signable *request, const char *time, const char *scope, struct buffer *out,
                                    struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(CANONICAL_MAX);
    uint8_t digest[SHA256_SIZE];
    char hex[HEX_SIZE];

    TRY(s3_canonical_request(request, &canonical, err));
    sha256_of(buffer_bytes(&canonical), digest);
    text_hex(digest, sizeof digest, hex);
    return buffer_format(out, err, "AWS4-HMAC-SHA256\n%s\n%s\n%s", time, scope, hex);
}

struct result s3_sign(const struct s3_signable *request, const struct s3_signer *signer, struct buffer *out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(CANONICAL_MAX);
    struct s3_pair sorted[S3_PAIRS_MAX];
    char time[S3_TIME_SIZE], scope[160], hex[HEX_SIZE];
    uint8_t key[HMAC_SIZE], signature[HMAC_SIZE];

    s3_time_format(request->wall_ms, time);
    const int length = snprintf(scope, sizeof scope, "%.8s/%s/%s/aws4_request", time, signer->location, signer->service);
    if (length < 0 || (size_t)length >= sizeof scope) return failure(err, ERROR_LIMIT, "the name of a location is too long");
    TRY(string_to_sign(request, time, scope, &text, err));
    derive_key(signer, time, key);
    hmac_sha256((struct bytes){key, sizeof key}, buffer_bytes(&text), signature);
    secret_wipe(key, sizeof key);
    text_hex(signature, sizeof signature, hex);
    TRY(sort_headers(request, sorted, err));
    TRY(buffer_format(out, err, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=", signer->access_key_id, scope));
    TRY(add_names(out, sorted, request->header_count, err));
    return buffer_format(out, err, ", Signature=%s", hex);
}

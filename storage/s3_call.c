#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/random.h"
#include "storage/s3_http_priv.h"

enum {
    URL_MAX = 8192,       /* a key of 1024 and an upload id of 2048 characters, encoded */
    TRIES_MS = 30000,     /* no try begins later, so a client soon learns that the bucket is not reachable */
    CALLS_WHILE_AWAY = 3, /* one of them may be the maintenance thread's */
};

/* A request before it is signed. */
struct draft {
    struct buffer path, url;
    struct s3_pair headers[S3_HEADERS_MAX - 1];
    size_t header_count;
    char payload_hash[2 * SHA256_SIZE + 1], range[48], time[S3_TIME_SIZE];
};

static void draft_done(struct draft *draft)
{
    buffer_done(&draft->path);
    buffer_done(&draft->url);
}
#define OWNED_DRAFT __attribute__((cleanup(draft_done))) struct draft

static struct result draft_url(const struct s3 *s3, const struct s3_request *request, struct draft *draft, struct error *err)
{
    TRY(buffer_format(&draft->path, err, "/%s%s", s3->bucket, request->key[0] == '\0' ? "" : "/"));
    TRY(s3_encode(&draft->path, request->key, true, err));
    TRY(buffer_format(&draft->url, err, "%s%s%s", s3->endpoint, buffer_text(&draft->path), request->query_count == 0 ? "" : "?"));
    return s3_query_format(request->query, request->query_count, &draft->url, err);
}

static void add(struct draft *draft, const char *name, const char *value)
{
    draft->headers[draft->header_count++] = (struct s3_pair){name, value};
}

static void draft_headers(const struct s3 *s3, const struct s3_request *request, struct draft *draft)
{
    uint8_t hash[SHA256_SIZE];

    sha256_of(request->body, hash);
    text_hex(hash, sizeof hash, draft->payload_hash);
    add(draft, "host", s3->host);
    add(draft, "x-amz-content-sha256", draft->payload_hash);
    add(draft, "x-amz-date", draft->time);
    if (strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0)
        add(draft, "content-type", "application/octet-stream");
    if (request->is_new) add(draft, "if-none-match", "*");
    if (!request->with_range) return;
    (void)snprintf(draft->range, sizeof draft->range, "bytes=%llu-%llu", (unsigned long long)request->range_first,
                   (unsigned long long)request->range_last);
    add(draft, "range", draft->range);
}

/* Reads the key for each try, because the key may be replaced between two tries. */
static struct result sign(struct s3 *s3, const struct s3_request *request, struct draft *draft, struct buffer *authorization,
                          struct error *err)
{
    const struct s3_signable signable = {.method = request->method,
                                         .path = buffer_text(&draft->path),
                                         .query = request->query,
                                         .query_count = request->query_count,
                                         .headers = draft->headers,
                                         .header_count = draft->header_count,
                                         .payload_hash = draft->payload_hash,
                                         .wall_ms = clock_wall_ms()};

    s3_time_format(signable.wall_ms, draft->time);
    (void)pthread_mutex_lock(&s3->lock);
    const struct s3_signer signer = {
        .access_key_id = s3->key.id, .secret = secret_bytes(s3->key.secret), .location = s3->location, .service = "s3"};
    const struct result result = s3_sign(&signable, &signer, authorization, err);
    (void)pthread_mutex_unlock(&s3->lock);
    return result;
}

static struct result sign_and_try(struct s3 *s3, const struct s3_request *request, struct draft *draft, struct s3_answer *answer,
                                  struct s3_outcome *outcome_out, struct error *err)
{
    struct buffer OWNED_BUFFER authorization = BUFFER(2048);
    struct s3_pair headers[S3_HEADERS_MAX];

    TRY(sign(s3, request, draft, &authorization, err));
    memcpy(headers, draft->headers, sizeof draft->headers);
    headers[draft->header_count] = (struct s3_pair){"authorization", buffer_text(&authorization)};
    const struct s3_sending sending = {buffer_text(&draft->url), headers, draft->header_count + 1};
    TRY(s3_try(s3, request, &sending, answer, outcome_out, err));
    if (!request->may_lie || outcome_out->status != 200) return SUCCESS;
    s3_answer_error(buffer_bytes(&answer->body), &outcome_out->error_body);
    if (strcmp(outcome_out->error_body.code, "NoSuchUpload") == 0) outcome_out->status = 404;
    else if (outcome_out->error_body.code[0] != '\0') outcome_out->status = 500;
    return SUCCESS;
}

/* ---- Trying again ---- */

static bool is_good(const struct s3_outcome *outcome)
{
    return outcome->status >= 200 && outcome->status < 300;
}

static bool says(const struct s3_outcome *outcome, const char *code)
{
    return strcmp(outcome->error_body.code, code) == 0;
}

static bool is_full(const struct s3_outcome *outcome)
{
    return outcome->status == 507 || says(outcome, "XMinioStorageFull") || says(outcome, "InsufficientStorage") ||
           says(outcome, "QuotaExceeded") || says(outcome, "XMinioAdminBucketQuotaExceeded");
}

/* Whether the store itself reported this. A 404 without such a code comes from a proxy in front of the store. */
static bool is_absent(const struct s3_outcome *outcome)
{
    static const char *const codes[] = {"NoSuchKey", "NoSuchUpload", "NoSuchLifecycleConfiguration",
                                        "ReplicationConfigurationNotFoundError"};
    bool is_said = false;

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) is_said = is_said || says(outcome, codes[i]);
    return outcome->status == 404 && is_said;
}

static bool is_worth_another(const struct s3_outcome *outcome)
{
    const long status = outcome->status;

    if (status == 0) return !outcome->is_hopeless;
    if (is_full(outcome)) return false;
    if (status == 404) return !is_absent(outcome) && !says(outcome, "NoSuchBucket");
    return status == 408 || status == 429 || (status >= 500 && status != 501) || says(outcome, "RequestTimeout") ||
           says(outcome, "ConditionalRequestConflict") || says(outcome, "OperationAborted");
}

uint64_t s3_pause_ms(unsigned first_ms, unsigned number, uint64_t random)
{
    const uint64_t doubled = (uint64_t)first_ms << (number < 16 ? number : 16);

    return random % ((doubled < S3_PAUSE_MAX_MS ? doubled : S3_PAUSE_MAX_MS) + 1);
}

static void pause_before(const struct s3 *s3, unsigned number)
{
    uint64_t random;

    random_bytes(&random, sizeof random);
    const uint64_t pause_ms = s3_pause_ms(s3->pause_ms, number, random);
    const struct timespec pause = {(time_t)(pause_ms / 1000), (long)(pause_ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

static struct result explain(const struct s3 *s3, const struct s3_request *request, const struct s3_outcome *outcome,
                             struct error *err)
{
    const long status = outcome->status;
    const char *code = outcome->error_body.code[0] == '\0' ? "no code" : outcome->error_body.code;

    if (status == 0) return failure(err, ERROR_UNAVAILABLE, "%.100s: %.120s", s3->endpoint, outcome->reason);
    if (is_absent(outcome)) return failure(err, ERROR_NOT_FOUND, "%.100s has no such object or upload", s3->endpoint);
    if (status == 412) return failure(err, ERROR_CONFLICT, "%.100s: the name is taken", s3->endpoint);
    if (is_full(outcome)) return failure(err, ERROR_FULL, "%.100s: the bucket is full: %.63s", s3->endpoint, code);
    if ((status >= 300 && status < 400) || says(outcome, "AuthorizationHeaderMalformed") || says(outcome, "InvalidRegion"))
        return failure(err, ERROR_UNAVAILABLE, "%.100s: bucket %s is not in %s, where it must be (bucket_location): %ld %.63s",
                       s3->endpoint, s3->bucket, s3->location, status, code);
    return failure(err, ERROR_UNAVAILABLE, "%.100s: %s on bucket %s: %ld %.63s", s3->endpoint, request->method, s3->bucket,
                   status, code);
}

static struct result try_often(struct s3 *s3, const struct s3_request *request, struct draft *draft, struct s3_answer *answer,
                               struct s3_outcome *outcome, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + TRIES_MS;

    for (unsigned number = 0; number < s3->tries_max && clock_monotonic_ms() < until_ms; number++) {
        if (number > 0) pause_before(s3, number - 1);
        answer->tries = number + 1;
        TRY(sign_and_try(s3, request, draft, answer, outcome, err));
        if (is_good(outcome) || !is_worth_another(outcome)) return SUCCESS;
    }
    return SUCCESS;
}

/* While the store does not answer, a few calls wait for it, and the others fail at once. Otherwise each would keep a
 * thread for half a minute, until no thread is left for requests that need no store. */
static struct result enter(struct s3 *s3, struct error *err)
{
    (void)pthread_mutex_lock(&s3->lock);
    const bool may = !s3->is_away || s3->calls < CALLS_WHILE_AWAY;
    s3->calls += may;
    (void)pthread_mutex_unlock(&s3->lock);
    if (may) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "%.100s does not answer; others wait for it already", s3->endpoint);
}

static void leave(struct s3 *s3, struct result tried, const struct s3_outcome *outcome)
{
    (void)pthread_mutex_lock(&s3->lock);
    s3->calls--;
    if (tried.ok) s3->is_away = outcome->status == 0 && !outcome->is_hopeless;
    (void)pthread_mutex_unlock(&s3->lock);
}

struct result s3_call(struct s3 *s3, const struct s3_request *request, struct s3_answer *answer, struct error *err)
{
    OWNED_DRAFT draft = {.path = BUFFER(URL_MAX), .url = BUFFER(URL_MAX)};
    struct s3_outcome outcome = {.status = 0};

    TRY(draft_url(s3, request, &draft, err));
    draft_headers(s3, request, &draft);
    TRY(enter(s3, err));
    const struct result tried = try_often(s3, request, &draft, answer, &outcome, err);
    leave(s3, tried, &outcome);
    TRY(tried);
    answer->status = outcome.status;
    (void)snprintf(answer->code, sizeof answer->code, "%s", outcome.error_body.code);
    return is_good(&outcome) ? SUCCESS : explain(s3, request, &outcome, err);
}

void s3_answer_done(struct s3_answer *answer)
{
    buffer_done(&answer->body);
}

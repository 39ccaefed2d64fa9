#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "storage/s3_http_priv.h"

#define CONNECT_SECONDS 10
#define PATIENT_SECONDS 300         /* Amazon: completing an upload "may take several minutes" */
#define SLOWEST_RATE    1024        /* bytes a second, averaged over the longest silence allowed */
#define COMPLAINT_MAX   (32u << 10) /* of an error's body; the rest is not read ... */
#define COMPLAINT_WHOLE (1u << 20)  /* ... and a body longer than this ends the connection */

/* Shared by the callbacks of one try. */
struct trying {
    struct s3_answer *answer;
    struct buffer error_body;
};

/* ---- Headers ---- */

static bool is_field(struct bytes line, const char *name, struct bytes *value_out)
{
    const size_t length = strlen(name);

    if (line.length <= length || strncasecmp((const char *)line.data, name, length) != 0 || line.data[length] != ':')
        return false;
    line.data += length + 1;
    line.length -= length + 1;
    while (line.length > 0 && line.data[0] == ' ') line.data++, line.length--;
    while (line.length > 0 && line.data[line.length - 1] <= ' ') line.length--;
    *value_out = line;
    return true;
}

/* Only characters that XML can hold as they are, because the etag is sent back when the upload is completed. */
static void take_etag(struct s3_answer *answer, struct bytes value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+/=";

    if (value.length > 2 && value.data[0] == '"' && value.data[value.length - 1] == '"') value.data++, value.length -= 2;
    if (value.length >= sizeof answer->etag || !text_consists_of(value, letters)) return;
    memcpy(answer->etag, value.data, value.length);
    answer->etag[value.length] = '\0';
}

/* "bytes 0-99/1234" */
static void take_range(struct s3_answer *answer, struct bytes value)
{
    const uint8_t *slash = value.length == 0 ? NULL : memchr(value.data, '/', value.length);
    uint64_t whole = 0;

    if (slash == NULL) return;
    const struct bytes digits = {slash + 1, value.length - (size_t)(slash + 1 - value.data)};
    if (text_to_u64(digits, INT64_MAX, &whole)) answer->whole_bytes = whole;
}

void s3_head_line(struct s3_answer *answer, struct bytes line)
{
    struct bytes value;

    if (is_field(line, "etag", &value)) take_etag(answer, value);
    if (is_field(line, "content-range", &value)) take_range(answer, value);
}

static void on_head(void *context, struct bytes line)
{
    const struct trying *trying = context;

    s3_head_line(trying->answer, line);
}

/* ---- The body ---- */

static bool is_good(long status)
{
    return status >= 200 && status < 300;
}

static struct result on_body(void *context, long status, struct bytes piece, struct error *err)
{
    struct trying *trying = context;
    struct error ignored = {0};

    if (is_good(status)) return buffer_add(&trying->answer->body, piece.data, piece.length, err);
    (void)buffer_add(&trying->error_body, piece.data, piece.length, &ignored).ok; /* bytes that do not fit are not needed */
    return SUCCESS;
}

/* ---- One try ---- */

static struct outgoing_limits limits_of(const struct s3 *s3, const struct s3_request *request, const struct s3_answer *answer)
{
    return (struct outgoing_limits){.connect_s = CONNECT_SECONDS,
                                    .silence_s = request->is_patient ? PATIENT_SECONDS : s3->silence_s,
                                    .slowest_rate = request->is_patient ? 1 : SLOWEST_RATE,
                                    .answer_bytes = (uint64_t)answer->body.maximum + COMPLAINT_WHOLE};
}

/* libcurl makes the header Host from the URL. */
static size_t take_headers(const struct s3_sending *sending, struct outgoing_header headers_out[S3_HEADERS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < sending->header_count; i++)
        if (strcmp(sending->headers[i].name, "host") != 0)
            headers_out[count++] = (struct outgoing_header){sending->headers[i].name, sending->headers[i].value};
    return count;
}

static void fill_outcome(const struct outgoing_outcome *ended, struct trying *trying, struct s3_outcome *outcome_out)
{
    struct s3_outcome outcome = {.status = ended->status,
                                 .is_hopeless = ended->end == OUTGOING_UNTRUSTED || ended->end == OUTGOING_MALFORMED};

    (void)snprintf(outcome.reason, sizeof outcome.reason, "%.120s", ended->reason);
    if (ended->end == OUTGOING_ANSWERED && !is_good(outcome.status))
        s3_answer_error(buffer_bytes(&trying->error_body), &outcome.error_body);
    *outcome_out = outcome;
}

struct result s3_try(struct s3 *s3, const struct s3_request *request, const struct s3_sending *sending, struct s3_answer *answer,
                     struct s3_outcome *outcome_out, struct error *err)
{
    struct trying trying = {.answer = answer, .error_body = BUFFER(COMPLAINT_MAX)};
    struct outgoing_header headers[S3_HEADERS_MAX];
    struct outgoing_outcome ended = {.end = OUTGOING_BROKEN};

    buffer_clear(&answer->body);
    answer->whole_bytes = 0;
    answer->etag[0] = '\0';
    const struct outgoing_request call = {.method = request->method,
                                          .url = sending->url,
                                          .headers = headers,
                                          .header_count = take_headers(sending, headers),
                                          .with_body =
                                              strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0,
                                          .body = request->body,
                                          .is_repeatable = true, /* every request here may be sent twice */
                                          .limits = limits_of(s3, request, answer),
                                          .head = on_head,
                                          .take = on_body,
                                          .context = &trying};
    const struct result result = outgoing_call(s3->outgoing, &call, &ended, err);
    if (result.ok) fill_outcome(&ended, &trying, outcome_out);
    buffer_done(&trying.error_body);
    return result;
}

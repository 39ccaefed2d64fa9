/* Sets every option of libcurl. Otherwise libcurl's defaults, the environment or a peer would decide it. */
#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/fault.h"
#include "outgoing/call_priv.h"

#define BUFFER_BYTES     262144L
#define CONNECTION_AGE_S 60L   /* an older idle connection has probably been closed by its peer */
#define LINE_MAX_BYTES   16384 /* the longest value is a token of 12 KiB */

static void set_rules(CURL *curl, const struct outgoing *outgoing)
{
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, outgoing->socket[0] == '\0' ? "https" : "http");
    if (outgoing->socket[0] != '\0') (void)curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, outgoing->socket);
    (void)curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, CONNECTION_AGE_S);
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "sijil/" SIJIL_VERSION);
    /* Must be set, also to "": otherwise libcurl reads http_proxy, all_proxy and no_proxy. */
    (void)curl_easy_setopt(curl, CURLOPT_PROXY, outgoing->proxy);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "");
    (void)curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
}

/* The system's authorities would be trusted beside it. */
static void set_authorities(CURL *curl, const struct outgoing *outgoing)
{
    struct curl_blob text = {.data = outgoing->ca_text, .flags = CURL_BLOB_NOCOPY};

    if (outgoing->ca_file[0] == '\0' && outgoing->ca_text == NULL) return;
    (void)curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
    (void)curl_easy_setopt(curl, CURLOPT_CAINFO, outgoing->ca_text != NULL ? NULL : outgoing->ca_file);
    if (outgoing->ca_text == NULL) return;
    text.len = strlen(outgoing->ca_text);
    (void)curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &text);
}

static void set_trust(CURL *curl, const struct outgoing *outgoing)
{
    const long oldest = outgoing->takes_tls12 ? CURL_SSLVERSION_TLSv1_2 : CURL_SSLVERSION_TLSv1_3;

    (void)curl_easy_setopt(curl, CURLOPT_SSLVERSION, oldest);
    (void)curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    set_authorities(curl, outgoing);
    if (outgoing->certificate_file[0] == '\0') return;
    (void)curl_easy_setopt(curl, CURLOPT_SSLCERT, outgoing->certificate_file);
    (void)curl_easy_setopt(curl, CURLOPT_SSLKEY, outgoing->key_file);
}

/* A kept connection, or a session that is taken up again, shows no certificate. */
static void set_acquaintance(CURL *curl, const struct outgoing_request *request)
{
    if (request->knows == NULL) return;
    (void)curl_easy_setopt(curl, CURLOPT_CERTINFO, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_SSL_SESSIONID_CACHE, 0L);
}

static void set_limits(CURL *curl, const struct outgoing_limits *limits)
{
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)limits->connect_s);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)limits->slowest_rate);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)limits->silence_s);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)limits->whole_s);
}

static void set_callbacks(struct exchange *exchange)
{
    CURL *curl = exchange->curl;

    (void)curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, outgoing_on_socket);
    (void)curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, exchange);
    (void)curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, outgoing_on_begin);
    (void)curl_easy_setopt(curl, CURLOPT_PREREQDATA, exchange);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, outgoing_on_head);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, outgoing_on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, outgoing_on_progress);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, exchange);
}

static void set_body(struct exchange *exchange)
{
    const struct outgoing_request *request = exchange->request;
    CURL *curl = exchange->curl;

    if (request->source != NULL) {
        assert(!request->is_repeatable); /* a source can't be read from its beginning again */
        (void)curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_READFUNCTION, outgoing_on_send);
        (void)curl_easy_setopt(curl, CURLOPT_READDATA, exchange);
        (void)curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE,
                               request->source->length == OUTGOING_LENGTH_UNKNOWN ? -1 : (curl_off_t)request->source->length);
    } else if (request->with_body) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body.data == NULL ? "" : (const char *)request->body.data);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.length);
    }
    if (strcmp(request->method, "HEAD") == 0) (void)curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    else (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

/* ---- The head ---- */

static bool has_control(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) return true;
    return false;
}

static struct result add_line(struct exchange *exchange, const char *name, const char *value)
{
    struct error *err = exchange->err;
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX_BYTES);

    if (has_control(value)) return failure(err, ERROR_INVALID, "the header %s would have a control character", name);
    TRY(buffer_format(&line, err, "%s:%s%s", name, value[0] == '\0' ? "" : " ", value));
    struct curl_slist *longer = fault_is_due(FAULT_MEMORY) ? NULL : curl_slist_append(exchange->lines, buffer_text(&line));
    explicit_bzero(line.data, line.length); /* it may be a secret */
    if (longer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for headers");
    exchange->lines = longer;
    return SUCCESS;
}

/* libcurl would call each body a form. */
static struct result add_no_type(struct exchange *exchange)
{
    const struct outgoing_request *request = exchange->request;

    for (size_t i = 0; i < request->header_count; i++)
        if (strcasecmp(request->headers[i].name, "Content-Type") == 0) return SUCCESS;
    return add_line(exchange, "Content-Type", "");
}

void outgoing_free_lines(struct curl_slist *lines)
{
    for (struct curl_slist *line = lines; line != NULL; line = line->next) explicit_bzero(line->data, strlen(line->data));
    curl_slist_free_all(lines);
}

struct result outgoing_prepare(struct exchange *exchange)
{
    const struct outgoing_request *request = exchange->request;
    CURL *curl = exchange->curl;

    curl_easy_reset(curl);
    set_rules(curl, exchange->outgoing);
    set_trust(curl, exchange->outgoing);
    set_acquaintance(curl, request);
    set_limits(curl, &request->limits);
    set_callbacks(exchange);
    set_body(exchange);
    (void)curl_easy_setopt(curl, CURLOPT_URL, request->url);
    TRY(add_line(exchange, "Expect", "")); /* waiting for "100 Continue" would cost a round trip */
    for (size_t i = 0; i < request->header_count; i++)
        TRY(add_line(exchange, request->headers[i].name, request->headers[i].value));
    if (request->with_body) TRY(add_no_type(exchange));
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, exchange->lines);
    return SUCCESS;
}

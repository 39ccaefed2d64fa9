#include "client/http.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "client/trace.h"

#define CONNECT_SECONDS 15L
#define IDLE_SECONDS    60L /* a transfer that moves less than one byte a second for so long is cut */

struct http {
    CURL *curl;
    char origin[300]; /* "https://host:port" */
    char ca_file[512];
    bool verbose;
    const atomic_bool *gives_up; /* or NULL */
};

/* What the callbacks of one exchange share. */
struct exchange {
    const struct http_request *request;
    struct http_response *response;
    struct http *http;
    unsigned requests; /* how often this one was begun */
    uint64_t sent, received;
    struct result outcome;
    struct error *err;
};

struct result http_new(const struct http_options *options, struct http **http_out, struct error *err)
{
    static bool initialised;
    OWNED(http) *http = memory_zeroed(1, sizeof *http);
    if (http == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection");

    if (!initialised && curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        return failure(err, ERROR_UNAVAILABLE, "libcurl can't start");
    initialised = true;
    const int length = snprintf(http->origin, sizeof http->origin, "https://%s", options->host);
    if (length < 0 || (size_t)length >= sizeof http->origin)
        return failure(err, ERROR_INVALID, "the host's name is too long");
    if (options->ca_file != NULL) {
        if (strlen(options->ca_file) >= sizeof http->ca_file)
            return failure(err, ERROR_INVALID, "the path of the CA file is too long");
        memcpy(http->ca_file, options->ca_file, strlen(options->ca_file) + 1);
    }
    http->verbose = options->verbose;
    http->curl = curl_easy_init();
    if (http->curl == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection");
    *http_out = GIVE(http);
    return SUCCESS;
}

static size_t on_send(char *place, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    const struct http_upload *upload = exchange->request->upload;
    const uint64_t left = upload->length - exchange->sent;
    const size_t wanted = left < size * count ? (size_t)left : size * count;

    const ssize_t length = pread(upload->fd, place, wanted, (off_t)(upload->offset + exchange->sent));
    if (length <= 0 && wanted > 0) {
        exchange->outcome = failure(exchange->err, ERROR_INVALID, "can't read a file that is sent: %s",
                                    length == 0 ? "it became shorter meanwhile" : strerror(errno));
        return CURL_READFUNC_ABORT;
    }
    exchange->sent += (uint64_t)length;
    if (exchange->request->moved != NULL)
        exchange->request->moved(exchange->request->moved_context, exchange->sent);
    return (size_t)length;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl calls it with this type */
static size_t on_receive(char *bytes, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    const struct bytes piece = {(const uint8_t *)bytes, size * count};
    long status = 0;

    (void)curl_easy_getinfo(exchange->http->curl, CURLINFO_RESPONSE_CODE, &status);
    if (exchange->request->take != NULL && status >= 200 && status < 300)
        exchange->outcome = exchange->request->take(exchange->request->context, piece, exchange->err);
    else
        exchange->outcome = buffer_add(&exchange->response->body, piece.data, piece.length, exchange->err);
    if (!exchange->outcome.ok) return 0;
    exchange->received += piece.length;
    if (exchange->request->take != NULL && exchange->request->moved != NULL)
        exchange->request->moved(exchange->request->moved_context, exchange->received);
    return piece.length;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl calls it with this type */
static size_t on_header(char *bytes, size_t size, size_t count, void *context)
{
    const struct bytes line = {(const uint8_t *)bytes, size * count};

    http_response_take(((struct exchange *)context)->response, line);
    return line.length;
}

static bool changes_something(const struct http_request *request)
{
    return strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0;
}

/* libcurl sends a request again if a kept connection ends before the answer. What changes something may have been done
   by then, and done again it is another thing: "no such tag" for the one that was just deleted. */
/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl calls it with this type */
static int on_begin(void *context, char *peer, char *self, int peer_port, int self_port)
{
    struct exchange *exchange = context;

    (void)peer, (void)self, (void)peer_port, (void)self_port;
    return exchange->requests++ > 0 && changes_something(exchange->request) ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static struct result add_header(struct curl_slist **list, const char *name, const char *value, struct error *err)
{
    char line[16384]; /* a token of 12 KiB is the longest value there is */

    if (value == NULL) return SUCCESS;
    const int length = snprintf(line, sizeof line, "%s: %s", name, value);
    if (length < 0 || (size_t)length >= sizeof line) return failure(err, ERROR_LIMIT, "the header %s is too long", name);
    struct curl_slist *longer = curl_slist_append(*list, line);
    explicit_bzero(line, sizeof line);
    if (longer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for headers");
    *list = longer;
    return SUCCESS;
}

static struct result add_headers(const struct http_request *request, struct curl_slist **list, struct error *err)
{
    TRY(add_header(list, "Authorization", request->authorization, err));
    TRY(add_header(list, "Content-Type", request->content_type, err));
    TRY(add_header(list, "Accept", request->accept, err));
    TRY(add_header(list, "Range", request->range, err));
    TRY(add_header(list, "Content-Range", request->content_range, err));
    return add_header(list, "Expect", "", err); /* we know already whether we may: no extra round trip */
}

static void set_body(CURL *curl, struct exchange *exchange)
{
    const struct http_request *request = exchange->request;

    if (request->upload != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_send);
        (void)curl_easy_setopt(curl, CURLOPT_READDATA, exchange);
        (void)curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->upload->length);
        (void)curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
    } else if (changes_something(request)) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body.data == NULL ? "" : (const char *)request->body.data);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.length);
    }
    if (strcmp(request->method, "HEAD") == 0)
        (void)curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    else
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static bool gives_up(const struct http *http)
{
    return http->gives_up != NULL && atomic_load(http->gives_up);
}

/* libcurl calls it at least once a second. */
static int on_progress(void *context, curl_off_t to_get, curl_off_t got, curl_off_t to_send, curl_off_t sent)
{
    (void)to_get, (void)got, (void)to_send, (void)sent;
    return gives_up(context) ? 1 : 0;
}

static void set_transport(CURL *curl, struct http *http)
{
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, http);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
    (void)curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
    (void)curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, IDLE_SECONDS);
    (void)curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 262144L);
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "sijil/" SIJIL_VERSION);
    if (http->ca_file[0] != '\0') (void)curl_easy_setopt(curl, CURLOPT_CAINFO, http->ca_file);
}

static struct result check_same_host(const struct http *http, const char *url, struct error *err)
{
    const size_t length = strlen(http->origin);

    if (strncmp(url, http->origin, length) == 0 && (url[length] == '/' || url[length] == '\0')) return SUCCESS;
    /* The host alone: what follows may be an upload's secret. */
    const size_t scheme = strcspn(url, ":") + strspn(url + strcspn(url, ":"), ":/");
    return failure(err, ERROR_DENIED, "the registry sent us to another host, which we do not follow: %.*s",
                   (int)(scheme + strcspn(url + scheme, "/?#")), url);
}

/* --verbose. What can't be shown for want of memory is no reason to fail the exchange itself. */
static void show(const struct exchange *exchange, int64_t began_ms)
{
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct error ignored = {0};
    const struct http_request *request = exchange->request;
    const struct trace trace = {.origin = exchange->http->origin, .request = request, .response = exchange->response,
                                .sent_bytes = request->upload != NULL ? exchange->sent : request->body.length,
                                .received_bytes = exchange->received, .duration_ms = clock_monotonic_ms() - began_ms};

    if (exchange->http->verbose && trace_write(&trace, &text, &ignored).ok) (void)fputs(buffer_text(&text), stderr);
}

static struct result exchange_failure(struct exchange *exchange, CURLcode code, const char *text, struct error *err)
{
    if (!exchange->outcome.ok) return exchange->outcome;
    if (gives_up(exchange->http)) return failure(err, ERROR_UNAVAILABLE, "given up, because something else failed");
    if (code == CURLE_ABORTED_BY_CALLBACK && exchange->requests > 1)
        return failure(err, ERROR_UNAVAILABLE, "%s: the connection ended before the answer: look whether it was done, then try again",
                       exchange->http->origin);
    const char *reason = text[0] == '\0' ? curl_easy_strerror(code) : text;
    if (code == CURLE_PEER_FAILED_VERIFICATION && strstr(reason, "subject name") != NULL)
        return failure(err, ERROR_DENIED, "%s: its certificate is good for another name: use a name that stands in it (%.100s)",
                       exchange->http->origin, reason);
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        return failure(err, ERROR_DENIED, "%s: its certificate can't be trusted: %.120s (sijil login --ca-file)",
                       exchange->http->origin, reason);
    return failure(err, ERROR_UNAVAILABLE, "%s: %.150s", exchange->http->origin, reason);
}

struct result http_call(struct http *http, const struct http_request *request, struct http_response *response,
                        struct error *err)
{
    char url[4096], text[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    struct exchange exchange = {.request = request, .response = response, .http = http, .outcome = SUCCESS, .err = err};
    const bool whole = strncmp(request->path, "https://", 8) == 0;

    response->status = 0;
    response->request_id[0] = response->audit[0] = '\0'; /* of an exchange before this one */
    if (whole) TRY(check_same_host(http, request->path, err));
    const int length = snprintf(url, sizeof url, "%s%s", whole ? "" : http->origin, request->path);
    if (length < 0 || (size_t)length >= sizeof url) return failure(err, ERROR_LIMIT, "a URL of %d characters", length);

    curl_easy_reset(http->curl);
    set_transport(http->curl, http);
    set_body(http->curl, &exchange);
    (void)curl_easy_setopt(http->curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(http->curl, CURLOPT_ERRORBUFFER, text);
    (void)curl_easy_setopt(http->curl, CURLOPT_WRITEFUNCTION, on_receive);
    (void)curl_easy_setopt(http->curl, CURLOPT_WRITEDATA, &exchange);
    (void)curl_easy_setopt(http->curl, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(http->curl, CURLOPT_HEADERDATA, &exchange);
    (void)curl_easy_setopt(http->curl, CURLOPT_PREREQFUNCTION, on_begin);
    (void)curl_easy_setopt(http->curl, CURLOPT_PREREQDATA, &exchange);
    const struct result added = add_headers(request, &headers, err);
    (void)curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, headers);
    const int64_t began_ms = clock_monotonic_ms();
    const CURLcode code = added.ok ? curl_easy_perform(http->curl) : CURLE_OK;
    curl_slist_free_all(headers);
    if (!added.ok) return added;
    if (code != CURLE_OK) {
        show(&exchange, began_ms);
        return exchange_failure(&exchange, code, text, err);
    }

    curl_off_t announced = -1;
    (void)curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &response->status);
    (void)curl_easy_getinfo(http->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    response->length = (int64_t)announced;
    show(&exchange, began_ms);
    return SUCCESS;
}

void http_give_up_when(struct http *http, const atomic_bool *gives_up)
{
    http->gives_up = gives_up;
}

const char *http_host(const struct http *http)
{
    return http->origin + strlen("https://");
}

void http_free(struct http *http)
{
    if (http == NULL) return;
    if (http->curl != NULL) curl_easy_cleanup(http->curl);
    free(http);
}

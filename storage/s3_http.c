#include <curl/curl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/text.h"
#include "storage/s3_http_priv.h"

#define CONNECT_SECONDS  10L
#define PATIENT_SECONDS  300L     /* Amazon: completing an upload "may take several minutes" */
#define SLOWEST_RATE     1024L    /* bytes a second, over the time that may pass in silence */
#define COMPLAINT_MAX    (32u << 10) /* of an error's body; more is not read */
#define BUFFER_BYTES     262144L
#define CONNECTION_AGE_S 60L      /* an idle one that is older has probably been closed by its peer */

/* What the callbacks of one try share. */
struct trying {
    CURL *curl;
    struct s3_answer *answer;
    struct buffer complaint;
    struct result outcome;
    struct error *err;
};

/* ---- The head ---- */

static bool is_field(struct bytes line, const char *name, struct bytes *value_out)
{
    const size_t length = strlen(name);

    if (line.length <= length || strncasecmp((const char *)line.data, name, length) != 0 || line.data[length] != ':') return false;
    line.data += length + 1;
    line.length -= length + 1;
    while (line.length > 0 && line.data[0] == ' ') line.data++, line.length--;
    while (line.length > 0 && line.data[line.length - 1] <= ' ') line.length--;
    *value_out = line;
    return true;
}

/* Only what can stand in XML as it is: it is sent back when the upload is completed. */
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

/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl calls it with this type */
static size_t on_head(char *bytes, size_t size, size_t count, void *context)
{
    struct trying *trying = context;

    s3_head_line(trying->answer, (struct bytes){(const uint8_t *)bytes, size * count});
    return size * count;
}

/* ---- The body ---- */

static bool is_good(long status)
{
    return status >= 200 && status < 300;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl calls it with this type */
static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
    struct trying *trying = context;
    const size_t length = size * count;
    struct error ignored = {0};
    long status = 0;

    (void)curl_easy_getinfo(trying->curl, CURLINFO_RESPONSE_CODE, &status);
    if (!is_good(status)) {
        (void)buffer_add(&trying->complaint, bytes, length, &ignored).ok; /* what has no room is not missed */
        return length;
    }
    trying->outcome = buffer_add(&trying->answer->body, bytes, length, trying->err);
    return trying->outcome.ok ? length : 0;
}

/* ---- Connections ---- */

static void start_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static CURL *take_handle(struct s3 *s3)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    CURL *curl = NULL;

    (void)pthread_once(&once, start_curl);
    (void)pthread_mutex_lock(&s3->lock);
    if (s3->handle_count > 0) curl = s3->handles[--s3->handle_count];
    (void)pthread_mutex_unlock(&s3->lock);
    if (curl != NULL) return curl;
    return fault_is_due(FAULT_MEMORY) ? NULL : curl_easy_init();
}

static void give_handle(struct s3 *s3, CURL *curl)
{
    (void)pthread_mutex_lock(&s3->lock);
    const bool is_kept = s3->handle_count < S3_HANDLES_MAX;
    if (is_kept) s3->handles[s3->handle_count++] = curl;
    (void)pthread_mutex_unlock(&s3->lock);
    if (!is_kept) curl_easy_cleanup(curl);
}

void s3_drop_handles(struct s3 *s3)
{
    while (s3->handle_count > 0) curl_easy_cleanup(s3->handles[--s3->handle_count]);
}

static curl_socket_t on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    const struct s3 *s3 = context;

    (void)purpose;
    if (!s3_networks_allow(&s3->networks, &address->addr)) return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* ---- One try ---- */

static void set_transport(CURL *curl, const struct s3 *s3, bool is_patient)
{
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
    (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
    (void)curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, is_patient ? 1L : SLOWEST_RATE);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, is_patient ? PATIENT_SECONDS : (long)s3->silence_s);
    (void)curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, CONNECTION_AGE_S);
    (void)curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    (void)curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, s3);
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "sijil/" SIJIL_VERSION);
    if (s3->ca_file[0] != '\0') (void)curl_easy_setopt(curl, CURLOPT_CAINFO, s3->ca_file);
}

static void set_request(CURL *curl, const struct s3_request *request, struct trying *trying)
{
    const bool has_body = strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0;

    if (has_body) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body.data == NULL ? "" : (const char *)request->body.data);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.length);
    }
    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_head);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, trying);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, trying);
}

static struct result add_line(struct curl_slist **list, const char *name, const char *value, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(16384);

    TRY(buffer_format(&line, err, "%s: %s", name, value));
    struct curl_slist *longer = fault_is_due(FAULT_MEMORY) ? NULL : curl_slist_append(*list, buffer_text(&line));
    if (longer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for headers");
    *list = longer;
    return SUCCESS;
}

/* Host is what curl makes of the URL; an Expect would cost a round trip. */
static struct result add_lines(struct curl_slist **list, const struct s3_sending *sending, struct error *err)
{
    struct curl_slist *longer = curl_slist_append(*list, "Expect:");

    if (longer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for headers");
    *list = longer;
    for (size_t i = 0; i < sending->header_count; i++)
        if (strcmp(sending->headers[i].name, "host") != 0)
            TRY(add_line(list, sending->headers[i].name, sending->headers[i].value, err));
    return SUCCESS;
}

static bool is_hopeless(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_CERTPROBLEM ||
           code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

static void tell(struct trying *trying, CURLcode code, const char *text, struct s3_outcome *outcome_out)
{
    struct s3_outcome outcome = {.status = 0};

    if (code == CURLE_OK)
        (void)curl_easy_getinfo(trying->curl, CURLINFO_RESPONSE_CODE, &outcome.status);
    else
        (void)snprintf(outcome.reason, sizeof outcome.reason, "%.120s", text[0] == '\0' ? curl_easy_strerror(code) : text);
    outcome.is_hopeless = is_hopeless(code);
    if (code == CURLE_OK && !is_good(outcome.status)) s3_answer_complaint(buffer_bytes(&trying->complaint), &outcome.complaint);
    *outcome_out = outcome;
}

static void perform(struct trying *trying, struct s3_outcome *outcome_out)
{
    char text[CURL_ERROR_SIZE] = "";

    (void)curl_easy_setopt(trying->curl, CURLOPT_ERRORBUFFER, text);
    CURLcode code = fault_is_due(FAULT_SOCKET) ? CURLE_COULDNT_CONNECT : curl_easy_perform(trying->curl);
    if (fault_is_due(FAULT_SOCKET)) code = CURLE_RECV_ERROR; /* it may have come true */
    tell(trying, code, text, outcome_out);
}

struct result s3_try(struct s3 *s3, const struct s3_request *request, const struct s3_sending *sending,
                     struct s3_answer *answer, struct s3_outcome *outcome_out, struct error *err)
{
    struct trying trying = {
        .curl = take_handle(s3), .answer = answer, .complaint = BUFFER(COMPLAINT_MAX), .outcome = SUCCESS, .err = err};
    struct curl_slist *lines = NULL;

    if (trying.curl == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection");
    buffer_clear(&answer->body);
    answer->whole_bytes = 0;
    answer->etag[0] = '\0';
    curl_easy_reset(trying.curl);
    set_transport(trying.curl, s3, request->is_patient);
    set_request(trying.curl, request, &trying);
    (void)curl_easy_setopt(trying.curl, CURLOPT_URL, sending->url);
    struct result result = add_lines(&lines, sending, err);
    (void)curl_easy_setopt(trying.curl, CURLOPT_HTTPHEADER, lines);
    if (result.ok) perform(&trying, outcome_out);
    curl_slist_free_all(lines);
    buffer_done(&trying.complaint);
    give_handle(s3, trying.curl);
    return result.ok ? trying.outcome : result;
}

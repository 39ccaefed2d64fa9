#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/text.h"
#include "outgoing/call_priv.h"

/* ---- Connections that are kept ---- */

static CURLcode started;

static void start_curl(void)
{
    started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static struct result take_authorities(struct outgoing *outgoing, const char *text, struct error *err)
{
    const size_t length = text == NULL ? 0 : strlen(text);

    if (length == 0) return SUCCESS;
    if (length > OUTGOING_CA_MAX) return failure(err, ERROR_INVALID, "certificates of more than %d bytes", OUTGOING_CA_MAX);
    outgoing->ca_text = memory_zeroed(1, length + 1);
    if (outgoing->ca_text == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for certificates");
    memcpy(outgoing->ca_text, text, length);
    return SUCCESS;
}

static struct result take_options(struct outgoing *outgoing, const struct outgoing_options *options, struct error *err)
{
    TRY(text_copy_setting(outgoing->ca_file, sizeof outgoing->ca_file, "the path of the CA file", options->ca_file, err));
    TRY(take_authorities(outgoing, options->ca_text, err));
    TRY(text_copy_setting(outgoing->certificate_file, sizeof outgoing->certificate_file, "the path of the certificate",
                          options->certificate_file, err));
    TRY(text_copy_setting(outgoing->key_file, sizeof outgoing->key_file, "the path of the certificate's key", options->key_file,
                          err));
    TRY(text_copy_setting(outgoing->proxy, sizeof outgoing->proxy, "the proxy's address", options->proxy, err));
    TRY(text_copy_setting(outgoing->socket, sizeof outgoing->socket, "the path of a socket", options->socket, err));
    if (outgoing->proxy[0] != '\0' && options->reach != OUTGOING_ANY)
        return failure(err, ERROR_INVALID, "a proxy would call addresses that nobody checks");
    outgoing->reach = options->reach;
    outgoing->networks = options->networks;
    outgoing->takes_tls12 = options->takes_tls12;
    return SUCCESS;
}

struct result outgoing_new(const struct outgoing_options *options, struct outgoing **outgoing_out, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    OWNED(outgoing) *outgoing = memory_zeroed(1, sizeof *outgoing);

    if (outgoing == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for connections");
    (void)pthread_mutex_init(&outgoing->lock, NULL);
    (void)pthread_once(&once, start_curl);
    if (started != CURLE_OK) return failure(err, ERROR_UNAVAILABLE, "libcurl can't start");
    TRY(take_options(outgoing, options, err));
    *outgoing_out = GIVE(outgoing);
    return SUCCESS;
}

CURL *outgoing_take_handle(struct outgoing *outgoing)
{
    CURL *curl = NULL;

    (void)pthread_mutex_lock(&outgoing->lock);
    if (outgoing->kept_count > 0) curl = outgoing->kept[--outgoing->kept_count];
    (void)pthread_mutex_unlock(&outgoing->lock);
    if (curl != NULL) return curl;
    return fault_is_due(FAULT_MEMORY) ? NULL : curl_easy_init();
}

void outgoing_give_handle(struct outgoing *outgoing, CURL *curl)
{
    (void)pthread_mutex_lock(&outgoing->lock);
    const bool is_kept = outgoing->kept_count < OUTGOING_KEPT_MAX;
    if (is_kept) outgoing->kept[outgoing->kept_count++] = curl;
    (void)pthread_mutex_unlock(&outgoing->lock);
    if (!is_kept) curl_easy_cleanup(curl);
}

void outgoing_free(struct outgoing *outgoing)
{
    if (outgoing == NULL) return;
    while (outgoing->kept_count > 0) curl_easy_cleanup(outgoing->kept[--outgoing->kept_count]);
    (void)pthread_mutex_destroy(&outgoing->lock);
    explicit_bzero(outgoing->proxy, sizeof outgoing->proxy); /* it may contain a secret */
    free(outgoing->ca_text);
    free(outgoing);
}

/* ---- One exchange ---- */

static bool gives_up(const struct exchange *exchange)
{
    return exchange->request->gives_up != NULL && atomic_load(exchange->request->gives_up);
}

static enum outgoing_end end_of(const struct exchange *exchange, CURLcode code)
{
    if (exchange->end != OUTGOING_ANSWERED) return exchange->end;
    if (gives_up(exchange)) return OUTGOING_GIVEN_UP;
    if (exchange->refused[0] != '\0' && !exchange->was_dialled) return OUTGOING_FORBIDDEN;
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_CERTPROBLEM)
        return OUTGOING_UNTRUSTED;
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_LOGIN_DENIED)
        return OUTGOING_MALFORMED;
    return OUTGOING_BROKEN;
}

static void write_reason(const struct exchange *exchange, CURLcode code, const char *text, struct outgoing_outcome *outcome)
{
    const size_t room = sizeof outcome->reason;

    if (outcome->end == OUTGOING_FORBIDDEN)
        (void)snprintf(outcome->reason, room, "it resolves to no address that may be called: %s may not be", exchange->refused);
    else if (outcome->end == OUTGOING_TOO_LARGE) (void)snprintf(outcome->reason, room, "its answer is too large");
    else if (exchange->end == OUTGOING_UNTRUSTED) (void)snprintf(outcome->reason, room, "its certificate is of somebody else");
    else if (outcome->end == OUTGOING_NOT_AGAIN) (void)snprintf(outcome->reason, room, "the connection ended before the answer");
    else (void)snprintf(outcome->reason, room, "%.150s", text[0] == '\0' ? curl_easy_strerror(code) : text);
}

static struct outgoing_outcome conclude(const struct exchange *exchange, CURLcode code, const char *text)
{
    struct outgoing_outcome outcome = {.end = OUTGOING_ANSWERED, .was_sent = exchange->requests > 0, .length = -1};
    curl_off_t announced = -1;

    if (code != CURLE_OK) {
        outcome.end = end_of(exchange, code);
        write_reason(exchange, code, text, &outcome);
        return outcome;
    }
    (void)curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &outcome.status);
    (void)curl_easy_getinfo(exchange->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    outcome.length = (int64_t)announced;
    return outcome;
}

struct outgoing_outcome outgoing_perform(struct exchange *exchange)
{
    char text[CURL_ERROR_SIZE] = "";

    (void)curl_easy_setopt(exchange->curl, CURLOPT_ERRORBUFFER, text);
    CURLcode code = fault_is_due(FAULT_SOCKET) ? CURLE_COULDNT_CONNECT : curl_easy_perform(exchange->curl);
    if (fault_is_due(FAULT_SOCKET)) code = CURLE_RECV_ERROR; /* the request may have taken effect */
    const struct outgoing_outcome outcome = conclude(exchange, code, text);
    (void)curl_easy_setopt(exchange->curl, CURLOPT_ERRORBUFFER, NULL);
    return outcome;
}

struct result outgoing_call(struct outgoing *outgoing, const struct outgoing_request *request,
                            struct outgoing_outcome *outcome_out, struct error *err)
{
    struct exchange exchange = {.outgoing = outgoing, .request = request, .result = SUCCESS, .err = err};

    assert(request->take != NULL);
    exchange.curl = outgoing_take_handle(outgoing);
    if (exchange.curl == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection");
    exchange.result = outgoing_prepare(&exchange);
    if (exchange.result.ok) {
        const struct outgoing_outcome outcome = outgoing_perform(&exchange);
        if (exchange.result.ok) *outcome_out = outcome;
    }
    outgoing_free_lines(exchange.lines);
    outgoing_give_handle(outgoing, exchange.curl);
    return exchange.result;
}

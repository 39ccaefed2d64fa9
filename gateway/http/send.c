/* Turns a struct response into libmicrohttpd's response, and sends it. */
#include <string.h>
#include <sys/socket.h>

#include "gateway/http/exchange_priv.h"

#define MHD_BLOCK_SIZE    RESPONSE_BLOCK_SIZE /* one slot of the ring per call */
#define SEND_DIRECTLY_MAX ((size_t)32 * 1024) /* refusals: some headers, and a message */

static bool has_header(const struct response *response, const char *name)
{
    for (size_t i = 0; i < response->headers.count; i++)
        if (strcasecmp(response->headers.list[i].name, name) == 0) return true;
    return false;
}

static void add(struct MHD_Response *reply, const char *name, const char *value)
{
    (void)MHD_add_response_header(reply, name, value);
}

/* Adds a header of every answer, unless the handler has set it. */
static void add_default(struct MHD_Response *reply, const struct response *response, const char *name, const char *value)
{
    if (!has_header(response, name)) add(reply, name, value);
}

static void add_to_reply(void *reply, const char *name, const char *value)
{
    add(reply, name, value);
}

static void add_headers(struct http_exchange *exchange, const struct response *response, struct MHD_Response *reply)
{
    for (size_t i = 0; i < response->headers.count; i++)
        add(reply, response->headers.list[i].name, response->headers.list[i].value);
    exchange->callbacks->headers(exchange, add_to_reply, reply);
    add(reply, "X-Content-Type-Options", "nosniff");
    add_default(reply, response, "Cache-Control", "no-store");
    add_default(reply, response, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    if (response->close_connection || exchange->body_state == HTTP_BODY_GIVEN_UP || http_is_malformed(exchange) ||
        atomic_load(&exchange->server->is_draining))
        add(reply, "Connection", "close");
}

static struct MHD_Response *reply_of(struct http_exchange *exchange, const struct response *response)
{
    /* libmicrohttpd takes a pointer to data that it only reads without const. */
    const union {
        const uint8_t *data;
        void *unchanged;
    } body = {.data = response->body.data};

    /* libmicrohttpd sends the length only, as for HEAD; it can't send a 304 without a length on a connection that stays open. */
    if (response->unsent_length > 0)
        return MHD_create_response_from_callback(response->unsent_length, MHD_BLOCK_SIZE, body_out_give, exchange, NULL);
    if (response->source != NULL && exchange->method != METHOD_GET) body_out_begin(exchange); /* else http_answer() called it */
    if (response->source != NULL && response->source->length > 0)
        return MHD_create_response_from_callback(response->source->length, MHD_BLOCK_SIZE, body_out_give, exchange, NULL);
    return MHD_create_response_from_buffer(response->source != NULL ? 0 : response->body.length, body.unchanged,
                                           MHD_RESPMEM_PERSISTENT);
}

static void count_status(unsigned status)
{
    static const enum http_metric classes[] = {METRIC_STATUS_2, METRIC_STATUS_3, METRIC_STATUS_4, METRIC_STATUS_5};

    if (status >= 200 && status < 600) metric_add(&metrics_http[classes[status / 100 - 2]], 1);
}

/* Tells the transport about a body from memory, which libmicrohttpd sends right after the head. */
static void promise_body(struct http_exchange *exchange, const struct response *response)
{
    const bool is_source = response->source != NULL;
    const uint64_t length = is_source ? response->source->length : response->body.length;
    const bool follows = length > 0 && exchange->method != METHOD_HEAD && response->status != 204 && response->status != 304;

    transport_answer(&exchange->connection->transport, follows, is_source ? 0 : length);
}

static bool has_body(const struct http_exchange *exchange, const struct response *response)
{
    const bool is_empty = response->source != NULL ? response->source->length == 0 : response->body.length == 0;

    return exchange->method == METHOD_GET && !is_empty;
}

enum MHD_Result send_answer(struct http_exchange *exchange)
{
    static const char text[] = "the answer could not be made\n";
    const struct response broken = {.status = 500, .body = bytes_of_text(text), .close_connection = true};
    const struct response *response = exchange->callbacks->answer(exchange);

    if (response == NULL || response->is_broken) response = &broken;
    struct MHD_Response *reply = reply_of(exchange, response);
    if (reply == NULL) return MHD_NO;
    add_headers(exchange, response, reply);
    if (response == &broken) add(reply, "Content-Type", "text/plain; charset=utf-8");
    exchange->phase = PHASE_SENT;
    connection_enter(exchange->connection, CONNECTION_ANSWER);
    count_status(response->status);
    const bool is_by_right = exchange->callbacks->sending(exchange, response->status);
    if (is_by_right && has_body(exchange, response)) lease_begin(exchange); /* the body may take long */
    const enum MHD_Result queued = MHD_queue_response(exchange->mhd, response->status, reply);
    MHD_destroy_response(reply);
    promise_body(exchange, response);
    return queued;
}

static enum MHD_Result write_header(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct error ignored;

    (void)kind;
    return buffer_format(context, &ignored, "%s: %s\r\n", name, value).ok ? MHD_YES : MHD_NO;
}

static struct result write_answer(const struct response *response, struct MHD_Response *reply, struct buffer *text,
                                  struct error *err)
{
    TRY(buffer_format(text, err, "HTTP/1.1 %u %s\r\n", response->status, MHD_get_reason_phrase_for(response->status)));
    const int headers = MHD_get_response_headers(reply, NULL, NULL);
    if (MHD_get_response_headers(reply, write_header, text) != headers)
        return failure(err, ERROR_NO_MEMORY, "no memory for an answer's headers");
    TRY(buffer_format(text, err, "Content-Length: %zu\r\n\r\n", response->body.length));
    return buffer_add(text, response->body.data, response->body.length, err);
}

/* Nothing was sent since the last answer, so the kernel has room for all of it. */
static void write_out(const struct http_exchange *exchange, struct bytes text)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(exchange->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    gnutls_session_t session = info == NULL ? NULL : info->tls_session;

    for (size_t at = 0; at < text.length;) {
        const ssize_t sent = session != NULL ? gnutls_record_send(session, text.data + at, text.length - at)
                                             : send(exchange->connection->fd, text.data + at, text.length - at, MSG_NOSIGNAL);
        if (sent <= 0) return;
        at += (size_t)sent;
    }
}

void send_directly(struct http_exchange *exchange)
{
    struct buffer OWNED_BUFFER text = BUFFER(SEND_DIRECTLY_MAX);
    const struct response *response = exchange->callbacks->answer(exchange);
    struct error err = {0};

    if (response == NULL || response->is_broken || response->source != NULL) return;
    struct MHD_Response *reply = reply_of(exchange, response);
    if (reply == NULL) return;
    add_headers(exchange, response, reply);
    exchange->phase = PHASE_SENT;
    count_status(response->status);
    (void)exchange->callbacks->sending(exchange, response->status);
    transport_answer(&exchange->connection->transport, false, 0);
    if (write_answer(response, reply, &text, &err).ok) write_out(exchange, buffer_bytes(&text));
    MHD_destroy_response(reply);
}

enum MHD_Result send_refusal(struct http_exchange *exchange, const struct http_refusal *refusal)
{
    exchange->callbacks->refuse_head(exchange, refusal);
    return send_answer(exchange);
}

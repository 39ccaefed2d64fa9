/* The functions that libmicrohttpd calls as a request arrives: for the head, for each piece of the body, at the end. */
#include "base/work.h"
#include "gateway/http/exchange_priv.h"
#include "gateway/http/tls.h"

/*
 * The answer may be ready before the body. An answer that is sent here ends the connection, so it waits for the end of the request
 * (which is now if there is no body), unless the client waits for 100 Continue, or would send too much.
 */
static enum MHD_Result leave_head(struct http_exchange *exchange)
{
    const uint64_t most = (uint64_t)exchange->server->options.drain_size_max;

    exchange->is_at_head = false;
    if (exchange->phase != PHASE_ANSWER) return MHD_YES;
    const bool may_drain = !exchange->framing.expects_continue && exchange->framing.length <= most;
    if (!may_drain) return send_answer(exchange);
    if (exchange->body_state != HTTP_BODY_DONE) connection_enter(exchange->connection, CONNECTION_BODY);
    return MHD_YES;
}

/* After http_suspend() a worker may own the exchange. */
static enum MHD_Result admit(struct http_exchange *exchange)
{
    if (!exchange->callbacks->admit(exchange, atomic_load(&exchange->server->is_open))) {
        exchange->phase = PHASE_ANSWER;
        return leave_head(exchange);
    }
    exchange->phase = PHASE_WORK;
    http_suspend(exchange);
    exchange->callbacks->start(exchange);
    return MHD_YES;
}

static enum MHD_Result take_head(struct http_exchange *exchange, const char *method, const char *version)
{
    struct http_refusal refusal = {0};

    exchange->is_at_head = true;
    if (http_is_malformed(exchange)) return send_refusal(exchange, &exchange->connection->framer.refusal);
    if (!head_take(exchange, method, version, &refusal)) return send_refusal(exchange, &refusal);
    if (!exchange->framing.has_body) exchange->body_state = HTTP_BODY_DONE;
    if (!tls_check_client(exchange->server->tls, exchange->connection, exchange->mhd)) {
        refusal = (struct http_refusal){.status = 400, .why = "the client's certificate is not valid here"};
        return send_refusal(exchange, &refusal);
    }
    return admit(exchange);
}

/* There is an answer. The rest of the body is read first, because some clients do not look for an answer while they write. */
static enum MHD_Result drain(struct http_exchange *exchange, size_t *data_size)
{
    if (*data_size == 0) {
        exchange->body_state = HTTP_BODY_DONE;
        return send_answer(exchange);
    }
    exchange->body_bytes += *data_size;
    exchange->drained_bytes += *data_size;
    *data_size = 0;
    if (!exchange_sends_too_much(exchange)) return MHD_YES;
    exchange->body_state = HTTP_BODY_GIVEN_UP;
    send_directly(exchange);
    return MHD_NO;
}

/* The framing of the body is malformed, so its gathered part is no request. libmicrohttpd got an end of it (gateway/http/framer.h). */
static enum MHD_Result drop_gathered(struct http_exchange *exchange, size_t *data_size)
{
    (void)lease_end(exchange);
    exchange_drop_body(exchange);
    exchange->callbacks->refuse_body(exchange, &exchange->connection->framer.refusal);
    exchange->phase = PHASE_ANSWER;
    return drain(exchange, data_size);
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are libmicrohttpd's */
enum MHD_Result exchange_continue(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *data, size_t *data_size, void **request_context)
{
    struct http_exchange *exchange = *request_context;

    (void)server;
    (void)mhd;
    (void)url;
    if (exchange == NULL) return MHD_NO; /* no memory to answer with */
    if (exchange->phase == PHASE_HEAD) return take_head(exchange, method, version);
    if (exchange->phase == PHASE_FAST_PATH && !exchange->callbacks->fast_path(exchange)) return MHD_YES;
    if (exchange->is_at_head) return leave_head(exchange);
    switch (exchange->phase) {
    case PHASE_GATHER:
        return http_is_malformed(exchange) ? drop_gathered(exchange, data_size) : gather_take(exchange, data, data_size);
    case PHASE_STREAM: return body_in_take(exchange, data, data_size);
    case PHASE_ANSWER: return drain(exchange, data_size);
    case PHASE_HEAD:
    case PHASE_FAST_PATH:
    case PHASE_WORK:
    case PHASE_SENT: break;
    }
    return MHD_NO;
}

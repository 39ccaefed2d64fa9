/* Bodies that are gathered in memory: forms, manifests, documents. The pipeline counts their memory as it is taken. */
#include "gateway/http/exchange_priv.h"

void http_gather(struct http_exchange *exchange, size_t limit, bool is_by_right)
{
    exchange->body = BUFFER(limit);
    if (is_by_right) lease_begin(exchange);
    http_resume(exchange, PHASE_GATHER);
}

/* False: an answer was made. */
static bool add(struct http_exchange *exchange, const char *data, size_t size)
{
    const size_t before = exchange->body.capacity;
    struct error err = {0};

    const bool is_added = buffer_add(&exchange->body, data, size, &err).ok;
    const int64_t more = (int64_t)(exchange->body.capacity - before);
    if (more > 0) metric_add(&metrics_http[METRIC_GATHERED], more);
    if (more > 0 && !exchange->callbacks->hold(exchange, more)) return false;
    if (!is_added) exchange->callbacks->fail(exchange, &err, false);
    return is_added;
}

static void complete(struct http_exchange *exchange)
{
    exchange->body_state = HTTP_BODY_DONE;
    exchange->phase = PHASE_WORK;
    http_suspend(exchange);
    exchange->callbacks->gathered(exchange, buffer_bytes(&exchange->body));
}

enum MHD_Result gather_take(struct http_exchange *exchange, const char *data, size_t *data_size)
{
    const bool may_go_on = *data_size == 0 ? lease_end(exchange) : lease_move(exchange, *data_size);

    if (!may_go_on) {
        exchange->body_state = HTTP_BODY_GIVEN_UP;
        return MHD_NO;
    }
    if (*data_size == 0) {
        complete(exchange);
        return MHD_YES;
    }
    exchange->body_bytes += *data_size;
    if (!add(exchange, data, *data_size)) {
        (void)lease_end(exchange);
        exchange_drop_body(exchange); /* at once, so that its memory is free for others; the rest is only drained */
        exchange->phase = PHASE_ANSWER;
    }
    *data_size = 0;
    return MHD_YES;
}

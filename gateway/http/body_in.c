/*
 * Request bodies that stream. The event thread copies the body into the ring; one receiver at a time passes it to the pipeline, which
 * hashes, encrypts and writes it. A receiver is busy only while a slot is full.
 */
#include <string.h>

#include "gateway/http/exchange_priv.h"

#define IN_SLOTS        RING_SLOTS_MAX
#define IN_SLOT_SIZE    (BLOCK_SIZE / 2)
#define SLOTS_AT_A_TIME 8 /* then the receiver serves another upload */

static void pump(struct http_exchange *exchange, void *worker_state);

void http_stream(struct http_exchange *exchange)
{
    ring_begin(&exchange->transfer.ring, exchange->server->blocks, IN_SLOTS, IN_SLOT_SIZE);
    lease_begin(exchange);
    http_resume(exchange, PHASE_STREAM);
}

static struct work_pool *receivers_of(const struct http_exchange *exchange)
{
    return exchange->receivers == NULL ? exchange->server->options.receivers : exchange->receivers;
}

/* With the mutex. */
static void schedule(struct http_exchange *exchange)
{
    struct transfer *transfer = &exchange->transfer;

    if (transfer->is_busy) return;
    transfer->is_busy = http_submit(exchange, receivers_of(exchange), pump);
    if (!transfer->is_busy) transfer->has_failed = true;
}

/* Copies until the data or the room ends, and returns how many bytes. */
static size_t copy_in(struct http_exchange *exchange, const char *data, size_t size)
{
    struct transfer *transfer = &exchange->transfer;
    size_t taken = 0;

    while (taken < size && !transfer->has_failed && !ring_is_full(&transfer->ring)) {
        size_t room = 0;
        uint8_t *destination = ring_room(&transfer->ring, &room);
        const size_t part = size - taken < room ? size - taken : room;
        transfer->has_failed = destination == NULL;
        if (destination == NULL) break;
        memcpy(destination, data + taken, part);
        taken += part;
        if (ring_fill(&transfer->ring, part)) schedule(exchange);
    }
    return taken;
}

static void end_body(struct http_exchange *exchange)
{
    struct transfer *transfer = &exchange->transfer;

    ring_close_slot(&transfer->ring);
    transfer->has_ended = true;
    transport_rest(&exchange->connection->transport);
    http_suspend(exchange);
    schedule(exchange);
}

/* The right is decided a last time at the end of the body, because the commit follows. */
static bool may_go_on(struct http_exchange *exchange, bool is_end)
{
    return is_end ? lease_end(exchange) : lease_move(exchange, 0);
}

/* Bytes that are only drained need no right. */
static void count_in(struct http_exchange *exchange, size_t taken)
{
    exchange->body_bytes += taken;
    if (exchange->transfer.has_failed) (void)lease_end(exchange);
    else (void)lease_move(exchange, taken); /* the next call finds the result */
}

/* With the mutex: copies as much of the body as fits. */
static void take_some(struct http_exchange *exchange, const char *data, size_t *data_size)
{
    struct transfer *transfer = &exchange->transfer;

    transport_receive(&exchange->connection->transport);
    size_t taken = copy_in(exchange, data, *data_size);
    if (transfer->has_failed) exchange->drained_bytes += *data_size - taken;
    if (transfer->has_failed) taken = *data_size;
    count_in(exchange, taken);
    *data_size -= taken;
    transfer->is_waited_for = *data_size > 0;
    if (transfer->is_waited_for) http_suspend(exchange);
}

enum MHD_Result body_in_take(struct http_exchange *exchange, const char *data, size_t *data_size)
{
    struct transfer *transfer = &exchange->transfer;

    if (atomic_load(&exchange->server->is_stopping) || !may_go_on(exchange, *data_size == 0)) {
        exchange->body_state = HTTP_BODY_GIVEN_UP;
        return MHD_NO;
    }
    pthread_mutex_lock(&exchange->mutex);
    transfer->has_failed = transfer->has_failed || http_is_malformed(exchange);
    if (*data_size == 0) exchange->body_state = HTTP_BODY_DONE;
    else if (transfer->has_failed && exchange_sends_too_much(exchange)) exchange->body_state = HTTP_BODY_GIVEN_UP;
    if (exchange->body_state == HTTP_BODY_COMES) {
        take_some(exchange, data, data_size);
    } else {
        (void)lease_end(exchange);
        end_body(exchange); /* given up: *data_size stays, so that libmicrohttpd calls again when there is an answer */
    }
    pthread_mutex_unlock(&exchange->mutex);
    return MHD_YES;
}

/* With the mutex: lets the event thread go on. */
static void resume_event_thread(struct http_exchange *exchange)
{
    if (!exchange->transfer.is_waited_for) return;
    exchange->transfer.is_waited_for = false;
    http_resume(exchange, PHASE_STREAM);
}

/* With the mutex at start and end, without it while the pipeline writes. False: there is nothing to write. */
static bool write_slot(struct http_exchange *exchange, void *worker_state)
{
    struct transfer *transfer = &exchange->transfer;
    const struct bytes bytes = ring_first(&transfer->ring);

    if (bytes.length == 0 || transfer->has_failed || exchange->end != HTTP_GOES_ON) return false;
    pthread_mutex_unlock(&exchange->mutex);
    const bool is_written = exchange->callbacks->write(exchange, worker_state, bytes);
    pthread_mutex_lock(&exchange->mutex);
    ring_empty(&transfer->ring, bytes.length);
    if (!is_written) transfer->has_failed = true; /* the event thread may have set it too */
    if (transfer->ring.count <= IN_SLOTS / 2 || transfer->has_failed) resume_event_thread(exchange);
    return true;
}

enum rest { REST_NONE, REST_MORE, REST_END, REST_GONE };

/* Writes some slots, and returns how to go on. After REST_NONE the event thread may already own the exchange again. */
static enum rest pump_some(struct http_exchange *exchange, void *worker_state)
{
    struct transfer *transfer = &exchange->transfer;
    enum rest rest = REST_NONE;

    pthread_mutex_lock(&exchange->mutex);
    for (int i = 0; i < SLOTS_AT_A_TIME && write_slot(exchange, worker_state); i++) continue;
    if (transfer->has_failed) resume_event_thread(exchange);
    if (exchange->end != HTTP_GOES_ON) rest = REST_GONE;
    else if (transfer->ring.count > 0 && !transfer->has_failed) rest = REST_MORE;
    else if (transfer->has_ended) rest = REST_END;
    transfer->is_busy = rest == REST_MORE;
    pthread_mutex_unlock(&exchange->mutex);
    return rest;
}

/* The exchange is suspended, so no other thread uses it. */
static void finish(struct http_exchange *exchange, void *worker_state)
{
    const struct http_callbacks *callbacks = exchange->callbacks;

    if (http_is_malformed(exchange) && callbacks->answer(exchange) == NULL)
        callbacks->refuse_body(exchange, &exchange->connection->framer.refusal);
    callbacks->finish(exchange, worker_state, !exchange->transfer.has_failed);
}

/* On a receiver. */
static void pump(struct http_exchange *exchange, void *worker_state)
{
    enum rest rest = pump_some(exchange, worker_state);

    while (rest == REST_MORE && !http_submit(exchange, receivers_of(exchange), pump)) rest = pump_some(exchange, worker_state);
    if (rest == REST_GONE) exchange_leave(exchange);
    if (rest == REST_END) finish(exchange, worker_state);
}

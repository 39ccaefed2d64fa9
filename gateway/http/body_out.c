/*
 * Answer bodies that stream. The event thread itself reads and decrypts the blocks in memory, right into libmicrohttpd's buffer, because
 * a hand-over would cost more than that work. A sender reads blocks from a disk ahead of the client, into a ring from which the event
 * thread copies. Each time a block is missing, the sender reads a few.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/http/exchange_priv.h"

_Static_assert(RESPONSE_BLOCK_SIZE <= BLOCK_SIZE, "a slot is a block");

#define OUT_SLOTS       2
#define SLOTS_AT_A_TIME 4 /* then the sender serves another download, and the event thread tries again */
#define SIZE_AT_A_TIME  (SLOTS_AT_A_TIME * RESPONSE_BLOCK_SIZE)

static void pump(struct http_exchange *exchange, void *worker_state);

static const struct response_source *source_of(const struct http_exchange *exchange)
{
    return exchange->callbacks->answer(exchange)->source;
}

static struct work_pool *senders_of(const struct http_exchange *exchange)
{
    const struct response_source *source = source_of(exchange);

    return source->senders == NULL ? exchange->server->options.senders : source->senders;
}

static size_t next_block(const struct http_exchange *exchange, const struct response_source *source)
{
    const uint64_t left = source->length - exchange->transfer.read_bytes;

    return left < RESPONSE_BLOCK_SIZE ? (size_t)left : RESPONSE_BLOCK_SIZE;
}

/* Reads the next block into a slot of the ring; the caller counts it. */
static struct result read_block(struct http_exchange *exchange, const struct response_source *source, uint8_t *slot,
                                struct error *err)
{
    if (slot == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to read ahead");
    return source->read(source->state, exchange->transfer.read_bytes, slot, next_block(exchange, source), err);
}

static void count_block(struct transfer *transfer, size_t size)
{
    if (!ring_fill(&transfer->ring, size)) ring_close_slot(&transfer->ring);
    transfer->read_bytes += size;
}

static void note_first(struct transfer *transfer, const struct response_source *source, size_t size)
{
    count_block(transfer, size);
    transfer->sender_until = source->read_cached == NULL ? source->length : transfer->read_bytes;
}

void body_out_begin(struct http_exchange *exchange)
{
    exchange->transfer = (struct transfer){.ring = exchange->transfer.ring};
    ring_begin(&exchange->transfer.ring, exchange->server->blocks, OUT_SLOTS, RESPONSE_BLOCK_SIZE);
}

static struct result read_first(struct http_exchange *exchange, const struct response_source *source, struct error *err)
{
    uint8_t nothing = 0;
    size_t room = 0;

    if (source->length == 0) return source->read(source->state, 0, &nothing, 0, err); /* read() verifies an empty object too */
    TRY(read_block(exchange, source, ring_room(&exchange->transfer.ring, &room), err));
    note_first(&exchange->transfer, source, next_block(exchange, source));
    return SUCCESS;
}

/* False: the source has to wait for a disk. */
static bool read_first_cached(struct http_exchange *exchange, const struct response_source *source)
{
    struct transfer *transfer = &exchange->transfer;
    const size_t size = next_block(exchange, source);
    size_t room = 0;

    if (size == 0 || source->read_cached == NULL) return false;
    uint8_t *destination = ring_room(&transfer->ring, &room);
    if (destination == NULL || !source->read_cached(source->state, 0, destination, size)) return false;
    note_first(transfer, source, size);
    return true;
}

static void try_first(struct http_exchange *exchange, const struct response_source *source)
{
    struct error err = {0};

    if (!read_first(exchange, source, &err).ok) exchange->callbacks->fail(exchange, &err, true);
}

static void refuse_first(struct http_exchange *exchange)
{
    const struct error late = {ERROR_UNAVAILABLE, "no sender was free in time"};

    exchange->callbacks->fail(exchange, &late, false);
}

static void begin_on_sender(struct http_exchange *exchange, void *worker_state)
{
    (void)worker_state;
    if (clock_monotonic_ms() - exchange->queued_ms <= exchange->server->options.queue_timeout_ms)
        try_first(exchange, source_of(exchange));
    else refuse_first(exchange);
    http_resume(exchange, PHASE_ANSWER);
}

/* True: a sender goes on with the exchange. */
static bool submit_to_sender(struct http_exchange *exchange, const struct response_source *source)
{
    struct work_pool *senders = senders_of(exchange);

    if (read_first_cached(exchange, source)) return false;
    if (work_waiting(senders) < exchange->server->options.queue_max && http_submit(exchange, senders, begin_on_sender))
        return true;
    refuse_first(exchange);
    return false;
}

static const struct response_source *source_to_send(const struct http_exchange *exchange)
{
    const struct response *answer = exchange->callbacks->answer(exchange);

    return answer == NULL || exchange->method != METHOD_GET ? NULL : answer->source;
}

/* The first block is usually in memory. If disks hang, at most half of the readers wait for first blocks; further requests wait
 * for senders, at most queue_max of them. So requests that need no disk go on. */
void http_answer(struct http_exchange *exchange)
{
    const struct response_source *source = source_to_send(exchange);
    struct server *server = exchange->server;
    bool is_left = false;

    if (source != NULL) {
        body_out_begin(exchange);
        const bool is_usual =
            atomic_fetch_add(&server->first_reads, 1) < server->options.first_reads_max && source->senders == NULL;
        if (is_usual) try_first(exchange, source);
        atomic_fetch_sub(&server->first_reads, 1);
        is_left = !is_usual && submit_to_sender(exchange, source);
    }
    if (!is_left) http_resume(exchange, PHASE_ANSWER); /* from here on the exchange and the server may be gone */
}

bool http_answer_directly(struct http_exchange *exchange)
{
    const struct response_source *source = source_to_send(exchange);

    if (source == NULL) return true;
    body_out_begin(exchange);
    return read_first_cached(exchange, source);
}

/* With the mutex. */
static void schedule(struct http_exchange *exchange)
{
    struct transfer *transfer = &exchange->transfer;

    if (transfer->is_busy || transfer->has_failed || ring_is_full(&transfer->ring)) return;
    if (transfer->read_bytes == transfer->sender_until) return;
    transfer->is_busy = http_submit(exchange, senders_of(exchange), pump);
    if (!transfer->is_busy) transfer->has_failed = true;
}

/* With the mutex. */
static size_t copy_out(struct ring *ring, char *destination, size_t size)
{
    const struct bytes first = ring_first(ring);
    const size_t part = size < first.length ? size : first.length;

    memcpy(destination, first.data, part);
    ring_empty(ring, part);
    return part;
}

/* Without the mutex, because no job uses the source now. 0: a sender has to read the next block. */
static size_t read_cached(struct http_exchange *exchange, char *destination, size_t size)
{
    const struct response_source *source = source_of(exchange);
    struct transfer *transfer = &exchange->transfer;
    const size_t wanted = next_block(exchange, source);
    const uint64_t left = source->length - transfer->read_bytes;

    if (size < wanted || !source->read_cached(source->state, transfer->read_bytes, (uint8_t *)destination, wanted)) {
        transfer->sender_until = transfer->read_bytes + (left < SIZE_AT_A_TIME ? left : SIZE_AT_A_TIME);
        return 0;
    }
    transfer->read_bytes += wanted;
    transfer->sender_until = transfer->read_bytes;
    return wanted;
}

/* With the mutex at start and end. Returns how many bytes the ring or the source has without waiting. */
static size_t take(struct http_exchange *exchange, char *destination, size_t size)
{
    struct transfer *transfer = &exchange->transfer;

    if (transfer->ring.count > 0) return copy_out(&transfer->ring, destination, size);
    if (transfer->is_busy || transfer->has_failed || transfer->read_bytes < transfer->sender_until) return 0;
    pthread_mutex_unlock(&exchange->mutex);
    const size_t given = read_cached(exchange, destination, size);
    pthread_mutex_lock(&exchange->mutex);
    return given;
}

ssize_t body_out_give(void *context, uint64_t position, char *destination, size_t size)
{
    struct http_exchange *exchange = context;
    struct transfer *transfer = &exchange->transfer;

    (void)position; /* libmicrohttpd asks in order */
    pthread_mutex_lock(&exchange->mutex);
    const bool may_go_on = lease_move(exchange, 0);
    ssize_t given = may_go_on ? (ssize_t)take(exchange, destination, size) : 0;
    (void)lease_move(exchange, (uint64_t)given);
    transport_promise(&exchange->connection->transport, (uint64_t)given);
    exchange->sent_bytes += (uint64_t)given;
    schedule(exchange);
    if (given == 0 && (!may_go_on || transfer->has_failed || atomic_load(&exchange->server->is_stopping))) {
        metric_add(&metrics_http[METRIC_ABORTED], 1);
        given = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (given == 0) {
        transfer->is_waited_for = true;
        http_suspend(exchange);
    }
    pthread_mutex_unlock(&exchange->mutex);
    return given;
}

/* With the mutex: lets the event thread go on. */
static void resume_event_thread(struct http_exchange *exchange)
{
    if (!exchange->transfer.is_waited_for) return;
    exchange->transfer.is_waited_for = false;
    http_resume(exchange, PHASE_SENT);
}

/* With the mutex at start and end, without it while the source reads. False: there is nothing to do. */
static bool read_slot(struct http_exchange *exchange)
{
    const struct response_source *source = source_of(exchange);
    struct transfer *transfer = &exchange->transfer;
    struct error err = {0};
    size_t room = 0;

    if (exchange->end != HTTP_GOES_ON || transfer->has_failed || ring_is_full(&transfer->ring)) return false;
    if (transfer->read_bytes == transfer->sender_until) return false;
    uint8_t *slot = ring_room(&transfer->ring, &room);
    pthread_mutex_unlock(&exchange->mutex);
    const bool ok = read_block(exchange, source, slot, &err).ok;
    if (!ok) log_error("an answer was broken off", &err);
    pthread_mutex_lock(&exchange->mutex);
    transfer->has_failed = !ok;
    if (ok) count_block(transfer, next_block(exchange, source));
    resume_event_thread(exchange);
    return ok;
}

/* On a sender. */
static void pump(struct http_exchange *exchange, void *worker_state)
{
    struct transfer *transfer = &exchange->transfer;

    (void)worker_state;
    pthread_mutex_lock(&exchange->mutex);
    for (int i = 0; i < SLOTS_AT_A_TIME && read_slot(exchange); i++) continue;
    transfer->is_busy = false;
    const bool is_gone = exchange->end != HTTP_GOES_ON;
    if (!is_gone) schedule(exchange);
    if (!is_gone && transfer->has_failed) resume_event_thread(exchange);
    pthread_mutex_unlock(&exchange->mutex);
    if (is_gone) exchange_leave(exchange);
}

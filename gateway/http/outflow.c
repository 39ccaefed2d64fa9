/*
 * Bodies that stream out. What is in memory the event thread reads and decrypts itself, right into libmicrohttpd's
 * buffer: handing it over would cost more than the work. What has to come from a disk a sender reads ahead of the
 * client into a ring, from which the event thread copies, a few blocks for each time that something was missing.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/http/exchange_priv.h"
#include "gateway/http/server_priv.h"

_Static_assert(RESPONSE_BLOCK_SIZE <= BLOCK_SIZE, "a slot is a block");

#define SLOTS_A_TURN 4 /* then other downloads have their turn, and the event thread tries again */
#define TURN         (SLOTS_A_TURN * RESPONSE_BLOCK_SIZE)

static void pump(struct exchange *exchange, struct pg *pg);

static size_t next_block(const struct exchange *exchange)
{
    const uint64_t left = exchange->request.source->length - exchange->outflow.read_bytes;

    return left < RESPONSE_BLOCK_SIZE ? (size_t)left : RESPONSE_BLOCK_SIZE;
}

/* A place for a block. NULL without memory. */
static uint8_t *slot_at(struct exchange *exchange, unsigned index)
{
    uint8_t **slot = &exchange->outflow.slots[index];

    if (*slot == NULL) *slot = blocks_take(exchange->server->blocks);
    return *slot;
}

/* Reads the next block into a slot. */
static struct result read_block(struct exchange *exchange, unsigned index, struct error *err)
{
    const struct response_source *source = exchange->request.source;
    uint8_t *slot = slot_at(exchange, index);
    const size_t size = next_block(exchange);

    if (slot == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to read ahead");
    TRY(source->read(source->state, exchange->outflow.read_bytes, slot, size, err));
    exchange->outflow.filled[index] = size;
    return SUCCESS;
}

static void note_first(struct exchange *exchange)
{
    const struct response_source *source = exchange->request.source;
    struct outflow *outflow = &exchange->outflow;

    outflow->read_bytes = outflow->filled[0];
    outflow->sender_until = source->read_at_once == NULL ? source->length : outflow->read_bytes;
    outflow->count = 1;
}

static struct result read_first(struct exchange *exchange, struct error *err)
{
    const struct response_source *source = exchange->request.source;
    uint8_t nothing = 0;

    if (source->length == 0) return source->read(source->state, 0, &nothing, 0, err); /* which is verified, too */
    TRY(read_block(exchange, 0, err));
    note_first(exchange);
    return SUCCESS;
}

/* False: it has to be waited for. */
static bool read_first_at_once(struct exchange *exchange)
{
    const struct response_source *source = exchange->request.source;
    const size_t size = next_block(exchange);

    if (size == 0 || source->read_at_once == NULL || slot_at(exchange, 0) == NULL) return false;
    if (!source->read_at_once(source->state, 0, exchange->outflow.slots[0], size)) return false;
    exchange->outflow.filled[0] = size;
    note_first(exchange);
    return true;
}

bool outflow_begin_at_once(struct exchange *exchange)
{
    return read_first_at_once(exchange);
}

static void try_first(struct exchange *exchange)
{
    struct error err = {0};

    if (read_first(exchange, &err).ok) return;
    failure_tell(&exchange->request, &err);
    response_failure(&exchange->request, &err);
}

static void refuse_first(struct exchange *exchange)
{
    const struct error late = {ERROR_UNAVAILABLE, "no sender was free in time"};

    response_failure(&exchange->request, &late);
}

static void begin_on_sender(struct exchange *exchange, struct pg *pg)
{
    const struct settings *settings = exchange->server->gateway->settings;

    (void)pg;
    if (clock_monotonic_ms() - exchange->queued_ms <= settings->queue_timeout)
        try_first(exchange);
    else
        refuse_first(exchange);
    exchange_resume(exchange, PHASE_ANSWER);
}

/* True: a sender does the rest. */
static bool leave_to_sender(struct exchange *exchange)
{
    const struct gateway *gateway = exchange->server->gateway;

    if (read_first_at_once(exchange)) return false;
    if (work_waiting(gateway->senders) < (unsigned)gateway->settings->queue_max &&
        exchange_submit(exchange, gateway->senders, begin_on_sender))
        return true;
    refuse_first(exchange);
    return false;
}

/* As a rule it is in memory, and read before anybody else would have begun. Before a disk that hangs half of the readers stand
 * at most, then as many requests wait for senders as for readers: all that needs no disk goes on. */
void outflow_begin(struct exchange *exchange)
{
    const struct gateway *gateway = exchange->server->gateway;
    _Atomic int *first_reads = &exchange->server->first_reads;
    const bool is_usual = atomic_fetch_add(first_reads, 1) < gateway->settings->reader_threads / 2;

    if (is_usual) try_first(exchange);
    atomic_fetch_sub(first_reads, 1);
    if (!is_usual && leave_to_sender(exchange)) return;
    exchange_resume(exchange, PHASE_ANSWER); /* from here on neither it nor the server need be there */
}

/* With the mutex held. */
static void schedule(struct exchange *exchange)
{
    struct outflow *outflow = &exchange->outflow;

    if (exchange->is_busy || outflow->has_failed || outflow->count == OUTFLOW_SLOTS) return;
    if (outflow->read_bytes == outflow->sender_until) return;
    exchange->is_busy = exchange_submit(exchange, exchange->server->gateway->senders, pump);
    if (!exchange->is_busy) outflow->has_failed = true;
}

/* With the mutex held. */
static size_t copy_out(struct outflow *outflow, struct blocks *blocks, char *place, size_t size)
{
    const size_t left = outflow->filled[outflow->head] - outflow->used;
    const size_t part = size < left ? size : left;

    memcpy(place, outflow->slots[outflow->head] + outflow->used, part);
    outflow->used += part;
    if (outflow->used < outflow->filled[outflow->head]) return part;
    outflow->used = 0;
    blocks_give(blocks, outflow->slots[outflow->head]);
    outflow->slots[outflow->head] = NULL;
    outflow->head = (outflow->head + 1) % OUTFLOW_SLOTS;
    outflow->count--;
    return part;
}

/* Without the mutex: no job has the source now. 0: a sender has to read what comes next. */
static size_t read_at_once(struct exchange *exchange, char *place, size_t size)
{
    const struct response_source *source = exchange->request.source;
    struct outflow *outflow = &exchange->outflow;
    const size_t wanted = next_block(exchange);
    const uint64_t left = source->length - outflow->read_bytes;

    if (size < wanted || !source->read_at_once(source->state, outflow->read_bytes, (uint8_t *)place, wanted)) {
        outflow->sender_until = outflow->read_bytes + (left < TURN ? left : TURN);
        return 0;
    }
    outflow->read_bytes += wanted;
    outflow->sender_until = outflow->read_bytes;
    return wanted;
}

/* With the mutex held at start and end. How much there is at once, from the ring or from the source. */
static size_t take(struct exchange *exchange, char *place, size_t size)
{
    struct outflow *outflow = &exchange->outflow;

    if (outflow->count > 0) return copy_out(outflow, exchange->server->blocks, place, size);
    if (exchange->is_busy || outflow->has_failed || outflow->read_bytes < outflow->sender_until) return 0;
    pthread_mutex_unlock(&exchange->mutex);
    const size_t given = read_at_once(exchange, place, size);
    pthread_mutex_lock(&exchange->mutex);
    return given;
}

ssize_t outflow_give(void *context, uint64_t position, char *place, size_t size)
{
    struct exchange *exchange = context;
    struct outflow *outflow = &exchange->outflow;

    (void)position; /* libmicrohttpd asks in order */
    pthread_mutex_lock(&exchange->mutex);
    const bool may_go_on = lease_move(exchange, 0);
    ssize_t given = may_go_on ? (ssize_t)take(exchange, place, size) : 0;
    (void)lease_move(exchange, (uint64_t)given);
    transport_promise(&exchange->link->transport, (uint64_t)given);
    exchange->sent_bytes += (uint64_t)given;
    schedule(exchange);
    if (given == 0 && (!may_go_on || outflow->has_failed || atomic_load(&exchange->server->is_stopping))) {
        metric_add(&metrics_gateway[METRIC_ABORTED], 1);
        given = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (given == 0) {
        outflow->is_empty = true;
        exchange_suspend(exchange);
    }
    pthread_mutex_unlock(&exchange->mutex);
    return given;
}

/* With the mutex held: the event thread may go on. */
static void let_out(struct exchange *exchange)
{
    if (!exchange->outflow.is_empty) return;
    exchange->outflow.is_empty = false;
    link_enter(exchange->link, LINK_ANSWER);
    exchange_resume(exchange, PHASE_SENT);
}

/* With the mutex held at start and end, not while the source reads. False once there is nothing to do. */
static bool read_slot(struct exchange *exchange)
{
    struct outflow *outflow = &exchange->outflow;
    const unsigned index = (outflow->head + outflow->count) % OUTFLOW_SLOTS;
    struct error err = {0};

    if (exchange->is_gone || outflow->has_failed || outflow->count == OUTFLOW_SLOTS) return false;
    if (outflow->read_bytes == outflow->sender_until) return false;
    pthread_mutex_unlock(&exchange->mutex);
    const bool ok = read_block(exchange, index, &err).ok;
    if (!ok) log_error("an answer was broken off", &err);
    pthread_mutex_lock(&exchange->mutex);
    outflow->has_failed = !ok;
    if (ok) outflow->read_bytes += outflow->filled[index];
    if (ok) outflow->count++;
    let_out(exchange);
    return ok;
}

/* On a sender. */
static void pump(struct exchange *exchange, struct pg *pg)
{
    struct outflow *outflow = &exchange->outflow;

    (void)pg;
    pthread_mutex_lock(&exchange->mutex);
    for (int turn = 0; turn < SLOTS_A_TURN && read_slot(exchange); turn++) continue;
    exchange->is_busy = false;
    const bool is_gone = exchange->is_gone;
    if (!is_gone) schedule(exchange);
    if (!is_gone && outflow->has_failed) let_out(exchange);
    pthread_mutex_unlock(&exchange->mutex);
    if (is_gone) exchange_leave(exchange);
}

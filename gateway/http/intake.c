/*
 * Bodies that stream in: a ring between the event thread, which copies, and one mover at a time, which hashes,
 * encrypts and writes. A mover is taken only while a slot is full.
 */
#include <string.h>

#include "gateway/http/exchange_priv.h"
#include "gateway/http/server_priv.h"
#include "gateway/pipeline/metrics.h"

#define SLOTS_A_TURN 8 /* then other uploads have their turn */

static void pump(struct exchange *exchange, struct pg *pg);

/* With the mutex held. */
static void schedule(struct exchange *exchange)
{
    if (exchange->is_busy) return;
    exchange->is_busy = exchange_submit(exchange, exchange->server->gateway->movers, pump);
    if (!exchange->is_busy) exchange->intake.has_failed = true;
}

static uint8_t *slot_to_fill(struct intake *intake, struct blocks *blocks, unsigned *index_out)
{
    const unsigned index = (intake->head + intake->count) % INTAKE_SLOTS;

    if (intake->count == INTAKE_SLOTS) return NULL;
    if (intake->slots[index] == NULL) intake->slots[index] = blocks_take(blocks);
    if (intake->slots[index] == NULL) intake->has_failed = true;
    *index_out = index;
    return intake->slots[index];
}

/* Copies until the data or the room ends; how much was taken. */
static size_t copy_in(struct exchange *exchange, const char *data, size_t size)
{
    struct intake *intake = &exchange->intake;
    size_t taken = 0;

    while (taken < size && !intake->has_failed) {
        unsigned index = 0;
        uint8_t *slot = slot_to_fill(intake, exchange->server->blocks, &index);
        if (slot == NULL) break;
        const size_t room = INTAKE_SLOT_SIZE - intake->filled[index];
        const size_t part = size - taken < room ? size - taken : room;
        memcpy(slot + intake->filled[index], data + taken, part);
        intake->filled[index] += part;
        taken += part;
        if (intake->filled[index] < INTAKE_SLOT_SIZE) break;
        intake->count++;
        schedule(exchange);
    }
    return taken;
}

static void end_body(struct exchange *exchange)
{
    struct intake *intake = &exchange->intake;
    const unsigned index = (intake->head + intake->count) % INTAKE_SLOTS;

    if (intake->count < INTAKE_SLOTS && intake->filled[index] > 0) intake->count++;
    intake->has_ended = true;
    exchange->is_body_done = !exchange->is_given_up;
    transport_rest(&exchange->link->transport);
    exchange_suspend(exchange);
    schedule(exchange);
}

/* At the end the right is asked for a last time; what is decided then is the commit. */
static bool may_go_on(struct exchange *exchange, bool is_end)
{
    return is_end ? lease_end(exchange) : lease_move(exchange, 0);
}

/* What is only drained needs no right. */
static void count_in(struct exchange *exchange, size_t taken)
{
    exchange->body_bytes += taken;
    if (exchange->intake.has_failed) (void)lease_end(exchange);
    else (void)lease_move(exchange, taken); /* the next call says what came of it */
}

enum MHD_Result intake_take(struct exchange *exchange, const char *data, size_t *data_size)
{
    struct intake *intake = &exchange->intake;

    if (atomic_load(&exchange->server->is_stopping) || !may_go_on(exchange, *data_size == 0)) {
        exchange->is_given_up = true;
        return MHD_NO;
    }
    pthread_mutex_lock(&exchange->mutex);
    intake->has_failed = intake->has_failed || exchange_is_malformed(exchange);
    if (*data_size > 0) exchange->is_given_up = intake->has_failed && exchange_sends_too_much(exchange);
    if (*data_size == 0 || exchange->is_given_up) {
        (void)lease_end(exchange);
        end_body(exchange); /* given up: what is here stays, so that we are asked again when there is an answer */
    } else {
        transport_receive(&exchange->link->transport);
        size_t taken = copy_in(exchange, data, *data_size);
        if (intake->has_failed) exchange->drained_bytes += *data_size - taken;
        if (intake->has_failed) taken = *data_size;
        count_in(exchange, taken);
        *data_size -= taken;
        intake->is_full = *data_size > 0;
        if (intake->is_full) exchange_suspend(exchange);
    }
    pthread_mutex_unlock(&exchange->mutex);
    return MHD_YES;
}

/* With the mutex held: the event thread may go on. */
static void let_in(struct exchange *exchange)
{
    if (!exchange->intake.is_full) return;
    exchange->intake.is_full = false;
    exchange_resume(exchange, PHASE_STREAM);
}

/* With the mutex held at start and end, not while the handler writes. False once there is nothing to write. */
static bool write_slot(struct exchange *exchange, struct pg *pg)
{
    struct request *request = &exchange->request;
    struct intake *intake = &exchange->intake;
    const unsigned index = intake->head;
    struct error err = {0};

    if (intake->count == 0 || intake->has_failed || exchange->is_gone) return false;
    pthread_mutex_unlock(&exchange->mutex);
    const struct bytes bytes = {intake->slots[index], intake->filled[index]};
    const bool ok = request->route->handler->write(request, pg, bytes, &err).ok;
    if (!ok) failure_tell(request, &err);
    if (!ok) response_failure(request, &err);
    pthread_mutex_lock(&exchange->mutex);
    blocks_give(exchange->server->blocks, intake->slots[index]); /* the event thread fills it next, while it is warm */
    intake->slots[index] = NULL;
    intake->filled[index] = 0;
    intake->head = (index + 1) % INTAKE_SLOTS;
    intake->count--;
    if (!ok || request->response != NULL) intake->has_failed = true; /* the event thread may have said so, too */
    if (intake->count <= INTAKE_SLOTS / 2 || intake->has_failed) let_in(exchange);
    return true;
}

enum rest { REST_NONE, REST_MORE, REST_END, REST_GONE };

/* Writes some slots; what is left to do. For REST_NONE the event thread may already have the exchange again. */
static enum rest pump_turn(struct exchange *exchange, struct pg *pg)
{
    struct intake *intake = &exchange->intake;
    enum rest rest = REST_NONE;

    pthread_mutex_lock(&exchange->mutex);
    for (int turn = 0; turn < SLOTS_A_TURN && write_slot(exchange, pg); turn++) continue;
    if (intake->has_failed) let_in(exchange);
    if (exchange->is_gone)
        rest = REST_GONE;
    else if (intake->count > 0 && !intake->has_failed)
        rest = REST_MORE;
    else if (intake->has_ended)
        rest = REST_END;
    exchange->is_busy = rest == REST_MORE;
    pthread_mutex_unlock(&exchange->mutex);
    return rest;
}

/* On a mover. */
static void pump(struct exchange *exchange, struct pg *pg)
{
    enum rest rest = pump_turn(exchange, pg);

    while (rest == REST_MORE && !exchange_submit(exchange, exchange->server->gateway->movers, pump))
        rest = pump_turn(exchange, pg);
    if (rest == REST_GONE) exchange_leave(exchange);
    if (rest == REST_END) pipeline_finish(exchange, pg); /* suspended: nobody else looks */
}

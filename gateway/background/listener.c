#include "gateway/background/listener.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/priority.h"
#include "base/thread.h"
#include "gateway/pipeline/gateway.h"

struct listener {
    const struct listener_work *work;
    void *context;
    struct pg *pg;
    struct thread thread;
    int64_t look_ms; /* when to look for work without a notification; monotonic */
};

static void tell(struct listener *listener)
{
    if (listener->work->told != NULL) listener->work->told(listener->context);
}

static void do_each(struct listener *listener)
{
    if (listener->work->each != NULL) listener->work->each(listener->pg, listener->context);
}

static void look(struct listener *listener)
{
    while (listener->work->next(listener->pg, listener->context) && !thread_is_stopping(&listener->thread) &&
           !pg_is_broken(listener->pg))
        do_each(listener);
    listener->look_ms = clock_monotonic_ms() + LISTENER_EVERY_MS;
}

static void step(struct listener *listener)
{
    const unsigned wait_ms = listener->work->wait_ms == NULL ? LISTENER_WAIT_MS : listener->work->wait_ms(listener->context);
    struct error err = {0};
    bool is_told = false;

    if (!pg_wait_notify(listener->pg, wait_ms, &is_told, &err).ok) return; /* the connection broke */
    if (is_told) tell(listener);
    if (is_told || clock_monotonic_ms() >= listener->look_ms) look(listener);
    do_each(listener);
}

static bool is_connected(struct listener *listener)
{
    struct error ignored = {0}; /* the readers log it already */

    if (!pg_is_broken(listener->pg)) return true;
    if (!pg_reopen(listener->pg, &ignored).ok) return false;
    listener->look_ms = 0;
    tell(listener);
    return true;
}

static void *listener_main(void *argument)
{
    struct listener *listener = argument;

    priority_background();
    while (!thread_is_stopping(&listener->thread)) {
        if (is_connected(listener)) step(listener);
        else (void)thread_sleep(&listener->thread, LISTENER_EVERY_MS);
    }
    return NULL;
}

struct result listener_start(struct gateway *gateway, const struct listener_work *work, void *context,
                             struct listener **listener_out, struct error *err)
{
    OWNED(listener) *listener = memory_zeroed(1, sizeof *listener);

    if (listener == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a thread of the gateway");
    listener->work = work;
    listener->context = context;
    TRY(pg_open_lazily(gateway->settings->database, gateway->tables, &listener->pg, err));
    TRY(pg_listen(listener->pg, work->channel, err));
    TRY(thread_start(&listener->thread, listener_main, listener, work->name, err));
    *listener_out = GIVE(listener);
    return SUCCESS;
}

void listener_free(struct listener *listener)
{
    if (listener == NULL) return;
    thread_stop(&listener->thread);
    pg_free(listener->pg);
    free(listener);
}

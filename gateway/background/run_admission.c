#include "gateway/background/run_admission.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/priority.h"
#include "base/thread.h"
#include "gateway/pipeline/gateway.h"
#include "training/admit_jobs.h"

#define LOOK_EVERY_MS 5000 /* without a notification: an earlier gateway may have left work, and claims run out */
#define WAIT_MS       200  /* of one wait for a notification, because the thread may have to stop */

struct run_admission {
    struct gateway *gateway;
    struct pg *pg;
    struct thread thread;
    int64_t look_ms; /* when to look for work without a notification; monotonic */
};

/* True: there may be more. */
static bool admit_one(struct run_admission *admission)
{
    const struct gateway *gateway = admission->gateway;
    const struct run_admit_source source = {
        {admission->pg, gateway->keyd, gateway->sequencer, gateway->documents, gateway->decider}, gateway->registry};
    struct error err = {0};
    bool is_found = false;

    if (!run_admit_next(&source, gateway->settings->instance, &is_found, &err).ok)
        log_error("a training run is not admitted yet; it is tried again", &err);
    return is_found;
}

static void look(struct run_admission *admission)
{
    while (admit_one(admission) && !thread_is_stopping(&admission->thread) && !pg_is_broken(admission->pg)) continue;
    admission->look_ms = clock_monotonic_ms() + LOOK_EVERY_MS;
}

static void step(struct run_admission *admission)
{
    struct error err = {0};
    bool is_told = false;

    if (!pg_wait_notify(admission->pg, WAIT_MS, &is_told, &err).ok) return; /* the connection broke */
    if (is_told || clock_monotonic_ms() >= admission->look_ms) look(admission);
}

static bool is_connected(struct run_admission *admission)
{
    struct error ignored = {0}; /* the readers log it already */

    if (!pg_is_broken(admission->pg)) return true;
    if (!pg_reopen(admission->pg, &ignored).ok) return false;
    admission->look_ms = 0; /* notifications may be lost */
    return true;
}

static void *admission_main(void *argument)
{
    struct run_admission *admission = argument;

    priority_background();
    while (!thread_is_stopping(&admission->thread)) {
        if (is_connected(admission)) step(admission);
        else (void)thread_sleep(&admission->thread, LOOK_EVERY_MS);
    }
    return NULL;
}

struct result run_admission_start(struct gateway *gateway, struct run_admission **admission_out, struct error *err)
{
    OWNED(run_admission) *admission = memory_zeroed(1, sizeof *admission);

    if (admission == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to admit runs");
    admission->gateway = gateway;
    TRY(pg_open_lazily(gateway->settings->database, gateway->tables, &admission->pg, err));
    TRY(pg_listen(admission->pg, RUN_RESULT_CHANNEL, err));
    TRY(thread_start(&admission->thread, admission_main, admission, "admits training runs", err));
    *admission_out = GIVE(admission);
    return SUCCESS;
}

void run_admission_free(struct run_admission *admission)
{
    if (admission == NULL) return;
    thread_stop(&admission->thread);
    pg_free(admission->pg);
    free(admission);
}

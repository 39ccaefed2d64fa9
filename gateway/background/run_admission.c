#include "gateway/background/run_admission.h"

#include "base/log.h"
#include "base/memory.h"
#include "gateway/background/listener.h"
#include "gateway/pipeline/gateway.h"
#include "training/admit_jobs.h"

struct run_admission {
    struct gateway *gateway;
    struct listener *listener;
};

static bool admit_one(struct pg *pg, void *context)
{
    const struct gateway *gateway = ((struct run_admission *)context)->gateway;
    const struct run_admit_source source = {{pg, gateway->keyd, gateway->sequencer, gateway->documents, gateway->decider},
                                            gateway->registry};
    struct error err = {0};
    bool is_found = false;

    if (!run_admit_next(&source, gateway->settings->instance, &is_found, &err).ok)
        log_error("a training run is not admitted yet; it is tried again", &err);
    return is_found;
}

static const struct listener_work work = {.channel = RUN_RESULT_CHANNEL, .name = "admits training runs", .next = admit_one};

struct result run_admission_start(struct gateway *gateway, struct run_admission **admission_out, struct error *err)
{
    OWNED(run_admission) *admission = memory_zeroed(1, sizeof *admission);

    if (admission == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to admit runs");
    admission->gateway = gateway;
    TRY(listener_start(gateway, &work, admission, &admission->listener, err));
    *admission_out = GIVE(admission);
    return SUCCESS;
}

void run_admission_free(struct run_admission *admission)
{
    if (admission == NULL) return;
    listener_free(admission->listener);
    free(admission);
}

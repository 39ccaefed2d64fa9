#include "gateway/background/janitor.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pace.h"
#include "base/text.h"
#include "crypto/keyd_client.h"
#include "gateway/background/mint_watch.h"
#include "gateway/pipeline/gateway.h"
#include "registry/jobs/tidy.h"
#include "registry/jobs/turn.h"
#include "registry/registry.h"

#define TURN_EVERY_S   30
#define TURN_MS        20000  /* of cleaning: with a large backlog the rest has its turn as well */

struct janitor {
    struct gateway *gateway;
    struct pg *pg;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    pthread_t thread;
    bool has_thread, is_stopping;
    struct mint_watch mints;
    uint64_t unwraps_told; /* keyd's count in the newest keyd.unwraps event of ours */
};

static bool is_stopping(void *context)
{
    struct janitor *janitor = context;

    pthread_mutex_lock(&janitor->mutex);
    const bool stopping = janitor->is_stopping;
    pthread_mutex_unlock(&janitor->mutex);
    return stopping;
}

static void rest(struct janitor *janitor)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += TURN_EVERY_S;
    pthread_mutex_lock(&janitor->mutex);
    while (!janitor->is_stopping && pthread_cond_timedwait(&janitor->woken, &janitor->mutex, &until) == 0) continue;
    pthread_mutex_unlock(&janitor->mutex);
}

/* True: there is more to do. */
static bool clean(struct janitor *janitor)
{
    const struct tidy_turn turn = {.lasts_ms = TURN_MS, .is_stopping = is_stopping, .context = janitor};
    struct error err = {0};
    bool has_more = false;

    if (!registry_tidy_in_turn(janitor->gateway->registry, janitor->pg, &turn, &has_more, &err).ok)
        log_error("cleaning up failed; it is tried again", &err);
    return has_more;
}

/*
 * Every data key that keyd gave out is in its chain; count and head go into the log, so that an auditor can hold them
 * against the recorded reads: a gateway that was taken over can't use more keys than show (docs/keys.md).
 */
static void tell_unwraps(struct janitor *janitor)
{
    struct action_pair pair = {.action = ACTION_KEYD_UNWRAPS, .resource.kind = RESOURCE_SYSTEM};
    struct keyd_identity identity;
    char head[2 * sizeof identity.unwrap_chain + 1];
    OWNED(permit) *permit = NULL;
    struct error err = {0};

    if (!keyd_identify(janitor->gateway->keyd, &identity, &err).ok) return; /* /readyz says so already */
    if (identity.unwrap_count == janitor->unwraps_told) return;
    text_hex(identity.unwrap_chain, sizeof identity.unwrap_chain, head);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%" PRIu64 ",sha256:%s", identity.unwrap_count, head);
    if (!permit_for_job(janitor->gateway->sequencer, &pair, &permit, &err).ok) return;
    janitor->unwraps_told = identity.unwrap_count;
}

/* Asked and recorded in one turn: else a gateway that asked later could be in the log before one that asked earlier. */
static void record_unwraps(struct janitor *janitor)
{
    struct error ignored = {0};
    bool is_ours = false;

    if (!turn_begin(janitor->pg, TURN_OF_UNWRAPS, &is_ours, &ignored).ok || !is_ours) return; /* another gateway tells it */
    tell_unwraps(janitor);
    (void)turn_end(janitor->pg, TURN_OF_UNWRAPS, &ignored).ok; /* a connection that breaks ends it as well */
}

static bool is_connected(struct janitor *janitor)
{
    struct error ignored = {0}; /* the readers say it already */

    return !pg_is_broken(janitor->pg) || pg_reopen(janitor->pg, &ignored).ok;
}

static void *janitor_main(void *argument)
{
    struct janitor *janitor = argument;

    pace_patient();
    while (!is_stopping(janitor)) {
        bool has_more = false;
        registry_forget_old_keys(janitor->gateway->registry); /* also while the database is away */
        memory_give_back_free();
        if (is_connected(janitor)) {
            record_unwraps(janitor);
            has_more = mint_watch_look(&janitor->mints, janitor->gateway->keyd, janitor->pg);
            has_more = clean(janitor) || has_more;
        }
        if (!has_more) rest(janitor);
    }
    return NULL;
}

struct result janitor_start(struct gateway *gateway, struct janitor **janitor_out, struct error *err)
{
    OWNED(janitor) *janitor = memory_zeroed(1, sizeof *janitor);

    if (janitor == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for cleaning up");
    janitor->gateway = gateway;
    pthread_mutex_init(&janitor->mutex, NULL);
    clock_condition(&janitor->woken);
    TRY(pg_open(gateway->settings->database, gateway->tables, &janitor->pg, err));
    janitor->has_thread = pthread_create(&janitor->thread, NULL, janitor_main, janitor) == 0;
    if (!janitor->has_thread) return failure(err, ERROR_NO_MEMORY, "can't start the thread that cleans up");
    *janitor_out = GIVE(janitor);
    return SUCCESS;
}

void janitor_free(struct janitor *janitor)
{
    if (janitor == NULL) return;
    pthread_mutex_lock(&janitor->mutex);
    janitor->is_stopping = true;
    pthread_cond_signal(&janitor->woken);
    pthread_mutex_unlock(&janitor->mutex);
    if (janitor->has_thread) pthread_join(janitor->thread, NULL);
    pg_free(janitor->pg);
    pthread_cond_destroy(&janitor->woken);
    pthread_mutex_destroy(&janitor->mutex);
    free(janitor);
}
